"""NodeRunner: real threads and a real loop, each attempt ended exactly once."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future

import pytest
from msgspec.structs import replace

from hourhand.actors.model.execution.attempts import Attempt, Ending
from hourhand.actors.model.operations.events import AttemptStarted
from hourhand.actors.model.task.task import AttemptState, Task
from hourhand.actors.model.values.errors import StoreUnavailable
from tests.builders import an_attempt
from tests.unit.scheduler.node.runner_bench import (
    TIMEOUT_S,
    Bench,
    Blocking,
    Quick,
    Waiting,
    task_of,
)


def test_a_blocking_attempt_runs_on_a_worker_and_knows_its_number(bench: Bench) -> None:
    """``attempt`` and ``fence`` are set just before."""
    executor = Blocking()

    attempt = bench.run(executor, an_attempt(number=3, epoch=7))
    ended = bench.ended()

    assert (ended.attempt, ended.ending) == (attempt, Ending.DONE)
    assert (executor.attempt, executor.fence) == (3, 7)
    assert executor.thread.startswith("hourhand-worker")
    assert [event.attempt for event in bench.telemetry.of(AttemptStarted)] == [3]


def test_an_async_attempt_runs_on_the_loop(bench: Bench) -> None:
    """Its outcome is a value like any other."""
    bench.run(Quick())

    ended = bench.ended()

    assert (ended.ending, ended.reason) == (Ending.DROPPED, "async")


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), KeyboardInterrupt()])
def test_whatever_user_code_raises_is_a_failed_attempt(
    bench: Bench, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker lives on, and nobody is asked to report a bug."""

    def fail() -> None:
        raise error

    bench.run(Blocking(fail))
    first = bench.ended()
    bench.run(Blocking())

    assert first.ending is Ending.FAILED and first.error_class == type(error).__name__
    assert bench.ended().ending is Ending.DONE
    assert "please report" not in caplog.text


def test_garbage_returned_is_a_failed_attempt(bench: Bench) -> None:
    """It is most likely a mistake."""
    bench.run(Blocking(lambda: "done"))

    assert bench.ended().error_class == "TypeError"


def test_a_blocking_execute_that_raises_a_timeout_of_its_own_has_failed(bench: Bench) -> None:
    """The limit of the attempt is another matter."""

    def fail() -> None:
        raise TimeoutError("smtp")

    bench.run(Blocking(fail))

    assert bench.ended().ending is Ending.FAILED


def test_p15_the_gate_is_asked_last_and_a_refusal_calls_no_user_code(bench: Bench) -> None:
    """Neither blocking nor async."""
    ran: list[str] = []
    bench.open = False

    bench.run(Blocking(lambda: ran.append("x")))
    bench.run(Waiting(), an_attempt(task=task_of("async")))
    endings = {bench.ended().ending, bench.ended().ending}

    assert endings == {Ending.NOT_STARTED} and not ran and len(bench.asked) == 2
    assert not bench.telemetry.of(AttemptStarted)


class Sleeping(Blocking):
    """The same as a coroutine."""

    async def execute(self, task: Task) -> None:  # type: ignore[override]
        """Do the work."""
        self.work()


@pytest.mark.parametrize("executor", [Blocking, Sleeping])
@pytest.mark.parametrize("used", [0, 1])
def test_the_lease_is_asked_again_after_a_start_became_durable(
    bench: Bench, executor: type[Blocking], used: int
) -> None:
    """The write may have taken longer than the lease; what was given up is recorded later."""
    recorded: Future[None] = Future()
    ran: list[str] = []

    def record(_attempts: Sequence[Attempt]) -> "Future[None]":
        bench.open = False
        recorded.set_result(None)
        return recorded

    task = replace(task_of("a"), attempts=AttemptState(used=used))
    attempt = replace(an_attempt(task=task), record_starts=record)
    bench.run(executor(lambda: ran.append("x")), attempt)

    assert bench.ended().ending is Ending.NOT_STARTED and recorded.done() and not ran


@pytest.mark.parametrize(("suspect", "used"), [(True, 0), (False, 0), (False, 1)])
@pytest.mark.parametrize("executor", [Blocking, Quick])
def test_user_code_waits_until_its_start_is_durable(
    bench: Bench, executor: type[Blocking] | type[Quick], used: int, *, suspect: bool
) -> None:
    """Blocking and async, of a suspect, of what was given up, and of any other overdue task."""
    recorded: Future[None] = Future()
    asked = threading.Event()

    def record(_attempts: Sequence[Attempt]) -> "Future[None]":
        asked.set()
        return recorded

    task = replace(task_of("a"), attempts=AttemptState(used=used))
    bench.run(executor(), replace(an_attempt(task=task, suspect=suspect), record_starts=record))
    assert asked.wait(TIMEOUT_S)
    early = bench.telemetry.of(AttemptStarted)
    recorded.set_result(None)

    assert not early and bench.ended().ending is not Ending.NOT_STARTED


@pytest.mark.parametrize("executor", [Blocking, Quick])
def test_starts_become_durable_together(executor: type[Blocking] | type[Quick]) -> None:
    """No worker and no slot waits for the store, and one request is for many."""
    sizes: list[int] = []
    bench = Bench(async_attempts_max=100)

    def record(attempts: Sequence[Attempt]) -> "Future[None]":
        sizes.append(len(attempts))
        recorded: Future[None] = Future()
        recorded.set_result(None)
        return recorded

    attempts = [
        replace(an_attempt(task=task_of(f"id-{number}")), record_starts=record)
        for number in range(100)
    ]
    bench.runner.start([(each, executor()) for each in attempts], bench.ends.put)

    assert Ending.NOT_STARTED not in {bench.ended().ending for _ in range(100)}
    assert sum(sizes) == 100 and sizes[0] > 2 and len(sizes) < 50
    bench.close()


@pytest.mark.parametrize("executor", [Blocking, Quick])
@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("used", [0, 1])
def test_a_start_that_could_not_be_recorded_calls_no_user_code(
    bench: Bench, used: int, cancelled: bool, executor: type[Blocking] | type[Quick]
) -> None:
    """The tree went away, or the store did; blocking and async, and what was given up too."""
    recorded: Future[None] = Future()
    if cancelled:
        recorded.cancel()
    else:
        recorded.set_exception(StoreUnavailable("gone"))

    task = replace(task_of("a"), attempts=AttemptState(used=used))
    attempt = replace(an_attempt(task=task), record_starts=lambda _attempts: recorded)
    bench.run(executor(), attempt)

    assert bench.ended().ending is Ending.NOT_STARTED
