"""The contract of every runner; bind it by a ``bench`` fixture that makes a ``RunnerBench``.

The bench says how the runner is moved on: a real one runs by itself, a virtual one when told.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
import tenacity

from hourhand.actors.model.execution.attempts import Attempt, AttemptEnded, Ending
from hourhand.actors.model.execution.backoff import RetryPolicy, RetryRuling
from hourhand.actors.model.execution.outcome import Done, Drop, Outcome, Retry
from hourhand.actors.model.task.task import AttemptState, Task
from hourhand.actors.ports.runner import Runner
from tests.builders import RecordingExecutable, a_stored_task, an_attempt

TIMEOUT_S = 60.0


class AsyncExecutable(RecordingExecutable):
    """The same with an ``async def execute``."""

    async def execute(self, task: Task) -> Outcome | None:  # type: ignore[override]
        """Note the task; return or raise the next prepared outcome."""
        return RecordingExecutable.execute(self, task)


@dataclass
class Gate:
    """A gate that a test opens and closes."""

    open: bool = True
    asked: list[Attempt] = field(default_factory=list)

    def __call__(self, attempt: Attempt) -> bool:
        """Note who asks, and let them through or not."""
        self.asked.append(attempt)
        return self.open


@dataclass
class RunnerBench:
    """A runner, the gate it asks, and how it is moved on."""

    runner: Runner
    gate: Gate
    move: Callable[[], None]
    """Let a virtual runner work; nothing for a real one."""

    def run(self, attempt: Attempt, executor: RecordingExecutable) -> AttemptEnded:
        """Run an attempt and return how it ended."""
        ended: Future[AttemptEnded] = Future()
        self.runner.start([(attempt, executor)], ended.set_result)
        self.move()
        return ended.result(timeout=TIMEOUT_S)


def _by_error(state: tenacity.RetryCallState) -> float:
    assert state.outcome is not None
    return float(str(state.outcome.exception()))


class RunnerContract:
    """The contract of ``hourhand.actors.ports.runner.Runner``."""

    def test_the_executor_sees_the_task_its_attempt_and_its_fence(self, bench: RunnerBench) -> None:
        """User code knows nothing else of where it runs."""
        executor = RecordingExecutable()
        attempt = an_attempt(task=a_stored_task(due_in_ms=0), number=3, epoch=7)

        bench.run(attempt, executor)

        assert [task.key for task in executor.ran] == [attempt.task.key]
        assert (executor.attempt, executor.fence) == (3, 7)

    def test_what_execute_returns_is_how_the_attempt_ended(self, bench: RunnerBench) -> None:
        """Nothing and Done are the same."""
        outcomes: list[tuple[Outcome | Exception | None, Ending]] = [
            (None, Ending.DONE),
            (Done(), Ending.DONE),
            (Retry(after=timedelta(seconds=2)), Ending.RETRY),
            (Drop("why not"), Ending.DROPPED),
            (ValueError("broken"), Ending.FAILED),
        ]
        for outcome, ending in outcomes:
            attempt = an_attempt()
            ended = bench.run(attempt, RecordingExecutable(outcome))
            bench.runner.settle([attempt])
            assert ended.ending is ending, outcome

    def test_an_async_execute_is_awaited(self, bench: RunnerBench) -> None:
        """Its outcome is the coroutine's, not the coroutine."""
        executor = AsyncExecutable(Drop("gone"))

        ended = bench.run(an_attempt(), executor)

        assert (ended.ending, ended.reason, len(executor.ran)) == (Ending.DROPPED, "gone", 1)

    def test_an_exception_leaves_its_class_message_and_stack(self, bench: RunnerBench) -> None:
        """History keeps them."""
        ended = bench.run(an_attempt(), RecordingExecutable(KeyError("invoice")))

        assert ended.error_class == "KeyError"
        assert ended.error_message == "'invoice'"
        assert "KeyError" in (ended.error_stack or "")

    @pytest.mark.parametrize("is_async", [False, True])
    def test_an_end_says_what_the_policy_rules(
        self,
        bench: RunnerBench,
        is_async: bool,
    ) -> None:
        """The tree asks none: the strategy is told of the error, here."""
        executor = (AsyncExecutable if is_async else RecordingExecutable)(ValueError("7"))
        executor.retry = RetryPolicy(3, _by_error, "block")  # type: ignore[attr-defined, arg-type]

        ended = bench.run(an_attempt(), executor)

        assert ended.ruling == RetryRuling(3, "block", 7_000)

    @pytest.mark.parametrize("is_async", [False, True])
    @pytest.mark.parametrize("overdue", [False, True])
    def test_user_code_is_not_called_where_no_attempt_is_left(
        self,
        bench: RunnerBench,
        is_async: bool,
        overdue: bool,
    ) -> None:
        """And nothing is said to begin, as what was given up is that already."""
        executor = (AsyncExecutable if is_async else RecordingExecutable)()
        executor.retry = RetryPolicy(2, on_exhausted="block")  # type: ignore[attr-defined]
        asked: list[object] = []

        def record_starts(attempts: Sequence[Attempt]) -> "Future[None]":
            asked.extend(attempts)
            raise AssertionError("it does not begin")

        task = a_stored_task(due_in_ms=0, attempts=AttemptState(used=2, last=2))
        attempt = Attempt(task, 0, 1, 3, record_starts=record_starts if overdue else None)

        ended = bench.run(attempt, executor)

        assert ended.ending is Ending.USED_UP and ended.ruling is not None
        assert ended.ruling.on_exhausted == "block" and not executor.ran and not asked

    def test_sealed_data_that_cannot_be_opened_here_is_held(self, bench: RunnerBench) -> None:
        """For a node that has the key; no attempt is used up."""
        executor = RecordingExecutable()
        data = b'{"hourhand.sealed":{"steps":[{"codec":"aes-gcm","key":"k1"}],"data":"AAEC"}}'

        ended = bench.run(an_attempt(task=a_stored_task(due_in_ms=0, data=data)), executor)

        assert (ended.ending, ended.error_class) == (Ending.HELD, "PayloadSealed")
        assert not executor.ran

    def test_a_closed_gate_keeps_user_code_from_being_called(self, bench: RunnerBench) -> None:
        """No lease, no attempt (P15)."""
        bench.gate.open = False
        executor = RecordingExecutable()

        ended = bench.run(an_attempt(), executor)

        assert ended.ending is Ending.NOT_STARTED
        assert not executor.ran

    def test_the_start_is_durable_before_user_code(self, bench: RunnerBench) -> None:
        """Of a suspect or an overdue task: otherwise nobody learns who killed the process."""
        executor = RecordingExecutable()
        seen: list[int] = []

        def record_starts(_attempts: Sequence[Attempt]) -> "Future[None]":
            seen.append(len(executor.ran))
            recorded: Future[None] = Future()
            recorded.set_result(None)
            return recorded

        task = a_stored_task(due_in_ms=0)
        attempt = Attempt(task, 0, 1, 1, record_starts=record_starts)

        ended = bench.run(attempt, executor)

        assert ended.ending is Ending.DONE
        assert seen == [0]

    def test_p5_what_was_withdrawn_before_user_code_never_runs(self, bench: RunnerBench) -> None:
        """A command closed its key meanwhile; its ordering id may go on at once."""
        executor, next_executor = RecordingExecutable(), RecordingExecutable()
        starting: Future[None] = Future()
        asked: Future[None] = Future()

        def record_starts(_attempts: Sequence[Attempt]) -> "Future[None]":
            asked.set_result(None)
            return starting

        attempt = Attempt(a_stored_task(due_in_ms=0), 0, 1, 1, record_starts=record_starts)
        bench.runner.start([(attempt, executor)], lambda _ended: None)
        asked.result(timeout=TIMEOUT_S)

        withdrawn = bench.runner.withdraw(attempt)
        starting.set_result(None)
        follower = an_attempt()
        bench.run(follower, next_executor)

        assert withdrawn and not bench.runner.withdraw(attempt)
        assert not bench.runner.withdraw(follower), "its user code was called"
        assert len(next_executor.ran) == 1 and not executor.ran

    def test_an_outcome_is_kept_until_it_is_settled(self, bench: RunnerBench) -> None:
        """A rebuilt tree adopts what ended while nobody listened (P16)."""
        attempt = an_attempt()
        bench.run(attempt, RecordingExecutable())

        assert list(bench.runner.unsettled(attempt.partition)) == [attempt]
        adopted: Future[AttemptEnded] = Future()
        bench.runner.adopt(attempt, adopted.set_result)
        assert adopted.result(timeout=TIMEOUT_S).ending is Ending.DONE

        bench.runner.settle([attempt])
        assert not bench.runner.unsettled(attempt.partition)

    def test_p16_an_abandoned_outcome_waits_for_who_adopts_it_and_for_nobody_else(
        self, bench: RunnerBench
    ) -> None:
        """The partition is another node's, unless it comes back with no owner in between."""
        attempt = an_attempt()
        ended = bench.run(attempt, RecordingExecutable())
        assert ended.ending is Ending.DONE

        bench.runner.drain([attempt.partition], give_up="the test says so")

        assert not bench.runner.unsettled(attempt.partition, given_up=False)
        assert list(bench.runner.unsettled(attempt.partition)) == [attempt]

    def test_partitions_do_not_see_each_others_attempts(self, bench: RunnerBench) -> None:
        """An ordering id belongs to one partition; the rest is none of its business."""
        attempt = an_attempt(partition=3)
        bench.run(attempt, RecordingExecutable())

        assert not bench.runner.unsettled(4)
        assert list(bench.runner.unsettled(3)) == [attempt]
