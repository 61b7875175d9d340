"""The arguments of the test kit's calls: what may be given, and what is said of anything else."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hourhand import Done, Hourhand, Snooze, Task, TaskExecutor
from hourhand.errors import InvalidExecutor, InvalidTask
from hourhand.scheduler.testing.given import executor_of, stretch_ms
from hourhand.testing import VirtualScheduler, execute_task
from tests.builders import a_task

app = Hourhand()


@app.task("double")
def double(data: dict[str, int]) -> Done:
    """A function as users write it."""
    return Done(2 * data["number"])


@app.task("wait")
async def wait(task: Task) -> Snooze:
    """A coroutine that tells how often it was put off."""
    return Snooze(timedelta(seconds=1 + app.snoozed))


@app.batch("many")
def many(tasks: Sequence[Task]) -> Sequence[Done]:
    """A function of a batch."""
    return [Done(task.data["number"]) for task in tasks]


class Count(TaskExecutor):
    """An executor of its own."""

    def execute(self, task: Task) -> Done:
        """Return the attempt."""
        return Done(self.attempt)


def test_a_function_a_kind_and_a_class_are_called_as_their_executor() -> None:
    """Each call has an executor of its own; one that is given is called itself."""
    task = a_task(data={"number": 4})

    assert execute_task(double, task) == Done(8)
    assert execute_task(app["double"], task) == Done(8)
    assert execute_task(wait, task, snoozed=2) == Snooze(timedelta(seconds=3))
    assert execute_task(many, task) == Done(4)
    assert execute_task(Count, task, attempt=3) == Done(3)
    counted = Count()
    assert executor_of(counted) is counted


@pytest.mark.parametrize("given", [None, "double", lambda task: None, app, int, double._function])
def test_anything_else_is_no_executor(given: Any) -> None:
    """The error says what is."""
    with pytest.raises(InvalidExecutor, match=r"or a function of @app\.task, got"):
        execute_task(given, a_task())


def test_what_is_no_task_is_refused() -> None:
    """Such as its data alone."""
    data: Any = {"number": 4}
    with pytest.raises(InvalidTask, match="a Task is needed, got dict"):
        execute_task(double, data)


@pytest.mark.parametrize(
    ("delta", "units"),
    [
        (5, {}),
        (timedelta(seconds=1), {"seconds": 1}),
        (timedelta(seconds=-1), {}),
        (None, {"seconds": -1}),
        (None, {"days": 10**7}),
        (None, {"days": 10**12}),
        (None, {"seconds": float("nan")}),
        (None, {"second": 1}),
    ],
)
def test_time_that_cannot_pass_is_refused(delta: Any, units: dict[str, Any]) -> None:
    """And the scheduler goes on as before."""
    scheduler = VirtualScheduler(Count)
    before = scheduler.now

    for call in (scheduler.advance, scheduler.down_for):
        with pytest.raises(InvalidTask, match=r"a stretch of time|cannot pass"):
            call(delta, **units)

    assert scheduler.now == before
    scheduler.restart()


def test_a_stretch_of_time_is_in_milliseconds() -> None:
    """It has either form; without one no time passes."""
    assert stretch_ms(timedelta(minutes=1), {}, 0) == 60_000
    assert stretch_ms(None, {"minutes": 1, "seconds": 1}, 0) == 61_000
    assert stretch_ms(None, {}, 0) == 0


def test_a_scheduler_near_the_end_of_time_is_drained() -> None:
    """To the end of the year 9999 at most."""
    scheduler = VirtualScheduler(Count, now=datetime(9999, 12, 31, tzinfo=UTC))

    assert scheduler.drain() == []
