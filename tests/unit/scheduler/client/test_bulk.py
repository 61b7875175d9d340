"""A bulk call holds little, forgets no refusal, and stops where the log does."""

import gc
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from hourhand.actors.model.operations.events import BulkEnqueued
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import (
    HourhandError,
    InvalidTask,
    LogUnavailable,
    NodeStopped,
    TaskInThePast,
    TaskTooLarge,
)
from hourhand.actors.ports.log import Position
from tests.builders import a_task
from tests.unit.scheduler.client.client_world import HeldWriter, World, a_bulk, acknowledge


def test_a_bulk_call_never_has_more_in_flight_than_allowed() -> None:
    """P13: an endless generator is as good as a short one."""
    most = 0

    def settle_late(index: int, future: "Future[Position]") -> None:
        nonlocal most
        most = max(most, world.writer.unsettled)
        if world.writer.unsettled == 8:
            for late, waiting in enumerate(world.writer.futures):
                if not waiting.done():
                    waiting.set_result(Position(0, late))

    world = World(HeldWriter(settle_late), bulk_in_flight_max=8)

    result = world.client.schedule_tasks(a_bulk(80))

    assert (result.accepted, result.rejected_count, most) == (80, 0, 8)
    assert world.telemetry.events == [BulkEnqueued(80, 0.0)]


def test_a_bulk_call_goes_on_after_a_refusal_and_forgets_none() -> None:
    """Every refusal is told, in order; the first hundred are kept."""
    world = World(HeldWriter(acknowledge), bulk_in_flight_max=5)
    told: list[str] = []

    def on_rejected(task: Task, error: HourhandError) -> None:
        assert isinstance(error, TaskInThePast)
        told.append(task.uniqueness_key)

    tasks = [
        a_task(uniqueness_key=str(number), due_in_ms=-60_000 if number % 2 else 0)
        for number in range(300)
    ]
    result = world.client.schedule_tasks(tasks, on_rejected)

    assert (result.accepted, result.rejected_count) == (150, 150)
    assert told == [str(number) for number in range(1, 300, 2)]
    assert [one.task.uniqueness_key for one in result.rejected] == told[:100]
    with pytest.raises(TaskInThePast):
        result.raise_if_rejected()


def test_a_bulk_call_stops_reading_when_the_log_fails() -> None:
    """A million timeouts one after another would help nobody."""

    def fail_the_third(index: int, future: "Future[Position]") -> None:
        if index == 2:
            future.set_exception(LogUnavailable("no broker"))
        else:
            acknowledge(index, future)

    world = World(HeldWriter(fail_the_third), bulk_in_flight_max=2)
    tasks = a_bulk(1_000)

    result = world.client.schedule_tasks(tasks)

    assert isinstance(result.interrupted_by, LogUnavailable)
    assert (result.accepted, result.rejected_count) == (3, 1)
    assert next(tasks).uniqueness_key == "4"
    with pytest.raises(LogUnavailable):
        result.raise_if_rejected()


def test_a_bulk_call_holds_no_task_that_is_settled() -> None:
    """P13: what was handed over and acknowledged is let go of, however long the stream is."""
    world = World(HeldWriter(acknowledge), bulk_in_flight_max=20)
    made: list[weakref.ref[Task]] = []
    most = 0

    def tasks() -> Iterator[Task]:
        nonlocal most
        for number in range(500):
            task = a_task(uniqueness_key=str(number))
            made.append(weakref.ref(task))
            yield task
            del task
            gc.collect(0)
            most = max(most, sum(each() is not None for each in made))

    assert world.client.schedule_tasks(tasks()).accepted == 500
    assert most <= 21


def test_what_the_client_and_what_the_log_refuses_is_told_in_one_order() -> None:
    """Both kinds in the middle of a stream, and in the middle of a group."""

    def refuse_some(index: int, future: "Future[Position]") -> None:
        if index % 5 == 3:
            future.set_exception(TaskTooLarge("the broker's own limit"))
        else:
            acknowledge(index, future)

    world = World(HeldWriter(refuse_some), bulk_in_flight_max=12)
    past = {4, 5, 17, 30}
    tasks = [
        a_task(uniqueness_key=str(number), due_in_ms=-60_000 if number in past else 0)
        for number in range(40)
    ]
    sent = [number for number in range(40) if number not in past]
    large = {sent[index] for index in range(len(sent)) if index % 5 == 3}
    told: list[tuple[str, type[HourhandError]]] = []

    result = world.client.schedule_tasks(
        tasks, lambda task, error: told.append((task.uniqueness_key, type(error)))
    )

    assert told == [
        (str(number), TaskInThePast if number in past else TaskTooLarge)
        for number in sorted(past | large)
    ]
    assert (result.accepted, result.rejected_count) == (40 - len(told), len(told))
    assert result.interrupted_by is None


def test_a_bulk_call_on_a_closed_client_says_so_and_reads_no_further() -> None:
    """The first task is refused with the reason; the others are in no count."""
    world = World(HeldWriter(acknowledge))
    world.client.close()
    tasks = a_bulk(10)

    result = world.client.schedule_tasks(tasks)

    assert isinstance(result.interrupted_by, NodeStopped)
    assert (result.accepted, result.rejected_count) == (0, 1)
    assert next(tasks).uniqueness_key == "1"


def test_all_that_was_appended_is_settled_when_the_tasks_raise() -> None:
    """The caller's exception comes out, once nothing is under way."""
    world = World(HeldWriter(acknowledge), bulk_in_flight_max=10)

    def tasks() -> Iterator[Task]:
        yield from a_bulk(7)
        raise KeyError("the caller's own")

    with pytest.raises(KeyError):
        world.client.schedule_tasks(tasks())

    assert world.writer.unsettled == 0
    assert world.telemetry.events == [BulkEnqueued(7, 0.0)]


def test_an_on_rejected_that_raises_ends_the_call_and_hears_of_what_was_read() -> None:
    """No rejection is lost on it, and none is told twice."""
    world = World(HeldWriter(acknowledge), bulk_in_flight_max=4)
    told: list[str] = []

    def on_rejected(task: Task, error: HourhandError) -> None:
        told.append(task.uniqueness_key)
        if task.uniqueness_key == "2":
            raise KeyError("the caller's own")

    tasks = (a_task(uniqueness_key=str(number), due_in_ms=-60_000) for number in range(10))
    with pytest.raises(KeyError):
        world.client.schedule_tasks(tasks, on_rejected)

    assert told == ["0", "1", "2", "3", "4", "5"]
    assert next(tasks).uniqueness_key == "6"


def test_one_task_is_not_taken_for_many() -> None:
    """As a model it can be iterated: its four fields would be refused one by one."""
    world = World(HeldWriter(acknowledge))
    one: Any = a_task()
    nothing: Any = None

    with pytest.raises(InvalidTask, match=r"got a Task: write schedule_tasks\(\[task"):
        world.client.schedule_tasks(one)
    with pytest.raises(InvalidTask, match="as in a list, got None"):
        world.client.schedule_tasks(nothing)
    with pytest.raises(InvalidTask, match="on_rejected is a function of task and error, got 5"):
        world.client.schedule_tasks([one], on_rejected=5)  # type: ignore[arg-type]


def test_rejections_that_nobody_is_told_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Once for the whole call; ``on_rejected`` is told of each instead."""
    world = World(HeldWriter(acknowledge))
    late = [a_task(due_in_ms=-60_000, uniqueness_key=str(number)) for number in range(3)]

    world.client.schedule_tasks([a_task(), *late], on_rejected=lambda _task, _error: None)
    assert caplog.text == ""
    world.client.schedule_tasks([a_task(), *late])

    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith("3 tasks of a schedule_tasks were rejected, the first")
    assert "[task-in-the-past]" in record.getMessage()
