"""The fast path of system tasks: gate, outcomes and limits are those of every task."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import ClassVar

import pytest
from msgspec.structs import replace

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.execution.attempts import Attempt, Ending
from hourhand.actors.model.execution.outcome import Drop, Outcome
from hourhand.actors.model.operations.events import AttemptFailed
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.scheduler.node.system_executor import (
    ImmediateWork,
    SystemExecutor,
    TaskEnds,
)
from hourhand.scheduler.runtime.steps import Steps
from hourhand.scheduler.services.system.stepped_executor import SteppedExecutor
from tests.builders import a_stored_task, an_attempt
from tests.unit.scheduler.node.runner_bench import TIMEOUT_S, Bench, Waiting


class Handing(SystemExecutor):
    """Hands its task over, and is answered when the test says so."""

    def __init__(self) -> None:
        self.handed_over = threading.Event()
        self.answer: Future[Outcome | None] = Future()

    def immediate(self, task: StoredTask) -> ImmediateWork | None:
        """Know the fast path."""
        return self._hand_over

    def _hand_over(self) -> "Future[Outcome | None]":
        self.handed_over.set()
        return self.answer

    async def execute(self, task: Task) -> Outcome | None:
        """Say that this was the long way."""
        return Drop("executed")


class Executing(SystemExecutor):
    """Knows no fast path."""

    async def execute(self, task: Task) -> Outcome | None:
        """Say so."""
        return Drop("executed")


class Unslotted(SystemExecutor):
    """Waits on the event loop until the test lets it go, without a slot."""

    unslotted = True

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let_go: Callable[[], object] = lambda: None

    async def execute(self, task: Task) -> Outcome | None:
        """Wait."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        self.let_go = lambda: loop.call_soon_threadsafe(ended.set)
        self.begun.set()
        await ended.wait()
        return None


class Stepping(SteppedExecutor):
    """Takes the steps of several tasks together, and notes which."""

    together: ClassVar[list[list[str]]] = []

    def steps(self, tasks: Sequence[StoredTask]) -> Steps[TaskEnds]:
        """Drop each task whose id is a number, and fail the others."""
        names = [task.key.ordering_id for task in tasks]
        self.together.append(names)
        done: Future[None] = Future()
        done.set_result(None)
        yield done
        if "all" in names:
            raise LogUnavailable("nobody answers")
        return [Drop(name) if name.isdigit() else LookupError(name) for name in names]


class NodeBench(Bench):
    """The same bench in virtual time."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        super().__init__(async_attempts_max=1, workers=1, clock=self.clock)


@pytest.fixture
def bench() -> Iterator[NodeBench]:
    """One runner, closed at the end."""
    bench = NodeBench()
    yield bench
    bench.close()


def test_a_task_that_is_handed_over_ends_with_its_answer(bench: NodeBench) -> None:
    """It runs until then, and takes no slot."""
    executor = Handing()
    attempt = an_attempt()
    bench.runner.start([(attempt, executor)], bench.ends.put)
    assert executor.handed_over.wait(TIMEOUT_S)
    assert list(bench.runner.unsettled(attempt.partition)) == [attempt]
    executor.answer.set_result(Drop("refused"))

    ended = bench.ended()
    assert (ended.ending, ended.reason) == (Ending.DROPPED, "refused")


def test_a_failing_answer_is_a_failed_attempt(bench: NodeBench) -> None:
    """As an exception of user code is."""
    executor = Handing()
    executor.answer.set_exception(LogUnavailable("nobody answers"))
    bench.runner.start([(an_attempt(), executor)], bench.ends.put)

    ended = bench.ended()
    assert (ended.ending, ended.error_class) == (Ending.FAILED, "LogUnavailable")
    assert [str(event.error) for event in bench.telemetry.of(AttemptFailed)] == ["nobody answers"]


def test_a_hand_over_that_raises_is_a_failed_attempt(bench: NodeBench) -> None:
    """And the next task is handed over anyway."""

    class Raising(Handing):
        """Cannot even hand over."""

        def _hand_over(self) -> "Future[Outcome | None]":
            raise LookupError("no driver")

    bench.runner.start([(an_attempt(), Raising())], bench.ends.put)
    assert bench.ended().error_class == "LookupError"
    assert [str(event.error) for event in bench.telemetry.of(AttemptFailed)] == ["no driver"]
    executor = Handing()
    executor.answer.set_result(None)
    bench.runner.start([(an_attempt(), executor)], bench.ends.put)
    assert bench.ended().ending is Ending.DONE


def stepped(bench: NodeBench, *names: str, withdrawn: str = "") -> dict[str, Ending]:
    """Have tasks wait for the fast path together; return how each ended."""

    class Blocking(Handing):
        """Keeps the thread of the fast path until the others wait there."""

        def _hand_over(self) -> "Future[Outcome | None]":
            super()._hand_over()
            assert let_go.wait(TIMEOUT_S)
            return self.answer

    let_go, blocking = threading.Event(), Blocking()
    blocking.answer.set_result(None)
    bench.runner.start([(an_attempt(), blocking)], bench.ends.put)
    assert blocking.handed_over.wait(TIMEOUT_S)
    attempts = [an_attempt(task=a_stored_task(ordering_id=name)) for name in names]
    bench.runner.start([(each, Stepping()) for each in attempts], bench.ends.put)
    for each in attempts:
        if each.task.key.ordering_id == withdrawn:
            assert bench.runner.withdraw(each)
    let_go.set()
    assert bench.ended().ending is Ending.DONE
    ended = [bench.ended() for _ in names]
    return {each.attempt.task.key.ordering_id: each.ending for each in ended}


def test_tasks_that_wait_together_take_their_steps_together(bench: NodeBench) -> None:
    """Each has an end of its own, and one that was withdrawn is not among them."""
    Stepping.together.clear()

    ends = stepped(bench, "1", "x", "2", "3", withdrawn="2")

    assert Stepping.together == [["1", "x", "3"]]
    assert ends == {
        "1": Ending.DROPPED,
        "x": Ending.FAILED,
        "2": Ending.NOT_STARTED,
        "3": Ending.DROPPED,
    }


def test_steps_that_fail_fail_all_that_take_them(bench: NodeBench) -> None:
    """Each is tried again as any attempt that failed."""
    assert stepped(bench, "1", "all") == {"1": Ending.FAILED, "all": Ending.FAILED}


def test_nothing_is_handed_over_through_a_closed_gate(bench: NodeBench) -> None:
    """The gate is asked last here, too."""
    bench.open = False
    executor = Handing()
    bench.runner.start([(an_attempt(), executor)], bench.ends.put)

    assert bench.ended().ending is Ending.NOT_STARTED
    assert not executor.handed_over.is_set()


@pytest.mark.parametrize("executor", [Handing, Executing])
def test_an_overdue_task_runs_without_a_durable_start(
    bench: NodeBench, executor: Callable[[], SystemExecutor]
) -> None:
    """What is behind must not cost more than what is not; system tasks are never given up."""

    def record_starts(_attempts: Sequence[Attempt]) -> "Future[None]":
        raise AssertionError("its start proves nothing")

    made = executor()
    bench.runner.start([(replace(an_attempt(), record_starts=record_starts), made)], bench.ends.put)
    if isinstance(made, Handing):
        made.answer.set_result(None)
    assert bench.ended().ending in {Ending.DONE, Ending.DROPPED}


def test_what_waits_for_others_keeps_its_queue_in_memory_for_longer(bench: NodeBench) -> None:
    """Read again, the queue would cost the store what the wait is for."""
    others, executor = Waiting(), Unslotted()
    bench.runner.start([(an_attempt(partition=1), others)], lambda ended: None)
    bench.runner.start([(an_attempt(), executor)], bench.ends.put)
    assert others.begun.wait(TIMEOUT_S)
    assert executor.begun.wait(TIMEOUT_S)
    bench.clock.advance(5_000)

    assert bench.runner.long_running(1, 1_000)
    assert not bench.runner.long_running(an_attempt().partition, 1_000)
    bench.clock.advance(5_000)
    assert bench.runner.long_running(an_attempt().partition, 1_000)
    executor.let_go()
    assert bench.ended().ending is Ending.DONE


class Draining(Executing):
    """Waits until it is drained."""

    def __init__(self) -> None:
        self.drained = threading.Event()
        self.begun = threading.Event()

    def drain(self) -> None:
        """End the wait."""
        super().drain()
        self.drained.set()

    async def execute(self, task: Task) -> Outcome | None:
        """Return the offset of the record that made the task."""
        self.begun.set()
        await asyncio.to_thread(self.drained.wait, TIMEOUT_S)
        return Drop(f"{self.record_offset}, draining: {self.is_draining}")


def test_a_system_task_knows_its_record_and_that_its_partition_is_drained(
    bench: NodeBench,
) -> None:
    """Of the attempt that runs, whatever tree it was started by."""
    executor = Draining()
    attempt = an_attempt(task=a_stored_task(offset=42))
    bench.runner.start([(attempt, executor)], bench.ends.put)
    assert executor.begun.wait(TIMEOUT_S)
    bench.runner.drain([attempt.partition + 1])
    assert not executor.is_draining
    bench.runner.drain([attempt.partition])

    assert bench.ended().reason == "42, draining: True"


def test_what_others_wait_for_needs_no_slot(bench: NodeBench) -> None:
    """It runs although every slot is taken for good."""
    taken, executor = Waiting(), Unslotted()
    bench.runner.start([(an_attempt(partition=1), taken)], lambda ended: None)
    assert taken.begun.wait(TIMEOUT_S)
    bench.runner.start([(an_attempt(), executor)], bench.ends.put)
    assert executor.begun.wait(TIMEOUT_S)
    executor.let_go()

    assert bench.ended().ending is Ending.DONE
