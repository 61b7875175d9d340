"""A bulk call holds little, forgets no refusal, and stops where the log does."""

from concurrent.futures import Future

import pytest

from actors.model.errors import (
    HourhandError,
    LogUnavailable,
    TaskInThePast,
)
from actors.model.events import BulkEnqueued
from actors.model.task import Task
from actors.ports.log import Position
from tests.builders import a_task
from tests.unit.scheduler.client_world import HeldWriter, World, a_bulk, acknowledge


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
