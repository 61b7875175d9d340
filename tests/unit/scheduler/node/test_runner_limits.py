"""NodeRunner: how many run at a time, timeouts, letting go and taking over."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable
from queue import SimpleQueue

import pytest
from msgspec.structs import replace

from hourhand.actors.model.execution.attempts import AttemptEnded, Ending
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.operations.events import AttemptAbandoned, AttemptStuck
from hourhand.actors.model.task.checkpoint_value import NO_ATTEMPT, AttemptCheckpoints
from hourhand.actors.model.task.task import Task
from hourhand.scheduler.testing import RecordingTelemetry
from tests.builders import a_stored_task, an_attempt
from tests.unit.scheduler.node.runner_bench import (
    TIMEOUT_S,
    WORKERS,
    Bench,
    Blocking,
    Quick,
    Waiting,
    task_of,
)


class Awaiting(Blocking):
    """The same without holding up the loop."""

    async def execute(self, task: Task) -> None:  # type: ignore[override]
        """Wait for the work."""
        await asyncio.to_thread(self.work)


def test_p3_a_second_attempt_of_an_ordering_id_is_refused(bench: Bench) -> None:
    """It is a bug of the tree."""
    gate = threading.Event()
    bench.run(Blocking(lambda: gate.wait(TIMEOUT_S) and None))

    with pytest.raises(AssertionError, match="still running"):
        bench.run(Blocking(), an_attempt(number=2))
    gate.set()
    bench.ended()


def test_attempts_without_order_run_beside_each_other_and_not_beside_themselves(
    bench: Bench,
) -> None:
    """Of one ordering id, each of a key of its own."""
    gate, tasks = threading.Event(), [a_stored_task(due_in_ms=0, uniqueness_key=k) for k in "ab"]
    attempts = [replace(an_attempt(task=task), is_unordered=True) for task in tasks]
    for attempt in attempts:
        bench.run(Blocking(lambda: gate.wait(TIMEOUT_S) and None), attempt)

    with pytest.raises(AssertionError, match="still running"):
        bench.run(Blocking(), replace(attempts[0], number=2))
    gate.set()

    assert {bench.ended().ending for _ in attempts} == {Ending.DONE}


def test_p7_a_slow_attempt_holds_no_other_while_a_worker_is_free(bench: Bench) -> None:
    """However closely one follows the other: each has a thread, up to the limit."""
    for round_number in range(50):
        gate = threading.Event()
        bench.run(Blocking(), an_attempt(task=task_of(f"quick-{round_number}")))
        bench.ended()
        bench.run(
            Blocking(lambda gate=gate: gate.wait(TIMEOUT_S) and None),  # type: ignore[misc]
            an_attempt(task=task_of("slow")),
        )
        bench.run(Blocking(), an_attempt(task=task_of("other")))

        first = bench.ended().attempt.task.key.ordering_id
        gate.set()
        bench.ended()

        assert first == "other"


def test_no_more_attempts_run_than_there_are_workers(bench: Bench) -> None:
    """The rest waits."""
    before = set(threading.enumerate())
    gate, begun = threading.Event(), threading.Semaphore(0)
    running, together, counting = set[int](), list[int](), threading.Lock()

    def work() -> None:
        with counting:
            running.add(threading.get_ident())
            together.append(len(running))
        begun.release()
        gate.wait(TIMEOUT_S)
        with counting:
            running.remove(threading.get_ident())

    for number in range(WORKERS + 1):
        bench.run(Blocking(work), an_attempt(task=task_of(str(number))))
    for _ in range(WORKERS):
        assert begun.acquire(timeout=TIMEOUT_S)
    # One more would be there by now: the thread before it starts it, then takes its attempt.
    threads = [each.name for each in set(threading.enumerate()) - before]
    gate.set()

    assert sum(name.startswith("hourhand-worker-") for name in threads) == WORKERS
    assert {bench.ended().ending for _ in range(WORKERS + 1)} == {Ending.DONE}
    assert max(together) == WORKERS


@pytest.mark.parametrize("executor", [Blocking, Awaiting])
def test_suspects_run_one_at_a_time(bench: Bench, executor: type[Blocking]) -> None:
    """If one kills the process, it is known which: the next one waits until it has ended."""
    two = threading.Barrier(2)
    met: list[int] = []

    def work() -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            met.append(two.wait(0.3))

    for number in range(4):
        bench.run(executor(work), an_attempt(task=task_of(str(number)), suspect=True))
    endings = {bench.ended().ending for _ in range(4)}

    assert endings == {Ending.DONE} and met == []


def test_an_async_suspect_runs_too(bench: Bench) -> None:
    """Alone as well, on the loop."""
    bench.run(Quick(), an_attempt(suspect=True))

    assert bench.ended().ending is Ending.DROPPED


@pytest.mark.parametrize("suspect", [False, True])
def test_an_async_attempt_that_takes_too_long_is_cancelled(bench: Bench, suspect: bool) -> None:
    """And has timed out."""
    executor = Waiting()

    bench.run(executor, an_attempt(timeout_ms=20, suspect=suspect))

    assert bench.ended().ending is Ending.TIMED_OUT and executor.cancelled.wait(TIMEOUT_S)


def test_a_blocking_attempt_that_takes_too_long_is_reported_once_and_runs_on(bench: Bench) -> None:
    """No thread can be stopped from outside."""
    stuck = threading.Event()

    class Reporting(RecordingTelemetry):
        def emit(self, event: object) -> None:
            super().emit(event)  # type: ignore[arg-type]
            if isinstance(event, AttemptStuck):
                stuck.set()

    bench.calls.telemetry = telemetry = Reporting()
    bench.runner.start(
        [(an_attempt(timeout_ms=5), Blocking(lambda: stuck.wait(TIMEOUT_S) and None))],
        bench.ends.put,
    )
    ended = bench.ends.get(timeout=TIMEOUT_S)

    assert ended.ending is Ending.DONE and len(telemetry.of(AttemptStuck)) == 1


def test_user_code_that_runs_long_is_known(bench: Bench) -> None:
    """Until it ends, not until its outcome is settled: a slow store makes no code slow."""
    gate, begun = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        gate.wait(TIMEOUT_S)

    attempt = an_attempt()
    bench.run(Blocking(work), attempt)
    assert begun.wait(TIMEOUT_S)
    during = bench.runner.long_running(attempt.partition, 0)
    others = bench.runner.long_running(attempt.partition + 1, 0)
    longer = bench.runner.long_running(attempt.partition, TIMEOUT_S * 2_000)
    gate.set()
    bench.ends.get(timeout=TIMEOUT_S)

    assert (list(during), others, longer) == ([attempt], {}, {})
    assert 0 <= during[attempt] < TIMEOUT_S * 1_000
    assert not bench.runner.long_running(attempt.partition, 0)


@pytest.mark.parametrize("suspect", [False, True])
def test_an_abandoned_async_attempt_is_cancelled_and_forgotten(bench: Bench, suspect: bool) -> None:
    """Nobody hears of it."""
    executor = Waiting()
    bench.run(executor, an_attempt(suspect=suspect))
    assert executor.begun.wait(TIMEOUT_S)

    bench.runner.drain((0,), give_up="the test says so")

    assert executor.cancelled.wait(TIMEOUT_S) and bench.ends.empty()
    assert len(bench.telemetry.of(AttemptAbandoned)) == 1


@pytest.mark.parametrize("suspect", [False, True])
@pytest.mark.parametrize("retry", [RetryPolicy(drop_on=BaseException), RetryPolicy(attempts_max=1)])
def test_p16_a_policy_is_not_asked_of_an_attempt_that_was_cancelled_with_its_partition(
    bench: Bench, retry: RetryPolicy, suspect: bool
) -> None:
    """Its error is the engine's: whoever adopts it runs the task again, and drops nothing."""

    class Strict(Waiting):
        def __init__(self) -> None:
            super().__init__()
            self.retry = retry

    executor = Strict()
    attempt = bench.run(executor, an_attempt(suspect=suspect))
    assert executor.begun.wait(TIMEOUT_S)
    adopted: SimpleQueue[AttemptEnded] = SimpleQueue()

    bench.runner.drain((0,), give_up="the test says so")
    bench.runner.adopt(attempt, adopted.put)

    assert adopted.get(timeout=TIMEOUT_S).ending is Ending.NOT_STARTED


def test_an_attempt_abandoned_before_it_awaits_is_cancelled(bench: Bench) -> None:
    """Its awaitable is not on the loop yet: there is nothing to cancel at that moment."""
    awaited = Waiting()

    class AbandonedFirst:
        attempt = 0
        fence = 0
        hourhand_checkpoints: AttemptCheckpoints = NO_ATTEMPT

        def execute(self, task: Task) -> Awaitable[None]:
            bench.runner.drain((0,), give_up="the test says so")
            return awaited.execute(task)

    bench.run(AbandonedFirst())

    assert awaited.cancelled.wait(TIMEOUT_S) and bench.ends.empty()


def test_p16_an_abandoned_blocking_attempt_can_be_adopted(bench: Bench) -> None:
    """Its ordering id waits for it; its outcome goes to the adopter."""
    gate, begun = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        gate.wait(TIMEOUT_S)

    attempt = bench.run(Blocking(work))
    assert begun.wait(TIMEOUT_S)
    bench.runner.drain((0,), give_up="the test says so")
    adopted: SimpleQueue[AttemptEnded] = SimpleQueue()

    unsettled = bench.runner.unsettled(0)
    bench.runner.adopt(attempt, adopted.put)
    gate.set()

    assert list(unsettled) == [attempt]
    assert adopted.get(timeout=TIMEOUT_S).ending is Ending.DONE and bench.ends.empty()


def test_p16_an_outcome_that_nobody_settled_is_told_to_the_adopter(bench: Bench) -> None:
    """It ended while no tree was listening."""
    attempt = bench.run(Blocking())
    bench.ends.get(timeout=TIMEOUT_S)
    adopted: list[AttemptEnded] = []

    bench.runner.adopt(attempt, adopted.append)
    bench.runner.settle([attempt])

    assert [ended.ending for ended in adopted] == [Ending.DONE]
    assert not bench.runner.unsettled(0)


def test_close_cancels_async_attempts_and_lets_threads_end() -> None:
    """Nothing keeps the process."""
    bench, executor = Bench(), Waiting()
    bench.run(executor)
    bench.run(Blocking(), an_attempt(task=task_of("blocking")))
    assert executor.begun.wait(TIMEOUT_S)
    bench.ended()

    bench.close()

    assert executor.cancelled.wait(TIMEOUT_S)
