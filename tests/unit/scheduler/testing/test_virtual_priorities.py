"""The priority of a task arrives by every door of a client: user code sees the one it was given."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from hourhand import Task, TaskExecutor
from hourhand.scheduler.testing import VirtualScheduler

TIMEOUT_S = 60


def a_task(scheduler: VirtualScheduler, priority: int | None) -> Task:
    """Return a task that is due in a minute."""
    at = scheduler.now + timedelta(minutes=1)
    return Task(ordering_id="a", scheduled_time=at, uniqueness_key="once", priority=priority)


def schedule(scheduler: VirtualScheduler, priority: int | None, **how: Any) -> None:
    """Schedule a task with a priority."""
    scheduler.client.schedule_task(a_task(scheduler, priority), **how).result(TIMEOUT_S)


def reschedule(scheduler: VirtualScheduler, priority: int | None) -> None:
    """Move it to another time."""
    schedule(scheduler, priority)
    task = a_task(scheduler, priority)
    later = scheduler.now + timedelta(minutes=2)
    scheduler.client.reschedule_task(task.key, later).result(TIMEOUT_S)


def run_now(scheduler: VirtualScheduler, priority: int | None) -> None:
    """Run it before its time."""
    schedule(scheduler, priority)
    scheduler.client.run_task_now(a_task(scheduler, priority).key).result(TIMEOUT_S)


def recur(scheduler: VirtualScheduler, priority: int | None) -> None:
    """Have a schedule make it."""
    every = timedelta(minutes=1)
    made = scheduler.client.schedule_recurring("r", every=every, priority=priority, count_max=1)
    made.result(TIMEOUT_S)


def unique(scheduler: VirtualScheduler, priority: int | None) -> None:
    """Ask for one task in a window."""
    schedule(scheduler, priority, unique_for=timedelta(hours=1))


def debounce(scheduler: VirtualScheduler, priority: int | None) -> None:
    """Ask for one task after the last call."""
    schedule(scheduler, priority, debounce=timedelta(minutes=1))


DOORS = (schedule, reschedule, run_now, recur, unique, debounce)


@pytest.mark.parametrize("priority", [None, 0, -100])
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_user_code_sees_the_priority_that_was_given(
    door: Callable[[VirtualScheduler, int | None], None], priority: int | None
) -> None:
    """In the first attempt and when it is tried again."""
    seen: list[int | None] = []

    class Fails(TaskExecutor):
        """Fails once."""

        def execute(self, task: Task) -> None:
            """Note the priority."""
            seen.append(task.priority)
            if len(seen) == 1:
                raise ValueError("the first attempt")

    with VirtualScheduler(Fails) as scheduler:
        door(scheduler, priority)
        scheduler.advance(minutes=10)

    assert seen == [priority, priority]
