"""Buckets of time for every delay: bounds, places, splits, marks and envelopes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.partition import partition_of
from hourhand.scheduler.kafka_only.bucket_layout import (
    BucketPlace,
    Layout,
    bucket_to_split,
    decode_layout,
    encode_layout,
    first_layout,
    ripe_ms,
)
from hourhand.scheduler.kafka_only.envelope import Envelope, NoEnvelope, pending, read_envelope
from hourhand.scheduler.kafka_only.marker import Marker, decode_marker, encode_marker
from hourhand.scheduler.services.relay.message import Message

DELAYS_MS = st.integers(-(10**6), 10**14)
MOMENTS_MS = st.integers(0, 10**13)
FIRST = first_layout(1_000, 2.0, 8)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """A layout after any number of splits."""
    first_ms = draw(st.integers(100, 100_000))
    first_partitions = draw(st.integers(1, 5))
    count = first_partitions + draw(st.integers(1, 11))
    layout = first_layout(first_ms, draw(st.floats(1.1, 10)), count, first_partitions)
    for number in range(draw(st.integers(0, 6))):
        index = draw(st.integers(0, len(layout.buckets) - 1))
        layout = layout.split(index, 100 + number, number)
    return layout


def test_the_first_layout_is_the_ancestor_s() -> None:
    """1 s, then twice as far each time, and the last one has no end."""
    assert [each.lower_ms for each in FIRST.buckets] == [0, *(1_000 * 2**n for n in range(7))]
    assert FIRST.place(10**15, b"k").partition == 7


@given(st.sampled_from([1, 2, 4, 8]), st.text(min_size=1))
def test_an_owner_of_the_first_bucket_writes_to_its_share_of_the_target(
    first_partitions: int, key: str
) -> None:
    """Both are chosen by one rule, so each of four owners has four of sixteen partitions."""
    layout = first_layout(1_000, 2.0, 10, first_partitions)

    place = layout.place(0, key.encode())
    assert place.partition == partition_of(key, 16) % first_partitions
    assert place.lower_ms == 0
    assert layout.place(1_000, key.encode()) == BucketPlace(first_partitions, 1_000)


@given(layouts(), DELAYS_MS, st.binary())
def test_a_message_never_rests_longer_than_it_waits(
    layout: Layout, delay_ms: int, key: bytes
) -> None:
    """So whoever moves it on when its rest is over is in time; and it rests as long as can be."""
    place = layout.place(delay_ms, key)

    assert place.lower_ms <= max(0, delay_ms)
    assert not any(place.lower_ms < each.lower_ms <= delay_ms for each in layout.buckets)
    assert place == layout.place(delay_ms, key)


@given(layouts(), DELAYS_MS, st.binary(), st.integers(0, 200))
def test_whoever_knows_fewer_partitions_is_in_time_too(
    layout: Layout, delay_ms: int, key: bytes, count: int
) -> None:
    """A layout without the newest partitions places no message worse than its delay."""
    known = layout.within(max(1, count))

    place = known.place(delay_ms, key)
    assert place.lower_ms <= max(0, delay_ms)
    assert place.partition < max(1, count)


@given(layouts(), st.data())
def test_a_split_keeps_every_partition_and_all_bounds(layout: Layout, data: st.DataObject) -> None:
    """Only the new one is added, and the bounds stay in order."""
    index = data.draw(st.integers(0, len(layout.buckets) - 1))
    split = layout.split(index, 99, 5)

    def partitions(each: Layout) -> list[int]:
        return sorted(p for bucket in each.buckets for p in bucket.partitions)

    assert partitions(split) == sorted([*partitions(layout), 99])
    lower_ms = [each.lower_ms for each in split.buckets]
    assert lower_ms == sorted(set(lower_ms))
    assert lower_ms[0] == 0
    assert split.version == layout.version + 1
    assert decode_layout(encode_layout(split)) == split
    assert split.index_of(99) in (index, index + 1)


@given(MOMENTS_MS, st.integers(0, 10**9), DELAYS_MS)
def test_a_message_is_moved_before_it_is_due(
    appended_ms: int, lower_ms: int, delay_ms: int
) -> None:
    """In the first bucket it waits until then; elsewhere it leaves a little before."""
    due_ms = appended_ms + delay_ms

    ripe = ripe_ms(appended_ms, lower_ms, due_ms)
    assert ripe <= due_ms
    assert (ripe == due_ms) or lower_ms


@given(
    st.integers(0, 10**9),
    st.sets(st.integers(0, 300)),
    st.integers(0, 300),
    st.from_regex("[A-Za-z0-9_-]*", fullmatch=True),
)
def test_a_mark_remembers_what_is_done(
    start: int, done: set[int], further: int, topic_id: str
) -> None:
    """Whatever was done beyond its offset, and all before; read back as it was written."""
    offsets = {start + each for each in done}
    first_left = start
    while first_left in offsets:
        first_left += 1
    marker = decode_marker(
        encode_marker(Marker(start, topic_id=topic_id).doing(offsets, first_left))
    )

    assert marker.topic_id == topic_id
    for offset in range(start, start + 310):
        assert marker.is_done(offset) == (offset in offsets)
    later = marker.doing((), marker.next_offset + further)
    assert all(later.is_done(each) for each in offsets)
    with pytest.raises(ValueError, match="never goes back"):
        later.doing((), later.next_offset - 1)


@given(
    st.none() | st.binary(),
    st.none() | st.binary(),
    st.lists(st.tuples(st.text(), st.none() | st.binary())),
    MOMENTS_MS,
    st.integers(0, 10**10),
)
def test_a_message_comes_out_of_its_bucket_byte_for_byte(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    now_ms: int,
    delay_ms: int,
) -> None:
    """Key, value and headers, whatever their names."""
    message = Message("target", key, value, tuple(headers))
    envelope = Envelope(now_ms + delay_ms, 0, "target", "origin", "id")

    record = pending("waiting", FIRST, envelope, message, now_ms)
    found, back = read_envelope(
        LogRecord(0, 0, now_ms, record.key, record.value, tuple(record.headers))
    )
    assert back == message
    assert (found.due_ms, found.topic, found.message_id) == (envelope.due_ms, "target", "id")
    assert found.lower_ms == FIRST.place(delay_ms, key or b"").lower_ms


@given(st.lists(st.tuples(st.text(), st.none() | st.binary())))
def test_a_record_of_others_has_no_slip(headers: list[tuple[str, bytes | None]]) -> None:
    """It is refused, whatever its headers are, and never guessed at."""
    with pytest.raises(NoEnvelope):
        read_envelope(LogRecord(0, 0, 0, None, None, tuple(headers)))


def test_the_fullest_bucket_is_split_and_then_left_alone() -> None:
    """Until what was in it at the split has gone."""
    occupancy = {2: 150, 3: 180, 4: 90}
    assert bucket_to_split(FIRST, occupancy, 100, 10_000) == 3

    split = FIRST.split(3, 8, 10_000)
    assert bucket_to_split(split, {3: 180, 8: 180}, 100, 10_000 + 2 * 4_000 - 1) is None
    assert bucket_to_split(split, {3: 180}, 100, 10_000 + 2 * 4_000) == 3
    assert bucket_to_split(FIRST, {2: 100}, 100, 10_000) is None
