"""WorkerWatch: tells once that attempts wait because all workers are busy, and when it is over."""

import threading
from collections.abc import Callable

import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.operations.events import (
    LoopBlocked,
    LoopFreed,
    WorkersExhausted,
    WorkersFreed,
)
from hourhand.actors.model.task.checkpoint_value import NO_ATTEMPT, AttemptCheckpoints
from hourhand.actors.model.task.task import Task
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.node.watching import NodeWatch
from hourhand.scheduler.node.worker_watch import (
    LoopAtHand,
    LoopWatch,
    WorkerLoad,
    WorkerPool,
    WorkerWatch,
)
from hourhand.scheduler.testing import RecordingTelemetry
from tests.builders import an_attempt
from tests.unit.scheduler.node.runner_bench import (
    TIMEOUT_S,
    WORKERS,
    Bench,
    Blocking,
    Quick,
    Waiting,
    task_of,
)


class WatchBench:
    """A pool of two workers whose load the test sets, looked at ten times a second."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.telemetry = RecordingTelemetry()
        self.load = WorkerLoad(0, 0)
        pool = WorkerPool("threads", 2, "tree.execution.workers", lambda: self.load)
        self.watch = WorkerWatch([pool], self.clock, self.telemetry)

    def wait(self, duration_ms: int, *, submitted: int, waiting: int) -> None:
        """Let time pass with a load that stays."""
        self.load = WorkerLoad(submitted, waiting)
        for _ in range(duration_ms // 100):
            self.clock.advance(100)
            self.watch.look()

    @property
    def told(self) -> list[type]:
        """Types of the events that were told, in order."""
        return [type(event) for event in self.telemetry.events]


def test_attempts_that_wait_for_a_second_are_told_of_once() -> None:
    """Not before, and not again however long it lasts and however many more come."""
    bench = WatchBench()

    bench.wait(1_000, submitted=5, waiting=3)
    early = list(bench.told)
    bench.wait(100, submitted=5, waiting=3)
    bench.wait(60_000, submitted=50, waiting=48)

    assert not early
    assert bench.telemetry.events == [
        WorkersExhausted("threads", 2, "tree.execution.workers", 3, 1_000)
    ]


def test_the_end_is_told_with_how_long_it_lasted() -> None:
    """It is over once nothing waits; another time is told again."""
    bench = WatchBench()

    bench.wait(3_000, submitted=5, waiting=3)
    bench.wait(500, submitted=5, waiting=0)
    bench.wait(2_000, submitted=9, waiting=2)

    assert bench.told == [WorkersExhausted, WorkersFreed, WorkersExhausted]
    (freed,) = bench.telemetry.of(WorkersFreed)
    assert (freed.pool, freed.workers_max, freed.busy_ms) == ("threads", 2, 3_000)


def test_a_queue_that_moves_is_no_shortage() -> None:
    """Workers come to each attempt within a second, though something waits at every look."""
    bench = WatchBench()

    for number in range(50):
        bench.wait(100, submitted=100 * (number + 1), waiting=20)

    assert not bench.told


def test_a_queue_that_moves_too_slowly_is_one_episode() -> None:
    """Each attempt waits for two seconds, so it is not over when the first ones have run."""
    bench = WatchBench()

    for number in range(10):
        bench.wait(2_000, submitted=20 * (number + 2), waiting=20)
    during = list(bench.told)
    for number in range(12, 20):
        bench.wait(200, submitted=20 * number, waiting=10)

    assert during == [WorkersExhausted]
    assert bench.told == [WorkersExhausted, WorkersFreed]


def test_the_threads_of_a_runner_are_watched() -> None:
    """Every thread is taken, and one attempt waits."""
    bench, gate, clock = Bench(), threading.Event(), VirtualClock()
    begun = threading.Semaphore(0)

    def work() -> None:
        begun.release()
        gate.wait(TIMEOUT_S)

    watch = WorkerWatch(bench.pools(), clock, bench.telemetry)
    for number in range(WORKERS + 1):
        bench.run(Blocking(work), an_attempt(task=task_of(str(number))))
    for _ in range(WORKERS):
        assert begun.acquire(timeout=TIMEOUT_S)
    watch.look()
    clock.advance(1_000)
    watch.look()
    gate.set()
    for _ in range(WORKERS + 1):
        bench.ended()
    watch.look()
    bench.close()

    (told,) = bench.telemetry.of(WorkersExhausted)
    assert (told.pool, told.workers_max, told.waiting) == ("threads", WORKERS, 1)
    assert len(bench.telemetry.of(WorkersFreed)) == 1


def test_the_slots_for_coroutines_are_watched() -> None:
    """As the threads are, under their own name and setting."""
    bench, clock, first, second = Bench(1), VirtualClock(), Waiting(), Waiting()
    watch = WorkerWatch(bench.pools(), clock, bench.telemetry)
    bench.run(first, an_attempt(task=task_of("first")))
    assert first.begun.wait(TIMEOUT_S)
    bench.run(second, an_attempt(task=task_of("second")))
    watch.look()
    clock.advance(1_000)
    watch.look()
    bench.close()

    (told,) = bench.telemetry.of(WorkersExhausted)
    assert (told.pool, told.setting) == ("async", "tree.execution.async_attempts_max")
    assert not second.begun.is_set()


def test_a_loop_that_makes_no_turn_for_a_second_is_told_of_once() -> None:
    """With the attempt that keeps it; and once more when it goes on."""
    clock, telemetry = VirtualClock(), RecordingTelemetry()
    turns: list[Callable[[], object]] = []
    attempt = an_attempt()

    def ask_turn(taken: Callable[[], object]) -> bool:
        turns.append(taken)
        return True

    watch = LoopWatch(ask_turn, lambda: LoopAtHand(attempt, "mail.py:7 in send"), clock, telemetry)
    for _ in range(3):
        watch.look()
        turns.pop()()
    watch.look()
    for _ in range(30):
        clock.advance(100)
        watch.look()
    turns.pop()()
    watch.look()

    assert telemetry.events == [
        LoopBlocked(attempt.partition, attempt.task.key, "mail.py:7 in send", 1_000),
        LoopFreed(3_000),
    ]


def test_a_node_without_coroutines_has_no_loop_to_watch() -> None:
    """It is not begun for that."""
    telemetry = RecordingTelemetry()
    watch = LoopWatch(lambda _: False, lambda: LoopAtHand(None, ""), VirtualClock(), telemetry)

    watch.look()
    watch.look()

    assert not telemetry.events


def test_a_blocked_loop_is_told_with_its_task_and_code_and_not_as_exhausted_workers() -> None:
    """The attempts that wait for it find free slots."""
    bench = Bench(async_attempts_max=100)
    begun, go = threading.Event(), threading.Event()

    class Blocks:
        attempt = fence = 0
        hourhand_checkpoints: AttemptCheckpoints = NO_ATTEMPT

        async def execute(self, task: Task) -> None:
            begun.set()
            assert go.wait(TIMEOUT_S)

    attempt = bench.run(Blocks(), an_attempt(task=task_of("blocks")))
    assert begun.wait(TIMEOUT_S)
    for number in range(10):
        bench.run(Waiting(), an_attempt(task=task_of(f"{number}")))

    found, pools = bench.workers.loop_at_hand(), bench.pools()
    go.set()
    bench.ended()
    bench.close()

    assert found.attempt is attempt and " in wait" in found.code
    assert {pool.load().waiting for pool in pools} == {0}


def test_threads_that_the_machine_did_not_have_are_asked_for_at_each_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without anything new to run."""
    bench = Bench()
    start, refused = threading.Thread.start, ["hourhand-async", "hourhand-worker-1"]

    def short(thread: threading.Thread) -> None:
        if thread.name in refused:
            refused.remove(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", short)
    go = threading.Event()
    slow = bench.run(Blocking(lambda: go.wait(TIMEOUT_S) and None), an_attempt(task=task_of("a")))
    quick = bench.run(Blocking(), an_attempt(task=task_of("b")))
    coroutine = bench.run(Quick(), an_attempt(task=task_of("c")))

    NodeWatch(bench.runner, bench.workers, SystemClock(), bench.telemetry, lambda _: None).look()
    ended = {bench.ended().attempt for _ in range(2)}
    go.set()

    assert ended == {quick, coroutine} and bench.ended().attempt is slow and not refused
    bench.close()
