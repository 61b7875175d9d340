"""P27: no attempt of a task starts from its expiry on, and what waits behind it goes on."""

from datetime import timedelta
from itertools import pairwise

import pytest
import tenacity

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.outcome import Outcome, Snooze
from hourhand.actors.model.task.status import AttemptResult, CompletionResult
from hourhand.actors.model.task.task import Task
from tests.builders import a_task
from tests.promises.group import Group

HOUR_MS = 3_600_000


def _fail(task: Task, _attempt: int) -> None:
    if task.uniqueness_key == "gone":
        raise ValueError("as planned")


def expiring(name: str, after_ms: int, due_in_ms: int = 1_000) -> Task:
    """Return a task that expires so long after its time."""
    task = a_task(due_in_ms=due_in_ms, uniqueness_key=name)
    return task.model_copy(update={"expires": timedelta(milliseconds=after_ms)})


def test_p27_what_expired_while_no_node_ran_is_not_started_and_the_next_one_is() -> None:
    """However long ago that was, and also for the owner after the next crash."""
    group = Group(step_ms=HOUR_MS)
    gone, behind = expiring("gone", 60_000), a_task(due_in_ms=2_000, uniqueness_key="behind")
    for task in (gone, behind):
        group.append(task)
    group.clock.advance(100 * HOUR_MS)

    member = group.join()
    group.advance(60_000)
    group.replace(member)
    group.advance(60_000)

    assert group.journal.names == ["behind"]
    assert group.result_of(gone) is CompletionResult.EXPIRED


@pytest.mark.parametrize("on_exhausted", ["skip", "block"])
def test_p27_what_waits_for_a_retry_or_an_operator_is_not_started_behind_its_expiry(
    on_exhausted: str,
) -> None:
    """Its ordering id goes on at the expiry, and not when the next attempt would be due."""
    group = Group()
    attempts_max = 1 if on_exhausted == "block" else 5
    wait = tenacity.wait_fixed(3_600)
    group.journal.retry = RetryPolicy(attempts_max, wait, on_exhausted)  # type: ignore[arg-type]
    group.journal.says = _fail
    group.join()
    gone = expiring("gone", 30_000)
    group.append(gone)
    group.append(a_task(due_in_ms=2_000, uniqueness_key="behind"))

    group.advance(30_000)
    early = list(group.journal.names)
    group.advance(5_000)

    assert early == ["gone"] and group.journal.names == ["gone", "behind"]
    assert group.result_of(gone) is CompletionResult.EXPIRED


def test_an_attempt_that_is_snoozed_outlives_its_nodes_without_using_up_an_attempt() -> None:
    """The next owner goes on with it when its time has come, under its number."""

    def says(task: Task, _attempt: int) -> Outcome | None:
        looked = group.journal.names.count(task.uniqueness_key)
        return Snooze(timedelta(seconds=60), times_max=3) if looked <= 3 else None

    group = Group()
    group.journal.retry = RetryPolicy(attempts_max=1)
    group.journal.says = says
    member = group.join()
    task = a_task(due_in_ms=1_000, uniqueness_key="a")
    group.append(task)
    group.append(a_task(due_in_ms=2_000, uniqueness_key="b"))

    for _ in range(3):
        group.advance(30_000)
        member = group.replace(member)
        group.advance(31_000)
    group.advance(300_000)

    ran = [(each.name, each.attempt) for each in group.journal.ran]
    times = [each.at_ms for each in group.journal.ran if each.name == "a"]
    assert ran[:4] == [("a", 1)] * 4
    assert all(late - early >= 60_000 for early, late in pairwise(times))
    assert group.result_of(task) is CompletionResult.SUCCESS


def test_an_attempt_that_is_snoozed_too_often_has_failed() -> None:
    """The retry policy decides what follows, and the count is that of all its nodes."""
    group = Group()
    group.journal.retry = RetryPolicy(attempts_max=1)
    group.journal.says = lambda _task, _attempt: Snooze(timedelta(seconds=10), times_max=2)
    member = group.join()
    task = a_task(due_in_ms=1_000, uniqueness_key="a")
    group.append(task)
    group.advance(5_000)
    group.replace(member)

    group.advance(120_000)

    assert len(group.journal.ran) == 3
    assert group.result_of(task) is CompletionResult.FAILURE
    (row,) = group.client.find_task(task.key).attempts
    assert (row.result, row.error_class) == (AttemptResult.FAILURE, "SnoozesUsedUp")
