"""Checkpoints of running attempts: how often they are handed over, and which one."""

from collections.abc import Callable

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.execution.attempts import AttemptEnded, CheckpointMade, Ending
from hourhand.actors.model.values.errors import StoreUnavailable
from hourhand.scheduler.node.attempts import AttemptRegistry, RunningAttempt
from hourhand.scheduler.node.checkpoints import NodeCheckpoints
from tests.builders import NOW_MS, RecordingExecutable, a_stored_task, an_attempt


class Bench:
    """The desk of a node whose timers the test lets ring."""

    def __init__(self) -> None:
        self.clock = VirtualClock(NOW_MS)
        self.timers: list[tuple[float, Callable[[], object]]] = []
        self.desk = NodeCheckpoints(self.clock, self._call_later)
        self.told: list[CheckpointMade] = []
        self.ended: list[AttemptEnded] = []
        self.registry = AttemptRegistry()
        self.registry.desk = self.desk
        self.desk.tell(0, self.told.append, ())

    def _call_later(self, delay_ms: float, call: Callable[[], object]) -> None:
        self.timers.append((self.clock.monotonic_ms() + delay_ms, call))

    def start(self, ordering_id: str = "a") -> RunningAttempt:
        """Return an attempt that runs."""
        attempt = an_attempt(task=a_stored_task(due_in_ms=0, ordering_id=ordering_id))
        (running,) = self.registry.add([(attempt, RecordingExecutable())], self.ended.append)
        self.registry.begin(running, self.clock.monotonic_ms())
        return running

    def advance(self, delta_ms: float) -> None:
        """Let time pass, and the timers ring that are due."""
        self.clock.advance(delta_ms)
        due = [call for at_ms, call in self.timers if at_ms <= self.clock.monotonic_ms()]
        self.timers = [each for each in self.timers if each[1] not in due]
        for call in due:
            call()

    def bodies(self) -> list[bytes]:
        """Return what was handed over, in order."""
        return [each.checkpoint.body for each in self.told]


def test_a_checkpoint_is_handed_over_in_the_nodes_own_time() -> None:
    """User code is back before anybody hears of it."""
    bench = Bench()
    running = bench.start()

    running.make(b"1")
    early = bench.bodies()
    bench.advance(0)

    assert (early, bench.bodies()) == ([], [b"1"])
    made = bench.told[0].checkpoint
    assert (made.key, made.attempt, made.fence) == (
        running.attempt.task.key,
        running.attempt.number,
        running.attempt.epoch,
    )


def test_of_many_in_a_second_the_newest_is_handed_over() -> None:
    """Once a second, whatever the code does."""
    bench = Bench()
    running = bench.start()
    for number in range(100):
        running.make(b"%d" % number)
        bench.advance(25)
        for each in bench.told:
            each.answer(None)

    assert bench.bodies() == [b"0", b"40", b"80"]
    bench.advance(1_000)
    assert bench.bodies()[-1] == b"99"
    bench.advance(10_000)
    assert len(bench.told) == 4, "nothing new is handed over"


def test_a_slow_store_is_asked_once() -> None:
    """The next hand-over waits for the answer, and then has the newest."""
    bench = Bench()
    running = bench.start()
    running.make(b"1")
    bench.advance(0)
    running.make(b"2")
    bench.advance(60_000)
    running.make(b"3")
    bench.advance(60_000)
    waited = bench.bodies()

    bench.told[0].answer(None)
    bench.advance(0)

    assert (waited, bench.bodies()) == ([b"1"], [b"1", b"3"])


def test_what_the_store_failed_is_tried_again_a_second_later() -> None:
    """Without a word to user code."""
    bench = Bench()
    running = bench.start()
    running.make(b"1")
    bench.advance(0)

    bench.told[0].answer(StoreUnavailable("down"))
    bench.advance(999)
    early = len(bench.told)
    bench.advance(1)

    assert (early, bench.bodies()) == (1, [b"1", b"1"])


def test_the_last_one_comes_with_the_end() -> None:
    """The tree has it durable before what follows from a failure; success is only shown with it."""
    bench = Bench()
    for ending in (Ending.FAILED, Ending.DONE):
        running = bench.start()
        running.make(b"1")
        running.make(b"2")
        bench.registry.end(running, AttemptEnded(running.attempt, ending, 0, 0))
        bench.registry.settle([running.attempt])
        running.make(b"3")
    bench.advance(5_000)

    failed, done = bench.ended
    assert failed.checkpoint is not None and failed.checkpoint.body == b"2"
    assert done.checkpoint is not None and done.checkpoint.body == b"2"
    assert bench.bodies() == [], "what has ended is handed over no more"


def test_a_success_has_none_that_is_durable_already() -> None:
    """But a failure has: the next attempt finds it in memory."""
    bench = Bench()
    for ending in (Ending.DONE, Ending.FAILED):
        running = bench.start()
        running.make(b"1")
        bench.advance(1_000)
        bench.told[-1].answer(None)
        bench.registry.end(running, AttemptEnded(running.attempt, ending, 0, 0))
        bench.registry.settle([running.attempt])

    assert [each.checkpoint is None for each in bench.ended] == [True, False]


def test_a_new_tree_is_told_again_what_may_be_lost() -> None:
    """But not what is known to be durable."""
    bench = Bench()
    lost, durable = bench.start("a"), bench.start("b")
    lost.make(b"1")
    durable.make(b"2")
    bench.advance(0)
    bench.told[1].answer(None)

    again: list[CheckpointMade] = []
    bench.desk.tell(0, again.append, (lost, durable))
    bench.advance(1_000)
    lost.make(b"3")
    bench.advance(1_000)

    assert [each.checkpoint.body for each in again] == [b"1"]
    again[0].answer(None)
    bench.advance(1_000)
    assert [each.checkpoint.body for each in again] == [b"1", b"3"]


def test_nothing_of_an_abandoned_attempt_is_handed_over() -> None:
    """Its task is another owner's."""
    bench = Bench()
    running = bench.start()
    running.make(b"1")

    bench.registry.abandon([0])
    bench.advance(5_000)

    assert bench.bodies() == []
