"""Reading: where it begins, what is delivered, in which order, and where it has come to."""

from collections.abc import Callable

import pytest

from tests.conformance.log_bench import (
    WAIT_S,
    Bench,
    LogWorld,
    append_all,
    poll_for,
    poll_until,
)
from tests.waiting import until

QUIET_S = 0.5
"""Long enough for a record that must not be delivered to arrive."""


class ReadingContract:
    """One member, its partitions and their records."""

    @pytest.fixture
    def bench(self, log_world: LogWorld, request: pytest.FixtureRequest) -> "Callable[..., Bench]":
        """Return a function that makes a bench and closes it after the test."""

        def make(partitions: int = 1) -> Bench:
            made = Bench(log_world, partitions)
            request.addfinalizer(made.close)
            return made

        return make

    def test_every_partition_is_assigned_to_the_only_member(
        self, bench: Callable[..., Bench]
    ) -> None:
        """Nobody else could own them."""
        member = bench(3).join("a")
        poll_until(lambda: member.owned == {0, 1, 2}, member)

    def test_records_arrive_as_written_and_in_order(self, bench: Callable[..., Bench]) -> None:
        """Bytes, headers (twice the same name, no value) and offsets survive."""
        made = bench(1)
        headers = [("first", b"1"), ("none", None), ("first", b"\xff\x00")]
        offsets = append_all(made.writer(), 0, [b"a", b"", b"\x00\xff"], headers)
        member = made.join("a")
        poll_until(lambda: len(member.records) == 3, member)
        assert [each.offset for each in member.records] == offsets
        assert member.values(0) == [b"a", b"", b"\x00\xff"]
        first = member.records[0]
        assert (first.partition, first.key, list(first.headers)) == (0, b"key", headers)
        assert first.timestamp_ms > 0

    def test_order_holds_within_each_partition(self, bench: Callable[..., Bench]) -> None:
        """Whatever the order between partitions is."""
        made = bench(3)
        writer = made.writer()
        expected = {p: [b"%d-%d" % (p, n) for n in range(300)] for p in range(3)}
        for partition, values in expected.items():
            append_all(writer, partition, values)
        member = made.join("a")
        poll_until(lambda: len(member.records) == 900, member)
        assert {p: member.values(p) for p in range(3)} == expected

    def test_nothing_is_delivered_before_start(self, bench: Callable[..., Bench]) -> None:
        """A partition is held until the node knows where it begins."""
        made = bench(1)
        append_all(made.writer(), 0, [b"a"])
        member = made.join("a")
        member.starts_when_assigned = False
        poll_until(lambda: member.owned == {0}, member)
        poll_for(QUIET_S, member)
        assert not member.records
        member.starts_when_assigned = True
        poll_until(lambda: member.values(0) == [b"a"], member)

    def test_start_tells_position_and_end(self, bench: Callable[..., Bench]) -> None:
        """With records, and on an empty partition."""
        made = bench(2)
        offsets = append_all(made.writer(), 0, [b"a", b"b"])
        member = made.join("a")
        poll_until(lambda: len(member.starts) == 2, member)
        assert member.starts[0].next_offset == offsets[0]
        assert member.starts[0].end_offset == offsets[-1] + 1
        assert member.starts[1].next_offset == member.starts[1].end_offset

    def test_reached_passes_each_record_and_comes_to_the_end(
        self, bench: Callable[..., Bench]
    ) -> None:
        """The offset that was reached is the next one to read."""
        made = bench(1)
        append_all(made.writer(), 0, [b"a", b"b", b"c"])
        member = made.join("a")
        poll_until(lambda: len(member.records) == 3, member)
        assert member.reached[0] >= member.records[-1].offset + 1
        poll_until(lambda: member.reached.get(0) == member.starts[0].end_offset, member)

    def test_a_poll_returns_no_more_than_asked_for(self, bench: Callable[..., Bench]) -> None:
        """And ``reached`` goes no further than what was returned."""
        made = bench(1)
        append_all(made.writer(), 0, [b"%d" % n for n in range(25)])
        member = made.join("a")
        poll_until(lambda: member.owned == {0}, member)
        until(lambda: member.start(0))
        sizes: list[int] = []
        while sum(sizes) < 25:
            polled = member.log.poll(10, 500)
            sizes.append(len(polled.records))
            if polled.records:
                assert polled.reached[0] == polled.records[-1].offset + 1
            assert len(sizes) < 100
        assert max(sizes) <= 10

    def test_a_poll_for_no_records_delivers_none_and_loses_none(
        self, bench: Callable[..., Bench]
    ) -> None:
        """However often it is called while records arrive."""
        made = bench(1)
        writer = made.writer()
        append_all(writer, 0, [b"%d" % n for n in range(50)])
        member = made.join("a")
        poll_until(lambda: 0 in member.starts, member)
        for n in range(20):
            polled = member.poll(0, 20)
            assert not polled.records
            if not n % 5:
                append_all(writer, 0, [b"late %d" % n])
        read = list(member.values(0))
        poll_until(lambda: len(member.records) == 54, member)
        assert member.values(0)[: len(read)] == read
        assert member.values(0) == [b"%d" % n for n in range(50)] + [
            b"late %d" % n for n in (0, 5, 10, 15)
        ]

    def test_a_new_record_ends_the_wait_of_a_poll(self, bench: Callable[..., Bench]) -> None:
        """The timeout is for the first record only."""
        made = bench(1)
        writer = made.writer()
        member = made.join("a")
        poll_until(lambda: member.reached.get(0) == 0 or 0 in member.starts, member)
        poll_for(QUIET_S, member)
        appended = writer.append(0, b"key", b"a")
        for _ in range(10):
            if member.poll(10, 10_000).records:
                break
        assert member.values(0) == [b"a"]
        appended.result(WAIT_S)

    def test_seek_delivers_again(self, bench: Callable[..., Bench]) -> None:
        """Backwards to any record, without touching the other partition."""
        made = bench(2)
        writer = made.writer()
        offsets = append_all(writer, 0, [b"%d" % n for n in range(20)])
        append_all(writer, 1, [b"other"])
        member = made.join("a")
        poll_until(lambda: len(member.records) == 21, member)
        for back_to in (5, 0, 19, 12):
            member.records.clear()
            member.log.seek(0, offsets[back_to])
            expected = [b"%d" % n for n in range(back_to, 20)]
            poll_until(lambda: len(member.values(0)) >= len(expected), member)  # noqa: B023
            poll_for(0.1, member)
            assert member.values(0) == expected
            assert member.values(1) == []

    def test_seek_forgets_what_was_fetched_ahead(self, bench: Callable[..., Bench]) -> None:
        """Records that waited for delivery do not come twice."""
        made = bench(1)
        offsets = append_all(made.writer(), 0, [b"%d" % n for n in range(30)])
        member = made.join("a")
        poll_until(lambda: 0 in member.starts, member)
        for _ in range(5):
            member.poll(0, 50)
        member.poll(3, 1_000)
        member.records.clear()
        member.log.seek(0, offsets[1])
        poll_until(lambda: len(member.records) >= 29, member)
        assert member.values(0) == [b"%d" % n for n in range(1, 30)]

    def test_a_partition_that_is_held_delivers_nothing_and_the_others_go_on(
        self, bench: Callable[..., Bench]
    ) -> None:
        """Until it is sought again, wherever that is; what is committed of it stays asked for."""
        made = bench(2)
        writer = made.writer()
        offsets = append_all(writer, 0, [b"a", b"b", b"c"])
        member = made.join("a")
        poll_until(lambda: len(member.records) == 3 and len(member.starts) == 2, member)
        member.log.seek(0, None)
        append_all(writer, 0, [b"d"])
        append_all(writer, 1, [b"x"])
        poll_until(lambda: member.values(1) == [b"x"], member)
        append_all(writer, 1, [b"y"])
        poll_until(lambda: member.values(1) == [b"x", b"y"], member)
        poll_for(QUIET_S, member)
        held = member.values(0)
        member.log.seek(0, offsets[1])
        poll_until(lambda: len(member.values(0)) == 6, member)
        assert held == [b"a", b"b", b"c"]
        assert member.values(0)[3:] == [b"b", b"c", b"d"]

    def test_without_a_commit_everything_is_read_again(self, bench: Callable[..., Bench]) -> None:
        """At least once: what nobody committed is not gone."""
        made = bench(1)
        append_all(made.writer(), 0, [b"a", b"b"])
        first = made.join("a")
        first.holds_revocations = True
        poll_until(lambda: len(first.records) == 2, first)
        for future in first.revocations:
            future.set_result({})
        first.holds_revocations = False
        first.stored = {}
        first.reached.clear()
        made.leave(first)
        second = made.join("b")
        poll_until(lambda: second.values(0) == [b"a", b"b"], second)

    def test_a_commit_moves_the_start_of_the_next_member(self, bench: Callable[..., Bench]) -> None:
        """It begins at the committed offset, whatever was read."""
        made = bench(1)
        writer = made.writer()
        offsets = append_all(writer, 0, [b"a", b"b", b"c"])
        first = made.join("a")
        poll_until(lambda: len(first.records) == 3, first)
        first.reached[0] = offsets[1]
        made.leave(first)
        second = made.join("b")
        poll_until(lambda: len(second.records) == 2, second)
        assert second.starts[0].next_offset == offsets[1]
        assert second.values(0) == [b"b", b"c"]

    def test_the_higher_of_committed_and_stored_offset_wins(
        self, bench: Callable[..., Bench]
    ) -> None:
        """Either may be behind the other."""
        made = bench(1)
        offsets = append_all(made.writer(), 0, [b"%d" % n for n in range(10)])
        first = made.join("a")
        poll_until(lambda: len(first.records) == 10, first)
        first.reached[0] = offsets[4]
        made.leave(first)
        for stored, begins_at in ((7, 7), (2, 4)):
            member = made.join(f"stored {stored}")
            member.stored = {0: offsets[stored]}
            poll_until(lambda: 0 in member.starts, member)  # noqa: B023
            assert member.starts[0].next_offset == offsets[begins_at]
            member.reached[0] = offsets[4]
            made.leave(member)

    def test_a_stored_offset_alone_is_where_reading_begins(
        self, bench: Callable[..., Bench]
    ) -> None:
        """A group without offsets starts where the store says."""
        made = bench(1)
        offsets = append_all(made.writer(), 0, [b"a", b"b", b"c"])
        member = made.join("a")
        member.stored = {0: offsets[2]}
        poll_until(lambda: member.values(0) == [b"c"], member)

    def test_a_stored_offset_beyond_the_end_is_not_believed(
        self, bench: Callable[..., Bench]
    ) -> None:
        """The topic was recreated: reading begins at its first record."""
        made = bench(1)
        append_all(made.writer(), 0, [b"a", b"b"])
        member = made.join("a")
        member.stored = {0: 1_000_000}
        poll_until(lambda: member.values(0) == [b"a", b"b"], member)
