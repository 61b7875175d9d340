"""The kind of a task: in its record, in its row, and never in what user code sees."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourhand.actors.model.task.codec import LogRecord, decode_record, encode_task, letter_of
from hourhand.actors.model.task.kind import (
    KIND_PATTERN,
    carried_kind,
    checked_kind,
    with_kind,
    without_kind,
)
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.task.trace import carried_context, with_context
from hourhand.actors.model.values.errors import InvalidTask, PoisonRecord
from tests.builders import NOW_MS, a_task

CONTEXT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
KINDS = st.from_regex(KIND_PATTERN, fullmatch=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def record_of(value: bytes) -> LogRecord:
    """Return a record of the log."""
    return LogRecord(0, 7, NOW_MS, b"o", value)


def read(value: bytes) -> StoredTask:
    """Return the row that a record makes."""
    found = decode_record(record_of(value))
    assert isinstance(found, StoredTask)
    return found


@given(st.dictionaries(st.text(), JSON, max_size=4), KINDS, st.booleans())
def test_a_row_carries_its_kind_whatever_its_data(
    data: dict[str, object], kind: str, traced: bool
) -> None:
    """With a trace or without: what its producer wrote comes back."""
    written = json.dumps(data).encode()

    row = with_kind(written, kind)
    row = with_context(row, CONTEXT) if traced else row

    assert carried_kind(row) == kind and json.loads(without_kind(row)) == data
    assert carried_context(row) == (CONTEXT if traced else None)
    assert carried_kind(written) is None and without_kind(written) == written


def test_a_task_keeps_its_kind_from_the_client_to_user_code() -> None:
    """User code sees it as a field, and its data as they were given."""
    task = Task(
        ordering_id="o",
        scheduled_time=datetime(2026, 1, 1, tzinfo=UTC),
        uniqueness_key="u",
        data={"a": 1},
        kind="send-mail",
    )

    assert json.loads(encode_task(task))["kind"] == "send-mail"
    assert read(encode_task(task)).to_task() == task


def test_a_task_without_a_kind_has_none_anywhere() -> None:
    """Its record is the one of the version before, byte for byte."""
    task = a_task()

    assert b"kind" not in encode_task(task)
    assert read(encode_task(task)).kind is None and read(encode_task(task)).to_task().kind is None


@pytest.mark.parametrize("kind", ["", "a b", "ä", '"', "x" * 65, "-a"])
def test_what_cannot_be_a_kind_is_refused_at_either_end(kind: str) -> None:
    """The caller is told; a record of another producer goes to the dead letters."""
    with pytest.raises(InvalidTask, match="kind"):
        a_task(kind=kind)
    fields = json.loads(encode_task(a_task()))
    with pytest.raises(PoisonRecord, match="is not a kind"):
        read(json.dumps({**fields, "kind": kind}).encode())


def test_a_dead_letter_names_the_kind_as_a_record_does() -> None:
    """So that it can be replayed as it is."""
    row = read(encode_task(a_task(kind="charge", data={"a": 1})))

    value = letter_of(row, 0, NOW_MS).value

    assert value is not None
    assert json.loads(value)["kind"] == "charge" and json.loads(value)["taskData"] == {"a": 1}
    assert read(value).kind == "charge"


def test_the_text_of_a_row_chooses_nothing_as_the_data_of_a_record() -> None:
    """A member of the data is data; the field of the record says the kind."""
    row = read(encode_task(a_task(kind="charge")))
    fields = json.loads(encode_task(a_task()))

    again = {**fields, "taskData": json.loads(row.body)}
    carried = json.dumps(again, separators=(",", ":")).encode()
    renamed = json.dumps({**again, "kind": "mail"}, separators=(",", ":")).encode()

    assert (read(carried).kind, read(renamed).kind) == (None, "mail")
    assert read(carried).to_task().data == read(renamed).to_task().data == json.loads(row.body)


def test_empty_data_carries_a_kind_without_a_comma() -> None:
    """And stay JSON."""
    assert json.loads(with_kind(b"{ }", "Invoice")) == json.loads(with_kind(b"{}", "Invoice"))


def test_what_cannot_be_a_kind_is_shown() -> None:
    """So that its caller finds it."""
    with pytest.raises(ValueError, match="'no kind'"):
        checked_kind("no kind")
