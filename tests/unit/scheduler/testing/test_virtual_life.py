"""Expiries and snoozes by every door of a client, and for every kind of user code."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from hourhand import BatchExecutor, Hourhand, RetryPolicy, Snooze, Task, TaskExecutor, TaskState
from hourhand.actors.model.execution.batch_executor import BatchOutcome
from hourhand.actors.model.task.status import CommandOutcome
from hourhand.scheduler.testing import VirtualScheduler, execute_task

TIMEOUT_S = 60
HOUR = timedelta(hours=1)


class Seen(TaskExecutor):
    """Notes the expiry that user code is given."""

    expiries: list[datetime | timedelta | None]

    def execute(self, task: Task) -> None:
        """Note it."""
        self.expiries.append(task.expires)


def a_task(scheduler: VirtualScheduler, expires: datetime | timedelta | None = None) -> Task:
    """Return a task that is due in a minute."""
    at = scheduler.now + timedelta(minutes=1)
    return Task(ordering_id="a", scheduled_time=at, uniqueness_key="once", expires=expires)


def schedule(scheduler: VirtualScheduler, **how: Any) -> None:
    """Schedule a task that expires after an hour."""
    scheduler.client.schedule_task(a_task(scheduler, HOUR), **how).result(TIMEOUT_S)


def reschedule(scheduler: VirtualScheduler) -> None:
    """Move it to another time."""
    schedule(scheduler)
    later = scheduler.now + timedelta(minutes=2)
    scheduler.client.reschedule_task(a_task(scheduler).key, later).result(TIMEOUT_S)


def run_now(scheduler: VirtualScheduler) -> None:
    """Run it before its time."""
    schedule(scheduler)
    scheduler.client.run_task_now(a_task(scheduler).key).result(TIMEOUT_S)


def recur(scheduler: VirtualScheduler) -> None:
    """Have a schedule make it."""
    every = timedelta(minutes=1)
    made = scheduler.client.schedule_recurring("r", every=every, expires_after=HOUR, count_max=1)
    made.result(TIMEOUT_S)


def unique(scheduler: VirtualScheduler) -> None:
    """Ask for one task in a window."""
    schedule(scheduler, unique_for=timedelta(hours=1))


def debounce(scheduler: VirtualScheduler) -> None:
    """Ask for one task after the last call."""
    schedule(scheduler, debounce=timedelta(minutes=1))


@pytest.mark.parametrize(
    "door", [schedule, reschedule, run_now, recur, unique, debounce], ids=lambda door: door.__name__
)
def test_user_code_sees_the_expiry_that_was_given(
    door: Callable[[VirtualScheduler], None],
) -> None:
    """A duration stays one, whatever time the task gets."""
    seen: list[datetime | timedelta | None] = []
    made = type("Noting", (Seen,), {"expiries": seen})

    with VirtualScheduler(made) as scheduler:
        door(scheduler)
        scheduler.advance(minutes=10)

    assert seen == [HOUR]


def test_a_kinds_tasks_expire_by_its_decorator_and_a_retry_runs_one_all_the_same() -> None:
    """The task's state and reason say so; it has its data for the retry."""
    app, ran = Hourhand(), []

    @app.task("code", expires_after=timedelta(minutes=10))
    def send(task: Task) -> None:
        ran.append(task.data)

    with VirtualScheduler(executors=app) as scheduler:
        due = scheduler.now + timedelta(minutes=1)
        task = send.make_task({"code": 7}, ordering_id="a", at=due)
        scheduler.schedule_task(task).result(TIMEOUT_S)
        scheduler.down_for(hours=1)
        scheduler.drain()
        found = scheduler.client.find_task(task.key)
        moved = scheduler.client.run_task_now(task.key).result(TIMEOUT_S)
        scheduler.client.retry_task(task.key).result(TIMEOUT_S)
        early = list(ran)
        scheduler.drain()

        assert found.state is TaskState.EXPIRED and found.is_closed and early == []
        assert found.reason == "expired at 2026-01-01T00:11:00.000Z"
        outcome = scheduler.client.outcome(moved)
        assert outcome is not None and outcome.outcome is CommandOutcome.ALREADY_CLOSED
        assert ran == [{"code": 7}]


def test_an_instant_stays_where_the_task_is_moved_behind_it() -> None:
    """It expires when its turn comes, and the next task of its id runs."""
    with VirtualScheduler(type("Noting", (Seen,), {"expiries": []})) as scheduler:
        until = scheduler.now + timedelta(minutes=5)
        task = a_task(scheduler, until)
        scheduler.schedule_task(task).result(TIMEOUT_S)
        later = scheduler.now + timedelta(minutes=30)
        scheduler.client.reschedule_task(task.key, later).result(TIMEOUT_S)
        scheduler.drain()

        moved = task.key._replace(scheduled_ms=task.key.scheduled_ms + 29 * 60_000)
        assert scheduler.result_of(moved) == "expired"
        scheduler.assert_executed(times=0)


class Polls(TaskExecutor):
    """Looks three times before it is done."""

    retry = RetryPolicy(attempts_max=1)

    def execute(self, task: Task) -> Snooze | None:
        """Ask for another look."""
        del task
        return Snooze(timedelta(minutes=5), times_max=3) if self.snoozed < 3 else None


class PollsAsync(Polls):
    """The same, as a coroutine."""

    async def execute(self, task: Task) -> Snooze | None:  # type: ignore[override]
        """Ask for another look."""
        return super().execute(task)


class PollsInBatches(BatchExecutor):
    """The same, of each task of a batch."""

    retry = RetryPolicy(attempts_max=1)

    def execute_many(self, tasks: Sequence[Task]) -> Sequence[BatchOutcome]:
        """Ask for another look."""
        assert len(self.snoozed) == len(tasks)
        again = Snooze(timedelta(minutes=5), times_max=3)
        return [again if snoozed < 3 else None for snoozed in self.snoozed]


@pytest.mark.parametrize("executor", [Polls, PollsAsync, PollsInBatches])
def test_code_of_every_kind_may_be_snoozed(executor: Callable[[], TaskExecutor]) -> None:
    """It is shown as such meanwhile, and ends in its first attempt."""
    with VirtualScheduler(executor) as scheduler:
        task = a_task(scheduler)
        scheduler.schedule_task(task).result(TIMEOUT_S)
        scheduler.advance(minutes=7)
        snoozed = scheduler.client.find_task(task.key)
        scheduler.drain()
        ended = scheduler.client.find_task(task.key)

    assert snoozed.state is TaskState.SNOOZED and snoozed.is_open
    assert [(each.attempt, each.snoozed) for each in snoozed.attempts] == [(1, 2)]
    assert snoozed.error is None and ended.state is TaskState.SUCCESS
    assert [each.attempt for each in scheduler.executions] == [1, 1, 1, 1]


def test_a_test_says_how_often_an_attempt_was_snoozed() -> None:
    """``execute_task`` calls the code once."""
    with VirtualScheduler(Polls) as scheduler:
        task = a_task(scheduler)

    assert isinstance(execute_task(Polls(), task, snoozed=2), Snooze)
    assert execute_task(Polls(), task, snoozed=3) is None


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"after": 5}, TypeError),
        ({"after": timedelta(seconds=-1)}, ValueError),
        ({"after": timedelta(0), "times_max": 0}, ValueError),
        ({"after": timedelta(0), "times_max": True}, TypeError),
    ],
)
def test_a_snooze_that_makes_no_sense_is_refused(
    values: dict[str, Any], error: type[Exception]
) -> None:
    """It says which value is wrong."""
    with pytest.raises(error, match="Snooze"):
        Snooze(**values)
