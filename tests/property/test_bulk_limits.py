"""A bulk call, where tasks that are refused and ends of groups lie anywhere.

Whatever the window is, each task is accepted or refused, once and in order; one that is refused
takes none of its group with it, and what is as large as the limit is accepted.
"""

from concurrent.futures import Future

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hourhand.actors.model.task.codec import encode_task
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import (
    HourhandError,
    InvalidTask,
    TaskInThePast,
    TaskTooLarge,
)
from hourhand.actors.ports.log import Position
from tests.builders import a_task
from tests.unit.scheduler.client.client_world import HeldWriter, World, acknowledge

RECORD_BYTES_MAX = 1_024
_EXPECTED: dict[str, type[HourhandError] | None] = {
    "fine": None,
    "as large as allowed": None,
    "a byte too large": TaskTooLarge,
    "past": TaskInThePast,
    "refused by the log": TaskTooLarge,
    "no task": InvalidTask,
}


def _task(number: int, sort: str) -> Task:
    if sort == "no task":
        return "junk"  # type: ignore[return-value]
    due_in_ms = -3_600_000 if sort == "past" else 60_000
    key = f"{'log' if sort == 'refused by the log' else 'ok'}-{number:04}"
    task = a_task(due_in_ms=due_in_ms, uniqueness_key=key, data={"text": ""})
    if "large" not in sort:
        return task
    missing = RECORD_BYTES_MAX - len(encode_task(task)) + int(sort == "a byte too large")
    return a_task(due_in_ms=due_in_ms, uniqueness_key=key, data={"text": "x" * missing})


def _run(sorts: list[str], in_flight_max: int) -> tuple[World, list[int], list[type[Exception]]]:
    def settle(index: int, future: "Future[Position]") -> None:
        if b'"log-' in world.writer.records[index][2]:
            future.set_exception(TaskTooLarge("the broker's own limit"))
        else:
            acknowledge(index, future)

    world = World(
        HeldWriter(settle), bulk_in_flight_max=in_flight_max, record_bytes_max=RECORD_BYTES_MAX
    )
    tasks = [_task(number, sort) for number, sort in enumerate(sorts)]
    places = {id(task): number for number, task in enumerate(tasks) if sorts[number] != "no task"}
    told: list[int] = []
    errors: list[type[Exception]] = []

    def on_rejected(task: Task, error: HourhandError) -> None:
        told.append(places.get(id(task), -1))
        errors.append(type(error))

    result = world.client.schedule_tasks(tasks, on_rejected)

    assert result.accepted + result.rejected_count == len(sorts)
    assert result.rejected_count == len(told) and result.interrupted_by is None
    return world, told, errors


_SORTS = st.lists(st.sampled_from(list(_EXPECTED)), max_size=40)


@given(_SORTS, st.integers(1, 12))
@example(["fine"] * 12, 12)
@example(["fine"] * 5 + ["a byte too large"] + ["fine"] * 6, 12)
@example(["a byte too large"] * 7, 2)
@example(["as large as allowed", "a byte too large"] * 6, 4)
def test_each_task_is_accepted_or_refused_once_and_in_order(
    sorts: list[str], in_flight_max: int
) -> None:
    """With the error that belongs to it, wherever its group ends."""
    world, told, errors = _run(sorts, in_flight_max)

    refused = [number for number, sort in enumerate(sorts) if _EXPECTED[sort] is not None]
    assert errors == [_EXPECTED[sorts[number]] for number in refused]
    assert told == [-1 if sorts[number] == "no task" else number for number in refused]
    sent = [
        number
        for number, sort in enumerate(sorts)
        if _EXPECTED[sort] is None or sort == "refused by the log"
    ]
    keys = [_task(number, sorts[number]).uniqueness_key.encode() for number in sent]
    assert len(world.writer.records) == len(keys)
    assert all(
        b'"%b"' % key in record[2] for key, record in zip(keys, world.writer.records, strict=True)
    )


@pytest.mark.parametrize("count", [0, 1, 999, 1_000, 1_001, 1_999, 2_000, 2_001])
@pytest.mark.parametrize("bad", [0, 499, 999, 1_000])
def test_a_call_may_end_where_its_group_does(count: int, bad: int) -> None:
    """A group has 1,000 tasks at most; its first, middle and last one may be refused."""
    sorts = ["past" if number == bad else "fine" for number in range(count)]

    world, told, _errors = _run(sorts, 10_000)

    assert told == ([bad] if bad < count else [])
    assert len(world.writer.records) == count - len(told)
