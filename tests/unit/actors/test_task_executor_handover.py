"""TaskExecutor: what an earlier tree left running, and letting go."""

import pytest

from actors.messages import (
    AdoptAttempt,
    AttemptTask,
    DrainTasks,
    TaskExecuted,
)
from actors.model.attempts import Ending
from tests.builders import NOW_MS, an_attempt
from tests.unit.actors.task_executor_bench import TASK, WAIT_MS, Bench
from tests.unit.probes import EPOCH


def test_p16_an_attempt_of_the_same_owner_is_taken_over() -> None:
    """Its outcome is recorded as if the tree had started it."""
    bench = Bench()
    attempt = an_attempt(task=TASK, epoch=EPOCH, number=2)

    bench.tell(AdoptAttempt(attempt))
    bench.end()

    assert bench.record_completion().completion.attempts == 2
    assert bench.runner.settled == [attempt]


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.NOT_STARTED])
def test_p6_what_an_earlier_tree_left_is_read_again_before_its_next_attempt(
    ending: Ending,
) -> None:
    """That tree may have handled a later record of it, or a command."""
    bench = Bench()
    bench.tell(AdoptAttempt(an_attempt(task=TASK, epoch=EPOCH)))
    if ending is Ending.FAILED:
        bench.fail_once()
    else:
        bench.end(ending)
    bench.harness.advance(WAIT_MS * 10)

    assert bench.parent.take(TaskExecuted) == TaskExecuted(TASK.key, TASK.offset, in_doubt=True)
    assert not bench.runner.started


def test_p16_what_an_earlier_tree_left_is_not_read_again_when_it_is_closed() -> None:
    """Nothing follows from a success."""
    bench = Bench()
    bench.tell(AdoptAttempt(an_attempt(task=TASK, epoch=EPOCH)))
    bench.end()
    bench.record_completion()

    assert not bench.parent.take(TaskExecuted).in_doubt


@pytest.mark.parametrize("ending", Ending)
def test_p16_the_outcome_under_another_owner_is_discarded(ending: Ending) -> None:
    """Another node may have run the key meanwhile, so nothing follows from it here."""
    bench = Bench()
    attempt = an_attempt(task=TASK, epoch=EPOCH - 1)

    bench.tell(AdoptAttempt(attempt))
    bench.end(ending)
    bench.harness.advance(WAIT_MS * 10)

    assert bench.runner.settled == [attempt] and bench.parent.has(TaskExecuted)
    assert not bench.tracker.messages and not bench.runner.started


def test_p14_a_running_attempt_may_finish_while_draining() -> None:
    """And its completion is made durable."""
    bench = Bench()
    bench.begin()

    bench.tell(DrainTasks())
    bench.end()
    early = bench.parent.has(TaskExecuted)
    bench.record_completion()

    assert not early and bench.parent.has(TaskExecuted)


def test_p14_a_failed_attempt_is_recorded_while_draining_and_not_repeated() -> None:
    """Its successor knows when to go on."""
    bench = Bench()
    bench.begin()

    bench.tell(DrainTasks())
    record = bench.fail_once().record
    bench.harness.advance(WAIT_MS * 2)

    assert record.next_attempt_ms == NOW_MS + WAIT_MS
    assert not bench.runner.started and len(bench.parent.take_all(TaskExecuted)) == 1


@pytest.mark.parametrize("phase", ["checking", "waiting", "blocked", "refused"])
def test_p14_whatever_only_waits_is_let_go_at_once_when_draining(phase: str) -> None:
    """It is stored; the next owner loads it."""
    bench = Bench(attempts_max=1 if phase == "blocked" else 3, on_exhausted="block")
    if phase == "checking":
        bench.tell(AttemptTask(TASK))
    else:
        bench.begin()
        if phase == "refused":
            bench.end(Ending.NOT_STARTED)
        else:
            bench.fail_once()

    bench.tell(DrainTasks())
    bench.harness.advance(WAIT_MS * 2)

    assert len(bench.parent.take_all(TaskExecuted)) == 1 and not bench.runner.started
