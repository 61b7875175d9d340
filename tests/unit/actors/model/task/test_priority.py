"""The priority of a task: in its record, in its row, and never in the data that user code sees."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourhand.actors.model.task.codec import LogRecord, decode_record, encode_task, letter_of
from hourhand.actors.model.task.kind import carried_kind, with_kind
from hourhand.actors.model.task.priority import (
    PRIORITY_MAX,
    carried_priority,
    with_priority,
    without_members,
)
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.task.trace import carried_context, with_context
from hourhand.actors.model.values.errors import InvalidTask, PoisonRecord
from tests.builders import NOW_MS, a_task

CONTEXT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PRIORITIES = st.integers(-PRIORITY_MAX, PRIORITY_MAX)
VALUES: st.SearchStrategy[object] = st.none() | st.integers() | st.text() | st.just([])
DATA = st.dictionaries(st.text(), VALUES, max_size=4)


def a_given_task(priority: Any, kind: str | None = None) -> Task:
    """Return a task with a priority of its own."""
    return Task(
        ordering_id="o",
        scheduled_time=datetime(2026, 1, 1, tzinfo=UTC),
        uniqueness_key="u",
        data={"a": 1},
        kind=kind,
        priority=priority,
    )


def read(value: bytes) -> StoredTask:
    """Return the row that a record makes."""
    found = decode_record(LogRecord(0, 7, NOW_MS, b"o", value))
    assert isinstance(found, StoredTask)
    return found


@given(DATA, PRIORITIES, st.sampled_from([None, "mail", "x" * 64]), st.booleans())
def test_a_row_carries_its_priority_whatever_else_it_carries(
    data: dict[str, object], priority: int, kind: str | None, traced: bool
) -> None:
    """In either order of writing, and what its producer wrote comes back."""
    written = json.dumps(data).encode()
    row = with_priority(written, priority)
    row = row if kind is None else with_kind(row, kind)
    late = with_priority(written if kind is None else with_kind(written, kind), priority)
    row = with_context(row, CONTEXT) if traced else row

    assert carried_priority(row) == carried_priority(late) == priority
    assert carried_kind(row) == carried_kind(late) == kind
    assert carried_context(row) == (CONTEXT if traced else None)
    assert json.loads(without_members(row)) == json.loads(without_members(late)) == data
    assert carried_priority(written) is None and without_members(written) == written
    assert carried_priority(with_priority(row, 1)) == 1


@pytest.mark.parametrize("kind", [None, "send-mail"])
@pytest.mark.parametrize("priority", [-100, 0, 100])
def test_a_task_keeps_its_priority_from_the_client_to_user_code(
    kind: str | None, priority: int
) -> None:
    """And to the dead-letter topic and back."""
    task = a_given_task(priority, kind)
    row = read(encode_task(task))
    letter = letter_of(row, 0, NOW_MS).value

    assert json.loads(encode_task(task))["priority"] == priority
    assert row.to_task() == task and row.to_task().data == {"a": 1}
    assert letter is not None and read(letter).to_task() == task


def test_a_task_without_a_priority_has_none_anywhere() -> None:
    """Its record is the one of the version before."""
    assert "priority" not in json.loads(encode_task(a_task()))
    assert read(encode_task(a_task())).priority is None


@pytest.mark.parametrize("wrong", [101, -101, True, 1.5, "5"])
def test_what_is_not_a_priority_is_refused(wrong: object) -> None:
    """Of a caller with the field and the value; a record of another producer is a dead letter."""
    with pytest.raises(InvalidTask, match=r"priority: .*got"):
        a_given_task(wrong)
    record = {**json.loads(encode_task(a_task())), "priority": wrong}
    with pytest.raises(PoisonRecord):
        read(json.dumps(record).encode())


@pytest.mark.parametrize(
    "data",
    [
        b'{"hourhand.priority":101}',
        b'{"hourhand.priority":1.5}',
        b'{"hourhand.priority":"5"}',
        b'{"hourhand.priority":007}',
        b'{"a":{"hourhand.priority":5}}',
        b'{"hourhand.priority":5,"a":1}',
    ],
)
def test_a_member_that_is_not_ours_is_data(data: bytes) -> None:
    """A row that has one stops nothing."""
    assert carried_priority(data) is None and without_members(data) == data
