"""The test kit: what it promises to the tests of users."""

from datetime import datetime, timedelta

import pytest

from hourhand import Task, TaskExecutor
from hourhand.actors.model.operations.events import BatchPersisted
from hourhand.actors.model.task.status import AttemptResult, CompletionResult
from hourhand.scheduler.testing import VirtualScheduler
from tests.unit.scheduler.testing.testing_bench import (
    NOON,
    Choosing,
    Failing,
    Noting,
    Waiting,
    a_scheduler,
    a_task,
)


def test_the_clock_stands_still_until_it_is_moved() -> None:
    """Nothing that is not due runs, however much is done."""
    scheduler = a_scheduler()
    scheduler.schedule_task(a_task(due_in=timedelta(milliseconds=1)))

    ran = scheduler.run_due()

    assert ran == []
    assert scheduler.now == NOON


def test_advance_returns_what_ran_meanwhile() -> None:
    """In order, each at its own time, and the clock ends where it was told to."""
    scheduler = a_scheduler()
    for hours in (3, 1, 2):
        scheduler.schedule_task(a_task(due_in=timedelta(hours=hours), name=str(hours)))

    first = scheduler.advance(hours=1)
    rest = scheduler.advance(timedelta(hours=10))

    assert [(each.key.uniqueness_key, each.at) for each in first] == [
        ("1", NOON + timedelta(hours=1))
    ]
    assert [each.key.uniqueness_key for each in rest] == ["2", "3"]
    assert scheduler.now == NOON + timedelta(hours=11)


def test_a_future_of_the_kit_is_resolved_already() -> None:
    """Receipt or refusal."""
    scheduler = a_scheduler()

    accepted = scheduler.schedule_task(a_task())
    refused = scheduler.schedule_task(a_task(due_in=timedelta(minutes=-1)))

    assert accepted.result(0).key == a_task().key
    assert refused.exception(0) is not None


def test_run_due_runs_what_is_due_without_letting_time_pass() -> None:
    """A task for now needs no advance."""
    scheduler = a_scheduler()
    scheduler.schedule_task(a_task())

    [execution] = scheduler.run_due()

    assert (execution.at, execution.attempt) == (NOON, 1)
    assert execution.result is AttemptResult.SUCCESS


def test_drain_lets_time_pass_until_nothing_is_open() -> None:
    """Retries included."""
    scheduler = a_scheduler(Failing)
    scheduler.schedule_task(a_task(due_in=timedelta(days=30)))

    ran = scheduler.drain()

    assert [each.attempt for each in ran] == [1, 2]
    assert {each.error_class for each in ran} == {"LookupError"}
    assert scheduler.now == NOON + timedelta(days=30, seconds=10)
    assert scheduler.result_of(a_task(due_in=timedelta(days=30)).key) is CompletionResult.FAILURE


def test_drain_says_what_is_still_open() -> None:
    """Where the time allowed is not enough."""
    scheduler = a_scheduler()
    scheduler.schedule_task(a_task(due_in=timedelta(days=2)))

    with pytest.raises(AssertionError, match=r"still open after 1 day.*customer-7"):
        scheduler.drain(within=timedelta(days=1))


def test_a_year_passes_quickly_and_runs_what_is_due_in_it() -> None:
    """Background work does not grow with the time."""
    scheduler = VirtualScheduler(Noting, now=NOON, partitions=1)
    scheduler.schedule_task(a_task(due_in=timedelta(days=364)))

    ran = scheduler.advance(days=365)

    assert len(ran) == 1


def test_an_async_executor_runs_to_its_end() -> None:
    """Without any loop of the test's own."""
    scheduler = a_scheduler(Waiting)
    scheduler.schedule_task(a_task())

    assert [each.result for each in scheduler.run_due()] == [AttemptResult.SUCCESS]


def test_outcomes_are_followed() -> None:
    """Drop closes; Retry waits as long as it says."""
    scheduler = a_scheduler(Choosing)
    scheduler.schedule_task(a_task(name="dropped", drop=1))
    scheduler.schedule_task(a_task(name="retried", retry=1))
    scheduler.run_due()
    retried = a_task(name="retried").key

    early = scheduler.advance(timedelta(minutes=5) - timedelta(milliseconds=1))
    late = scheduler.advance(milliseconds=1)

    assert scheduler.result_of(a_task(name="dropped").key) is CompletionResult.DROPPED
    assert early == []
    assert [(each.key, each.attempt) for each in late] == [(retried, 2)]


def test_default_waits_are_the_same_each_time() -> None:
    """Their jitter comes from random numbers with a seed."""

    class Restless(TaskExecutor):
        """Fails, and is tried again as the default policy says."""

        def execute(self, task: Task) -> None:
            """Fail."""
            raise LookupError(task.uniqueness_key)

    def starts() -> list[datetime]:
        scheduler = a_scheduler(Restless)
        scheduler.schedule_task(a_task())
        return [each.at for each in scheduler.advance(minutes=10)]

    once = starts()

    assert len(once) > 5
    assert starts() == once


def test_the_client_is_the_real_one() -> None:
    """Commands take effect as they do on a cluster."""
    scheduler = a_scheduler()
    task = a_task(due_in=timedelta(hours=1))
    scheduler.schedule_task(task)

    scheduler.client.reschedule_task(task.key, NOON + timedelta(hours=5)).result(0)
    early = scheduler.advance(hours=4)
    late = scheduler.advance(hours=1)

    assert early == []
    assert [each.at for each in late] == [NOON + timedelta(hours=5)]


@pytest.mark.parametrize("what", ["restart", "crash"])
def test_a_new_process_goes_on_where_the_old_one_was(what: str) -> None:
    """Done stays done, open stays open, retries keep their number."""
    scheduler = a_scheduler(Failing)
    scheduler.schedule_task(a_task(name="failing"))
    scheduler.schedule_task(a_task(name="far", due_in=timedelta(days=1)))
    scheduler.run_due()

    getattr(scheduler, what)()
    ran = scheduler.advance(minutes=1)

    assert [(each.key.uniqueness_key, each.attempt) for each in ran] == [("failing", 2)]
    scheduler.assert_scheduled(uniqueness_key="far")


def test_what_fell_due_while_it_was_stopped_runs_at_once_after_a_restart() -> None:
    """Without any advance."""
    scheduler = a_scheduler()
    scheduler.schedule_task(a_task(due_in=timedelta(hours=1)))
    scheduler.stop()
    scheduler.advance(hours=2)
    before = list(scheduler.executions)

    scheduler.restart()

    assert before == []
    assert [each.at for each in scheduler.executions] == [NOON + timedelta(hours=2)]


def test_it_stops_at_the_end_of_a_with_block_and_again_without_harm() -> None:
    """What is open stays stored."""
    with a_scheduler() as scheduler:
        scheduler.schedule_task(a_task(due_in=timedelta(hours=1)))
        scheduler.run_due()
    scheduler.stop()

    assert [task.uniqueness_key for task in scheduler.all_scheduled()] == ["1"]


def test_events_hold_everything_the_node_reported() -> None:
    """For tests that look closer."""
    scheduler = a_scheduler()
    scheduler.schedule_task(a_task())
    scheduler.run_due()

    stored = [event.tasks for event in scheduler.events if isinstance(event, BatchPersisted)]
    assert sum(stored) == 1


class Restless(TaskExecutor):
    """Schedules itself again for this very moment."""

    scheduler: VirtualScheduler

    def execute(self, task: Task) -> None:
        """Schedule the next one."""
        number = int(task.uniqueness_key) + 1
        if number < 200:
            self.scheduler.schedule_task(a_task(name=str(number)))


def test_a_task_may_schedule_others_for_now() -> None:
    """They run in the same breath."""
    scheduler = a_scheduler(Restless)
    Restless.scheduler = scheduler
    scheduler.schedule_task(a_task(name="1"))

    assert len(scheduler.run_due()) == 199


def test_down_for_lets_time_pass_while_no_node_runs() -> None:
    """What falls due meanwhile runs at the next start, a recurring task as its catch-up allows."""
    scheduler = a_scheduler()
    scheduler.schedule_task(a_task(due_in=timedelta(hours=1)))
    scheduler.client.schedule_recurring("hourly", cron="0 * * * *", overlap="allow").result(0)

    scheduler.down_for(hours=2, minutes=30)
    caught_up = [each for each in scheduler.executions if "hourly" in each.key.ordering_id]
    ran = scheduler.assert_executed(uniqueness_key=a_task().uniqueness_key)

    assert scheduler.now == NOON + timedelta(hours=2, minutes=30)
    assert [each.at for each in ran] == [scheduler.now]
    assert [each.at for each in caught_up if not each.key.ordering_id.startswith("hourhand")] == [
        scheduler.now
    ]
