"""A task of a row is the task that was scheduled; and what is known of one row is merged."""

import copy
import gc
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, JsonValue, TypeAdapter

from hourhand.actors.model.task.codec import decode_record, encode_task
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask, Task
from tests.builders import a_key, a_record
from tests.property.strategies import json_objects, keys, stored_tasks


class _Holder(BaseModel):
    task: Task | None
    others: list[Task] = []


def _matched(task: Task) -> object:
    match task:
        case Task(ordering_id=ordering_id, data=data):
            return ordering_id, data


def _change(task: Task) -> None:
    task.kind = "other"  # type: ignore[misc]


def _state(task: Task) -> object:
    """Return the state; names in their order, as that of a set is any."""
    state = task.__getstate__()
    return state | {"__pydantic_fields_set__": sorted(state["__pydantic_fields_set__"])}


def _remove(task: Task) -> None:
    del task.data


LOOKS: dict[str, Callable[[Task], object]] = {
    "ordering_id": lambda task: task.ordering_id,
    "scheduled_time": lambda task: task.scheduled_time,
    "uniqueness_key": lambda task: task.uniqueness_key,
    "data": lambda task: task.data,
    "kind": lambda task: task.kind,
    "key": lambda task: task.key,
    "no such field": lambda task: task.nothing,  # type: ignore[attr-defined]
    "set": _change,
    "set data": lambda task: setattr(task, "data", {}),
    "del": _remove,
    "==": lambda task: task == task.model_copy(),
    "hash": hash,
    "repr": repr,
    "str": str,
    "format": format,
    "vars": vars,
    "dir": dir,
    "iter": list,
    "dict": dict,
    "class": lambda task: task.__class__,
    "isinstance": lambda task: (isinstance(task, Task), isinstance(task, _Holder)),
    "match": _matched,
    "fields_set": lambda task: sorted(task.model_fields_set),
    "extra": lambda task: task.model_extra,
    "private": lambda task: task.__pydantic_private__,
    "model_dump": lambda task: task.model_dump(),
    "model_dump of json": lambda task: task.model_dump(mode="json"),
    "model_dump of what was set": lambda task: task.model_dump(exclude_unset=True),
    "model_dump of what is not a default": lambda task: task.model_dump(exclude_defaults=True),
    "model_dump_json": lambda task: task.model_dump_json(),
    "model_copy": lambda task: task.model_copy(),
    "model_copy with another kind": lambda task: task.model_copy(update={"kind": "other"}),
    "deep model_copy": lambda task: task.model_copy(deep=True),
    "__replace__": lambda task: task.__replace__(data={"n": 1}),  # type: ignore[attr-defined]
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "deepcopy of two": lambda task: copy.deepcopy([task, task]),
    "pickle": lambda task: pickle.loads(pickle.dumps(task)),  # noqa: S301 - its own bytes
    "oldest pickle": lambda task: pickle.loads(pickle.dumps(task, 0)),  # noqa: S301
    "getstate": _state,
    "validated again": Task.model_validate,
    "validated by an adapter": lambda task: TypeAdapter(Task).validate_python(task, strict=True),
    "written by an adapter": lambda task: TypeAdapter(Task).dump_json(task),
    "written as anything": lambda task: TypeAdapter[object](object).dump_python(task),
    "in another model": lambda task: _Holder(task=task, others=[task]).model_dump(),
    "in another model's JSON": lambda task: _Holder(task=task, others=[task]).model_dump_json(),
    "as a field": lambda task: _Holder(task=task),
}
"""What a user can do with a task."""

priorities = st.none() | st.integers(-100, 100)
kinds = st.none() | st.sampled_from(["mail", "invoices.send"])


def _both(
    key: TaskKey, data: dict[str, JsonValue], kind: str | None, priority: int | None = None
) -> tuple[Task, Callable[[], Task]]:
    """Return a task as its caller wrote it, and what makes one of its row."""
    fields: dict[str, Any] = key._asdict() | {"data": data, "kind": kind}
    fields |= {"priority": priority, "expires": None}
    del fields["scheduled_ms"]
    written = Task(scheduled_time=key.scheduled_time, **fields)
    row = decode_record(a_record(value=encode_task(written)))
    assert isinstance(row, StoredTask)
    return written, row.to_task


def _seen(look: Callable[[Task], object], task: Task) -> tuple[str, object]:
    """Return what a look at a task gives, told in a form that shows the types within."""
    try:
        found = look(task)
    except Exception as error:  # noqa: BLE001 - what is raised is compared
        return "raised", (type(error), str(error))
    return repr(found), found


@given(key=keys, data=json_objects, kind=kinds, priority=priorities)
def test_a_row_gives_a_true_task(
    key: TaskKey, data: dict[str, JsonValue], kind: str | None, priority: int | None
) -> None:
    """Whatever is asked of it first, it answers as the task that was scheduled, and so it does
    whatever is asked next.
    """
    for name, look in LOOKS.items():
        written, made = _both(key, data, kind, priority)
        task = made()

        assert _seen(look, task) == _seen(look, written), name
        assert task == written, name
        assert written == task, name
        assert type(task) is Task, name


@given(key=keys, data=json_objects, kind=kinds)
def test_a_task_of_a_row_equals_the_one_that_was_scheduled(
    key: TaskKey, data: dict[str, JsonValue], kind: str | None
) -> None:
    """On either side, and another of the row too; a task of another row does not."""
    written, made = _both(key, data, kind)
    other = written.model_copy(update={"uniqueness_key": key.uniqueness_key + "x"})

    assert made() == written
    assert written == made()
    assert made() == made()
    assert made() != other
    assert other != made()
    assert [written].index(made()) == 0


@pytest.mark.parametrize("look", ["copy", "deepcopy", "deep model_copy", "pickle"])
def test_a_copy_is_a_task_of_its_own(look: str) -> None:
    """It has the same type, and it shares data where a copy does."""
    written, made = _both(a_key(), {"lines": [1]}, None)
    task = made()

    found = LOOKS[look](task)

    assert type(found) is Task
    assert found == written
    assert (found.data is task.data) == (look == "copy")


def test_threads_that_read_a_task_at_once_see_the_same_data() -> None:
    """What one of them changes in it is there for the other, also where a thread goes on while
    another one collects garbage.
    """
    _, made = _both(a_key(), {"lines": [1]}, None)
    unread = type(made())
    references = sys.getrefcount(unread)
    tasks = [made() for _ in range(5_000)]
    barrier, seen = threading.Barrier(2), dict[int, list[object]]()

    def read(reader: int) -> None:
        barrier.wait(60)
        seen[reader] = [task.data for task in tasks]

    def in_python(_phase: str, _facts: dict[str, int]) -> None:
        """Let threads switch amid a collection, as finalizers do."""

    interval_s, thresholds = sys.getswitchinterval(), gc.get_threshold()
    gc.set_threshold(5)
    sys.setswitchinterval(1e-6)
    gc.callbacks.append(in_python)
    try:
        threads = [threading.Thread(target=read, args=(reader,)) for reader in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        gc.callbacks.remove(in_python)
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval_s)

    assert all(one is other for one, other in zip(seen[0], seen[1], strict=True))
    assert all(task.data is data for task, data in zip(tasks, seen[0], strict=True))
    assert {type(task) for task in tasks} == {Task}
    # Fewer would free the class in the end.
    assert sys.getrefcount(unread) == references


rows = stored_tasks(a_key())


@given(rows, rows)
def test_p6_the_record_with_the_higher_offset_wins(one: StoredTask, other: StoredTask) -> None:
    """Data and offset come together from the later record, whichever side it is on."""
    merged = one.merged_with(other)

    last = other if other.offset >= one.offset else one
    assert (merged.offset, merged.data) == (last.offset, last.data)


@given(rows, rows)
def test_a_merge_forgets_no_attempt(one: StoredTask, other: StoredTask) -> None:
    """The row with more attempts tells of them, even where its record is the older one."""
    merged = one.merged_with(other)

    assert merged.attempts.last == max(one.attempts.last, other.attempts.last)
    assert merged.attempts in {one.attempts, other.attempts}
    assert merged.overdue_when_loaded == (one.overdue_when_loaded or other.overdue_when_loaded)


@given(rows, rows)
def test_merging_again_changes_nothing(one: StoredTask, other: StoredTask) -> None:
    """A record that is read twice has its effect once."""
    merged = one.merged_with(other)

    assert merged.merged_with(other) == merged
    assert merged.merged_with(other).attempts == merged.attempts
