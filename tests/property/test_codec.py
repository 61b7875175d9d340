"""Whatever a producer writes is read as it was meant, or is poison; nothing else happens."""

import json
import random
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from hourhand.actors.model.task.codec import (
    REASON_CHARS_MAX,
    Command,
    CommandKind,
    LogRecord,
    decode_record,
    encode_command,
    encode_task,
)
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.values.errors import PoisonRecord
from hourhand.actors.model.values.instant import from_millis
from tests.builders import a_record
from tests.fuzz.records import hostile_record
from tests.property.strategies import instants_ms, json_objects, keys, offsets

whole_minutes = st.integers(-23 * 60 - 59, 23 * 60 + 59)
inner_instants_ms = st.integers(-62_135_000_000_000, 253_402_000_000_000)
"""Instants that no zone carries out of the years 1 to 9999."""


@given(keys, json_objects, offsets)
def test_a_task_is_read_as_it_was_written(
    key: TaskKey, data: dict[str, JsonValue], offset: int
) -> None:
    """Decoding what the client encoded gives the same key and the same data."""
    task = Task(
        ordering_id=key.ordering_id,
        scheduled_time=key.scheduled_time,
        uniqueness_key=key.uniqueness_key,
        data=data,
    )

    stored = decode_record(a_record(value=encode_task(task), offset=offset))

    assert isinstance(stored, StoredTask)
    assert (stored.key, stored.offset) == (key, offset)
    assert stored.to_task() == task


@given(keys, json_objects)
def test_the_format_is_compact_json_in_the_order_of_the_design(
    key: TaskKey, data: dict[str, JsonValue]
) -> None:
    """Any JSON reader finds the five fields, in order, and no white space between them."""
    task = Task(
        ordering_id=key.ordering_id,
        scheduled_time=key.scheduled_time,
        uniqueness_key=key.uniqueness_key,
        data=data,
    )

    written = encode_task(task)

    fields = json.loads(written)
    assert list(fields) == [
        "orderingId",
        "scheduledTime",
        "uniquenessKey",
        "taskData",
        "version",
    ]
    assert fields["taskData"] == data
    assert fields["scheduledTime"][-5] == "."
    for name in fields:
        assert b'"%b":' % name.encode() in written


@given(
    key=keys,
    data=json_objects,
    order=st.permutations(["orderingId", "scheduledTime", "uniquenessKey", "taskData", "version"]),
    indent=st.sampled_from([None, 1, 4]),
    ascii_only=st.booleans(),
    extra=st.booleans(),
)
def test_any_producers_json_is_read(
    key: TaskKey,
    data: dict[str, JsonValue],
    order: list[str],
    indent: int | None,
    ascii_only: bool,
    extra: bool,
) -> None:
    """Field order, white space, escapes and fields of a later version do not matter."""
    fields: dict[str, object] = {
        "orderingId": key.ordering_id,
        "scheduledTime": key.scheduled_time.isoformat(),
        "uniquenessKey": key.uniqueness_key,
        "taskData": data,
        "version": 1,
    }
    shuffled = {name: fields[name] for name in order}
    if extra:
        shuffled["traceparent"] = {"nested": [1, None]}
    value = json.dumps(shuffled, indent=indent, ensure_ascii=ascii_only).encode()

    stored = decode_record(a_record(value=value))

    assert isinstance(stored, StoredTask)
    assert stored.key == key
    assert stored.to_task().data == data


@given(inner_instants_ms, whole_minutes, st.text("0123456789", max_size=12))
def test_offsets_and_fractions_of_a_time_are_read(
    time_ms: int, offset_minutes: int, surplus_digits: str
) -> None:
    """A zone moves nothing, and digits after the millisecond are cut."""
    zone = timezone(timedelta(minutes=offset_minutes))
    local = from_millis(time_ms).astimezone(zone)
    text = f"{local:%H:%M:%S}.{local.microsecond // 1000:03d}{surplus_digits}"
    offset = "Z" if offset_minutes == 0 else f"{local:%z}"[:3] + ":" + f"{local:%z}"[3:]
    value = json.dumps(
        {
            "orderingId": "a",
            "scheduledTime": f"{local.date().isoformat()}T{text}{offset}",
            "uniquenessKey": "",
        }
    ).encode()

    stored = decode_record(a_record(value=value))

    assert isinstance(stored, StoredTask)
    assert stored.key.scheduled_ms == time_ms


@given(
    kind=st.sampled_from([kind for kind in CommandKind if kind is not CommandKind.REPLACE]),
    key=keys,
    to_ms=instants_ms,
    offset=offsets,
    recorded_ms=instants_ms,
)
def test_a_command_is_read_as_it_was_written(
    kind: CommandKind, key: TaskKey, to_ms: int, offset: int, recorded_ms: int
) -> None:
    """Decoding an encoded command gives it back, with its place in the log; a replace is the record
    of its task.
    """
    to = to_ms if kind is CommandKind.RESCHEDULE else None
    value = encode_command(Command(kind, key, to_ms=to))

    read = decode_record(a_record(value=value, offset=offset, timestamp_ms=recorded_ms))

    assert read == Command(kind, key, offset, recorded_ms, to)


@given(st.binary(max_size=200))
def test_hostile_bytes_are_poison_and_nothing_else(value: bytes) -> None:
    """No sequence of bytes raises anything but PoisonRecord."""
    with pytest.raises(PoisonRecord):
        decode_record(a_record(value=value))


_VALID = encode_task(
    Task(
        ordering_id="customer-7",
        scheduled_time=datetime(2026, 2, 9, 1, 41, 12, 959_000, tzinfo=UTC),
        uniqueness_key="invoice-42",
        data={"invoice": [42, None, 1.5, "ü"]},
    )
)


@given(
    position=st.integers(0, len(_VALID) - 1),
    removed=st.integers(0, 20),
    inserted=st.binary(max_size=20),
)
def test_a_damaged_record_is_read_or_is_poison(
    position: int, removed: int, inserted: bytes
) -> None:
    """A record with some bytes replaced can be used in full, or is refused with a reason."""
    value = _VALID[:position] + inserted + _VALID[position + removed :]

    try:
        read = decode_record(a_record(value=value))
    except PoisonRecord as error:
        assert 0 < len(str(error)) <= REASON_CHARS_MAX  # noqa: PT017 - either is right
    else:
        assert isinstance(read, StoredTask)
        assert TaskKey.parse(str(read.key)) == read.key
        assert isinstance(read.to_task().data, dict)


_NO_TRACE = (("note", b"not ours"),)
"""A header that says nothing to us: its record is read the general way."""


def _read(record: LogRecord) -> object:
    """Return what a record is read as, with all that its row holds, or why it is poison."""
    try:
        read = decode_record(record)
    except PoisonRecord as error:
        return str(error)
    return (*read.key, read.data, read.offset) if isinstance(read, StoredTask) else read


def _both_ways(value: bytes) -> tuple[object, object]:
    """Return what a value is read as without a header, and with one that changes nothing."""
    return _read(a_record(value=value)), _read(a_record(value=value, headers=_NO_TRACE))


@given(
    position=st.integers(0, len(_VALID)),
    removed=st.integers(0, 20),
    inserted=st.binary(max_size=20),
)
def test_p10_the_short_way_reads_a_damaged_record_as_the_general_way_does(
    position: int, removed: int, inserted: bytes
) -> None:
    """The same row, or poison for the same reason."""
    usual, general = _both_ways(_VALID[:position] + inserted + _VALID[position + removed :])

    assert usual == general


def test_p10_the_short_way_reads_hostile_records_as_the_general_way_does() -> None:
    """The fuzzer's records: some are tasks, some are commands, most are poison."""
    rng = random.Random(32)
    kinds = set()
    for number in range(4_000):
        value = hostile_record(rng, number, 4).value
        if value is not None:
            usual, general = _both_ways(value)
            assert usual == general
            kinds.add(type(usual))

    assert kinds == {tuple, str, Command}


@pytest.mark.parametrize("characters", [0, 1, 8_189, 8_190, 8_191, 32_760, 32_761])
@pytest.mark.parametrize("character", ["a", "\U0001f600"])
@pytest.mark.parametrize("name", ["orderingId", "uniquenessKey"])
def test_p10_the_short_way_knows_how_long_an_id_may_be(
    name: str, character: str, characters: int
) -> None:
    """To the byte."""
    fields = json.loads(_VALID) | {name: character * characters}

    usual, general = _both_ways(json.dumps(fields).encode())

    assert usual == general
    too_long = len((character * characters).encode()) > 32_760
    assert isinstance(usual, str) == (too_long or (name == "orderingId" and not characters))
