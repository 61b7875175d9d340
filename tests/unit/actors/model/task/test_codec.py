"""The record format by example: what is written, what is read, what is poison."""

import json

import msgspec
import pytest

from hourhand.actors.model.task.codec import (
    REASON_CHARS_MAX,
    Command,
    CommandKind,
    LogRecord,
    decode_record,
    encode_command,
    encode_data,
    encode_parts,
    encode_task,
    letter_of,
    record_bytes,
    replacing,
)
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.kind import with_kind
from hourhand.actors.model.task.task import ID_BYTES_MAX, StoredTask, Task
from hourhand.actors.model.task.trace import TRACEPARENT, with_context
from hourhand.actors.model.values.errors import InvalidTask, PoisonRecord
from hourhand.actors.model.values.instant import format_instant
from tests.builders import CHANGING, NOW_MS, a_key, a_record, a_task

_KEY = b'"orderingId":"a","scheduledTime":"2026-02-09T01:41:12.959Z","uniquenessKey":"b"'


def test_a_record_is_written_as_the_design_says() -> None:
    """Compact, in field order, three millisecond digits, version last."""
    assert (
        encode_task(a_task(due_in_ms=0, data={"invoice": 42, "ü": None}))
        == (
            '{"orderingId":"customer-7","scheduledTime":"2026-02-09T01:41:12.959Z",'
            '"uniquenessKey":"invoice-42","taskData":{"invoice":42,"ü":null},"version":1}'
        ).encode()
    )


def test_a_command_is_the_same_object_with_a_command() -> None:
    """A reschedule has the new time beside it."""
    key = TaskKey(NOW_MS, "a", "b")

    assert encode_command(Command(CommandKind.CANCEL, key)) == (
        b"{" + _KEY + b',"taskData":{},"version":1,"command":"cancel"}'
    )
    assert encode_command(Command(CommandKind.RESCHEDULE, key, to_ms=0)) == (
        b"{" + _KEY + b',"taskData":{},"version":1,"command":"reschedule",'
        b'"to":"1970-01-01T00:00:00.000Z"}'
    )


def test_data_and_version_may_be_missing() -> None:
    """A producer that has nothing to say need not say it."""
    read = decode_record(a_record(value=b"{" + _KEY + b"}", offset=7))

    assert read == StoredTask(TaskKey(NOW_MS, "a", "b"), b"{}", 7)


def test_data_is_kept_as_the_producer_wrote_it() -> None:
    """Large integers and odd spellings of floats survive untouched."""
    data = b'{ "n": 123456789012345678901234567890, "x": 1.50e+2 }'

    read = decode_record(a_record(value=b"{" + _KEY + b',"taskData":' + data + b"}"))

    assert isinstance(read, StoredTask)
    assert read.data == data
    assert read.to_task().data == {"n": 123456789012345678901234567890, "x": 150.0}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "truncated"),
        (b"null", "Expected `object`"),
        (b"[]", "Expected `object`"),
        (b"{}", "missing required field `orderingId`"),
        (b"\xff", "malformed"),
        (b'{"orderingId":"a","uniquenessKey":"b"}', "no scheduledTime"),
        (b'{"orderingId":"a","scheduledTime":null,"uniquenessKey":"b"}', "Expected `str`"),
        (b"{" + _KEY + b',"version":2}', "version 2 is unknown, this node reads 1"),
        (b"{" + _KEY + b',"version":"1"}', "Expected `int`"),
        (b"{" + _KEY + b',"taskData":null}', "Expected `object`"),
        (b"{" + _KEY + b',"taskData":[1]}', "Expected `object`"),
        (b"{" + _KEY + b',"taskData":{"a":NaN}}', "malformed"),
        (b"{" + _KEY + b',"taskData":{"a":1e999}}', "out of range"),
        (b"{" + _KEY + b',"taskData":{"a":"\xff"}}', "can't decode byte 0xff"),
        (b"{" + _KEY + b',"taskData":{"a":"\\ud800"}}', "truncated"),
        (
            # How deep is too deep, and in which words, differs between versions of Python.
            b"{" + _KEY + b',"taskData":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
            "recursion|Stack overflow",
        ),
        (b"{" + _KEY + b',"command":"explode"}', "known are cancel, reschedule"),
        (b"{" + _KEY + b',"command":"reschedule"}', '"to" belongs to a reschedule'),
        (
            b"{" + _KEY + b',"command":"cancel","to":"2026-02-09T01:41:12.959Z"}',
            '"to" belongs to a reschedule',
        ),
        (b"{" + _KEY + b',"command":"reschedule","to":"soon"}', "'soon' is not an RFC 3339"),
        (_KEY.join((b"{", b"}")).replace(b'"a"', b'""'), "orderingId is empty"),
        (_KEY.join((b"{", b"}")).replace(b'"a"', b'"\\ud800"'), "surrogate"),
        (_KEY.join((b"{", b"}")).replace(b"12.959Z", b"12.959"), "with a time zone"),
        (
            _KEY.join((b"{", b"}")).replace(
                b"2026-02-09T01:41:12.959Z", b"0001-01-01T00:00:00+01:00"
            ),
            "years 1 to 9999",
        ),
    ],
)
def test_p10_what_cannot_be_read_is_poison_with_its_reason(value: bytes, why: str) -> None:
    """The reason says what was wrong with which field."""
    with pytest.raises(PoisonRecord, match=why.replace("(", r"\(")):
        decode_record(a_record(value=value))


def test_p10_a_record_without_a_value_is_poison() -> None:
    """A tombstone means nothing in this log."""
    with pytest.raises(PoisonRecord, match="no value"):
        decode_record(LogRecord(0, 0, NOW_MS, b"a", None))


@pytest.mark.parametrize("field", [b'"orderingId":"a"', b'"uniquenessKey":"b"'])
def test_p10_an_id_no_row_can_hold_is_poison(field: bytes) -> None:
    """The limit is in UTF-8 bytes, and exactly the limit is read."""
    name = field.partition(b":")[0]

    def value_of(size_bytes: int) -> bytes:
        return b"{" + _KEY.replace(field, name + b':"' + b"x" * size_bytes + b'"') + b"}"

    assert isinstance(decode_record(a_record(value=value_of(ID_BYTES_MAX))), StoredTask)
    with pytest.raises(PoisonRecord, match="longer than the 32760 bytes"):
        decode_record(a_record(value=value_of(ID_BYTES_MAX + 1)))


def test_p10_the_reason_stays_short_however_long_the_record_is() -> None:
    """It is sent beside the record, which may already have the largest size there is."""
    value = b"{" + _KEY + b',"command":"' + b"x" * 900_000 + b'"}'

    with pytest.raises(PoisonRecord) as caught:
        decode_record(a_record(value=value))

    assert len(str(caught.value)) == REASON_CHARS_MAX


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_has_not_is_refused(number: float) -> None:
    """When the task is made, and in what was put into it afterwards: null would stand for it."""
    with pytest.raises(InvalidTask, match=r"data\.b\.0: .* not infinite or NaN"):
        a_task(data={"a": None, "b": [number]})
    task = a_task(data={"a": None})
    task.data["b"] = [number]
    with pytest.raises(InvalidTask, match="data is not JSON"):
        encode_data(task)


def test_a_lone_surrogate_in_data_is_refused() -> None:
    """No UTF-8 text can hold it."""
    with pytest.raises(InvalidTask, match="surrogates not allowed"):
        encode_data(a_task(data={"a": "\ud800"}))


def test_data_slipped_past_validation_is_still_refused() -> None:
    """``model_copy`` checks nothing, so the encoder does not rely on the model."""
    tampered: Task = a_task().model_copy(update={"data": {"a": object()}})

    with pytest.raises(InvalidTask, match="data is not JSON"):
        encode_data(tampered)


def test_a_command_knows_the_key_a_task_moves_to() -> None:
    """Run-now moves to the time of its record, and the others move nothing."""
    key = a_key()

    def new_key(kind: CommandKind, to_ms: int | None = None) -> TaskKey | None:
        return Command(kind, key, offset=3, recorded_ms=NOW_MS, to_ms=to_ms).new_key

    assert new_key(CommandKind.RESCHEDULE, 5) == TaskKey(5, key.ordering_id, key.uniqueness_key)
    assert new_key(CommandKind.RUN_NOW) == a_key(due_in_ms=0)
    for kind in (CommandKind.CANCEL, CommandKind.DROP, CommandKind.RETRY):
        assert new_key(kind) is None


def test_an_id_that_reads_like_null_is_no_reason_to_refuse_data() -> None:
    """Only the data is searched for what JSON cannot say."""
    task = a_task(ordering_id="null", uniqueness_key="NaN null", data={"none": None})

    assert json.loads(encode_task(task)) == {
        "orderingId": "null",
        "scheduledTime": format_instant(task.key.scheduled_ms),
        "uniquenessKey": "NaN null",
        "taskData": {"none": None},
        "version": 1,
    }


def test_a_record_holds_its_key_value_headers_and_an_object() -> None:
    """A header may have no content."""
    record = LogRecord(0, 0, 0, b"abc", b"value", (("name", b"12"), ("none", None)))

    assert record_bytes(record) == 500 + 3 + 5 + 4 + 2 + 4
    assert record_bytes(LogRecord(0, 0, 0, None, None)) == 500


_CONTEXT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("kind", [None, "Invoice"])
@pytest.mark.parametrize("context", [None, _CONTEXT])
def test_a_dead_letter_reads_as_the_task_it_was(kind: str | None, context: bytes | None) -> None:
    """With its kind, and in the trace it belongs to."""
    data = b'{"invoice":42}'
    data = data if kind is None else with_kind(data, kind)
    data = data if context is None else with_context(data, context)
    task = StoredTask(a_key(), data, 7)

    letter = letter_of(task, 3, NOW_MS)

    headers = () if context is None else ((TRACEPARENT, context),)
    assert (letter.partition, letter.offset, letter.timestamp_ms) == (3, 7, NOW_MS)
    assert (letter.key, letter.headers) == (b"customer-7", headers)
    assert letter.value is not None and json.loads(letter.value).get("kind") == kind
    assert decode_record(letter) == task


@pytest.mark.parametrize("kind", [None, "Invoice"])
def test_what_is_written_is_read(kind: str | None) -> None:
    """A task with a kind takes the longer way."""
    read = decode_record(a_record(task=a_task(kind=kind), offset=9))

    assert isinstance(read, StoredTask)
    assert (read.key, read.offset, read.kind) == (a_key(), 9, kind)


@pytest.mark.parametrize("command", CHANGING)
def test_a_command_that_is_written_is_read(command: CommandKind) -> None:
    """With where and when it stands in the log, and a reschedule with its new time."""
    to_ms = NOW_MS + 5 if command is CommandKind.RESCHEDULE else None
    written = Command(command, a_key(), 4, NOW_MS, to_ms)

    assert decode_record(a_record(value=encode_command(written), offset=4)) == written


@pytest.mark.parametrize("kind", [None, "Invoice"])
@pytest.mark.parametrize("context", [None, _CONTEXT])
def test_a_retry_brings_the_data_of_a_dead_letter(kind: str | None, context: bytes | None) -> None:
    """With its kind, and in the trace of the letter."""
    data = b'{"invoice":42}'
    data = data if kind is None else with_kind(data, kind)
    data = data if context is None else with_context(data, context)
    letter = letter_of(StoredTask(a_key(), data, 7), 3, NOW_MS)
    asked = Command(CommandKind.RETRY, a_key(), 4, NOW_MS, body=data)

    value = encode_command(asked)

    record = a_record(value=value, offset=4, headers=letter.headers)
    assert decode_record(record) == asked
    assert json.loads(value)["withData"] is True


@pytest.mark.parametrize("command", sorted(set(CommandKind) - {CommandKind.RETRY}))
def test_p10_only_a_retry_brings_data(command: CommandKind) -> None:
    """Else a producer means what no version knows."""
    to = b',"to":"2026-01-01T00:00:00Z"' if command is CommandKind.RESCHEDULE else b""
    value = b'{%b,"taskData":{},"command":"%b"%b,"withData":true}' % (
        _KEY,
        command.value.encode(),
        to,
    )
    with pytest.raises(PoisonRecord, match="withData"):
        decode_record(a_record(value=value))


@pytest.mark.parametrize("command", CHANGING)
def test_a_command_by_pair_that_is_written_is_read(command: CommandKind) -> None:
    """It has no time; the record's own stands for it until the task is found."""
    to_ms = NOW_MS + 5 if command is CommandKind.RESCHEDULE else None
    written = Command(command, a_key(), 4, to_ms=to_ms, by_pair=True)

    value = encode_command(written)

    assert b"scheduledTime" not in value
    key = a_key()._replace(scheduled_ms=NOW_MS)
    read = decode_record(a_record(value=value, offset=4))
    assert read == Command(command, key, 4, NOW_MS, to_ms, by_pair=True)


def test_a_command_by_pair_may_be_written_by_any_producer() -> None:
    """With no member that it does not need."""
    value = b'{"orderingId":"a","uniquenessKey":"b","command":"cancel"}'

    read = decode_record(a_record(value=value))

    assert read == Command(CommandKind.CANCEL, TaskKey(NOW_MS, "a", "b"), 0, NOW_MS, by_pair=True)


def test_p10_a_command_by_pair_needs_a_time_of_its_record() -> None:
    """Its outcome is kept by that time."""
    value = b'{"orderingId":"a","uniquenessKey":"b","command":"cancel"}'

    with pytest.raises(PoisonRecord, match="the record's own time"):
        decode_record(a_record(value=value, timestamp_ms=10**17))


def test_p10_a_version_from_before_keeps_a_command_by_pair_as_a_dead_letter() -> None:
    """It asked for the member, so it runs nothing and loses nothing."""

    class Before(msgspec.Struct, rename="camel"):
        ordering_id: str
        scheduled_time: str
        uniqueness_key: str
        command: str | None = None

    value = encode_command(Command(CommandKind.CANCEL, a_key(), by_pair=True))

    with pytest.raises(msgspec.ValidationError, match="missing required field `scheduledTime`"):
        msgspec.json.decode(value, type=Before)


def test_a_command_is_for_its_key_or_for_each_key_of_its_pair() -> None:
    """Whatever the time is."""
    key = a_key()
    other = key._replace(scheduled_ms=1)
    by_key = Command(CommandKind.CANCEL, key)
    by_pair = Command(CommandKind.CANCEL, key, by_pair=True)

    assert by_key.is_for(key) and not by_key.is_for(other)
    assert by_pair.is_for(other) and not by_pair.is_for(key._replace(uniqueness_key="x"))


@pytest.mark.parametrize("kind", [b"", b',"kind":"Invoice"'])
def test_p10_data_that_is_no_object_is_poison(kind: bytes) -> None:
    """With a kind and without."""
    with pytest.raises(PoisonRecord):
        decode_record(a_record(value=b"{" + _KEY + b',"taskData":[1]' + kind + b"}"))


def test_p10_the_reason_names_the_id_that_is_too_long() -> None:
    """By the name it has in the record."""
    key = _KEY.replace(b'"b"', b'"%b"' % (b"b" * (ID_BYTES_MAX + 1)))

    with pytest.raises(PoisonRecord, match="uniquenessKey is longer"):
        decode_record(a_record(value=b"{" + key + b"}"))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_no_record_is_written_of_a_number_that_json_has_not(number: float) -> None:
    """It would be read as nothing."""
    with pytest.raises(InvalidTask, match="not JSON"):
        encode_parts(a_key(), {"price": number, "note": "null"})

    assert b'"note":"null"' in encode_parts(a_key(), {"price": 1.5, "note": "null"})


@pytest.mark.parametrize("by_pair", [False, True])
def test_a_cancel_that_ends_code_is_written_and_read(by_pair: bool) -> None:
    """A node that does not know the member takes it for a cancel."""
    value = encode_command(Command(CommandKind.CANCEL, a_key(), running=True, by_pair=by_pair))

    read = decode_record(a_record(value=value, offset=4))

    assert isinstance(read, Command) and read.running and read.by_pair is by_pair
    assert value.endswith(b',"command":"cancel","running":true}')


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        (b'"command":"cancel","running":"yes"', "\"running\" is 'yes'"),
        (b'"command":"drop","running":true', '"running" belongs to a cancel'),
    ],
)
def test_p10_what_ends_code_is_not_guessed(members: bytes, reason: str) -> None:
    """A command that cannot be meant is put aside."""
    with pytest.raises(PoisonRecord, match=reason):
        decode_record(a_record(value=b"{" + _KEY + b"," + members + b"}"))


def test_a_task_may_have_a_member_of_any_kind_that_commands_know() -> None:
    """Members that say nothing of a task are ignored."""
    value = b"{" + _KEY + b',"taskData":{},"running":"yes"}'

    assert isinstance(decode_record(a_record(value=value)), StoredTask)


def test_a_replace_is_the_record_of_its_task_and_a_word_more() -> None:
    """So any producer may write one; kind and priority stand where a task's do."""
    task = a_task(kind="mail", priority=3, data={"n": 1})
    value = replacing(encode_task(task))

    read = decode_record(a_record(value=value, offset=4))

    assert isinstance(read, Command) and read.kind is CommandKind.REPLACE
    assert (read.new_key, read.by_pair, read.offset) == (task.key, True, 4)
    row = decode_record(a_record(value=encode_task(task)))
    assert isinstance(row, StoredTask) and read.body == row.body
    assert encode_command(read) == value


@pytest.mark.parametrize(
    "wrong", [b',"to":"2026-01-01T00:00:00Z"', b',"withData":true', b',"running":true']
)
def test_p10_a_replace_with_members_of_other_commands_is_poison(wrong: bytes) -> None:
    """And so is one without a time of its own."""
    value = replacing(encode_task(a_task()))
    with pytest.raises(PoisonRecord, match="belongs to"):
        decode_record(a_record(value=value[:-1] + wrong + b"}"))
    without = b'{"orderingId":"a","uniquenessKey":"b","command":"replace"}'
    with pytest.raises(PoisonRecord, match="the time of its new task"):
        decode_record(a_record(value=without))
