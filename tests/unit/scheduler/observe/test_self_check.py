"""The self-check fires on every fault that is planted, and on nothing that is excepted."""

from collections.abc import Callable, Sequence

import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.operations import events
from hourhand.actors.model.task.codec import CommandKind
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import (
    AttemptResult,
    CommandOutcome,
    Completion,
    CompletionResult,
)
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.adapters.observing.counted import checked_stores
from hourhand.scheduler.observe.self_check import SETTLED_MS, SelfCheck
from hourhand.scheduler.testing import RecordingTelemetry
from tests.builders import NOW_MS, a_key, a_record, a_task

P = 0
"""The partition of all of them."""


class Node:
    """A node's words to its self-check, with a store of its own."""

    def __init__(self) -> None:
        self.clock = VirtualClock(NOW_MS)
        self.told = RecordingTelemetry()
        stores = open_memory_stores(MemoryStores())
        self.check = SelfCheck(self.clock, self.told.emit, stores, 1.0, 1_000_000)
        self.stores = checked_stores(stores, self.check)
        self._write_time = 0
        self.take(events.PartitionAssigned(P, 1, 0, 0))
        self.clock.advance(SETTLED_MS)

    def take(self, event: events.Event) -> None:
        """Tell of something."""
        self.check.take(event)

    def store(self, *keys: TaskKey) -> None:
        """Write rows."""
        self._write_time += 1
        rows = [StoredTask(key, b"{}", 7) for key in keys]
        self.stores.schedule.insert_tasks(P, rows, self._write_time).result(timeout=30)

    def due(self, key: TaskKey) -> None:
        """Let time pass until a key is due."""
        self.clock.advance(max(0, key.scheduled_ms - self.clock.now_ms()))

    def start(self, key: TaskKey, attempt: int = 1) -> None:
        """Start an attempt now."""
        late_ms = self.clock.now_ms() - key.scheduled_ms
        self.take(events.AttemptStarted(P, key, attempt, late_ms))

    def finish(self, key: TaskKey, *, stored: bool = True) -> None:
        """End it well, and close its key."""
        self.clock.advance(5)
        now_ms = self.clock.now_ms()
        self.take(events.AttemptFinished(P, key, 1, AttemptResult.SUCCESS, 5, now_ms))
        if stored:
            self.complete(key)
        self.take(events.TaskClosed(P, key, CompletionResult.SUCCESS))

    def complete(self, key: TaskKey, result: CompletionResult = CompletionResult.SUCCESS) -> None:
        """Write a completion."""
        self._write_time += 1
        done = Completion(key, result, 0, 1, finished_ms=self.clock.now_ms())
        written = self.stores.status.insert_completions(P, (done,), self._write_time)
        written.result(timeout=30)

    def doubted(self) -> list[str]:
        """Return the promises that look broken."""
        return [event.promise for event in self.told.of(events.PromiseDoubted)]


FIRST = a_key(due_in_ms=SETTLED_MS + 10_000, uniqueness_key="1")
SECOND = a_key(due_in_ms=SETTLED_MS + 20_000, uniqueness_key="2")


def plant_early(node: Node) -> None:
    """Start before it is due."""
    node.start(FIRST)


def plant_together(node: Node) -> None:
    """Start the second while the first runs."""
    node.due(SECOND)
    node.start(FIRST)
    node.start(SECOND)


def plant_out_of_order(node: Node) -> None:
    """Start the second, the first being open."""
    node.store(FIRST, SECOND)
    node.due(SECOND)
    node.start(SECOND)


def plant_again(node: Node) -> None:
    """Start what this node has done."""
    node.due(FIRST)
    node.start(FIRST)
    node.finish(FIRST)
    node.clock.advance(10)
    node.start(FIRST)


def plant_again_elsewhere(node: Node) -> None:
    """Start what another node has done long ago."""
    node.due(FIRST)
    node.complete(FIRST)
    node.clock.advance(10)
    node.start(FIRST)


def plant_lost_completion(node: Node) -> None:
    """Close a key without storing that."""
    node.due(FIRST)
    node.start(FIRST)
    node.finish(FIRST, stored=False)


def plant_orphan(node: Node) -> None:
    """Let the watermark pass an open task."""
    node.store(FIRST)
    node.due(SECOND)
    node.take(events.WatermarkAdvanced(P, SECOND.scheduled_ms, 0))


def plant_lost_record(node: Node) -> None:
    """Commit the offset of a record of which nothing was stored."""
    node.check.note_polled(a_record(task=a_task(), offset=7))
    node.check.note_committed({P: 8})


@pytest.mark.parametrize(
    ("plant", "promise"),
    [
        (plant_early, "P2"),
        (plant_together, "P3"),
        (plant_out_of_order, "P4"),
        (plant_again, "P5"),
        (plant_again_elsewhere, "P5"),
        (plant_lost_completion, "P5"),
        (plant_orphan, "P8"),
        (plant_lost_record, "P9"),
    ],
)
def test_a_planted_fault_is_found_and_told_once(
    plant: Callable[[Node], None], promise: str
) -> None:
    """However often it is looked at."""
    node = Node()

    plant(node)
    plant(node)

    assert set(node.doubted()) >= {promise}
    assert node.doubted().count(promise) <= 2


def run_in_order(node: Node) -> None:
    """Two tasks of one id, as promised."""
    node.store(FIRST, SECOND)
    node.check.note_polled(a_record(task=a_task(), offset=7))
    node.store(a_key())
    node.check.note_committed({P: 8})
    for key in (FIRST, SECOND):
        node.due(key)
        node.start(key)
        node.finish(key)
    node.due(a_key(due_in_ms=HOUR_MS))
    node.complete(a_key())
    node.take(events.WatermarkAdvanced(P, NOW_MS + HOUR_MS - 60_000, 0))


def outlive_a_revocation(node: Node) -> None:
    """An attempt that outlived its deadline, and the next owner's, which is this node again."""
    node.due(FIRST)
    node.start(FIRST)
    node.take(events.AttemptAbandoned(P, FIRST, 1, "late"))
    node.take(events.PartitionRevoked(P, drained=False))
    node.take(events.PartitionAssigned(P, 2, 0, 0))
    node.start(FIRST)


def run_again_after_a_takeover(node: Node) -> None:
    """The old owner's completion came late: just after the takeover it proves nothing."""
    node.due(FIRST)
    node.take(events.PartitionLost(P, "lost"))
    node.complete(FIRST)
    node.take(events.PartitionAssigned(P, 2, 0, 0))
    node.clock.advance(10)
    node.start(FIRST)


def retry_by_an_operator(node: Node) -> None:
    """A done key that is reopened runs again."""
    node.due(FIRST)
    node.start(FIRST)
    node.finish(FIRST)
    node.complete(FIRST, CompletionResult.REOPENED)
    node.take(events.CommandDecided(P, FIRST, CommandKind.RETRY, CommandOutcome.APPLIED))
    node.clock.advance(10)
    node.start(FIRST, attempt=2)


def overtake_after_a_command(node: Node) -> None:
    """While a command is decided a later task may start first."""
    node.store(FIRST, SECOND)
    node.due(SECOND)
    node.take(events.CommandDecided(P, FIRST, CommandKind.RETRY, CommandOutcome.UNKNOWN_KEY))
    node.start(SECOND)


def store_late(node: Node) -> None:
    """A task stored after an earlier one fell due may run after later ones."""
    node.store(SECOND)
    node.due(SECOND)
    node.store(FIRST)
    node.start(SECOND)


def begin_before_the_end_of_the_log(node: Node) -> None:
    """A partition that began after its deadline keeps no order."""
    node.take(events.CatchUpEnded(P, 30_000, complete=False))
    node.store(FIRST, SECOND)
    node.due(SECOND)
    node.start(SECOND)


def pass_a_straggler(node: Node) -> None:
    """The watermark may pass ids that are listed."""
    node.store(FIRST)
    node.due(SECOND)
    node.take(events.WatermarkAdvanced(P, SECOND.scheduled_ms, 1))


def fail_and_try_again(node: Node) -> None:
    """A retry holds its id; what follows it comes after."""
    node.store(FIRST, SECOND)
    node.due(FIRST)
    node.start(FIRST)
    now_ms = node.clock.now_ms()
    node.take(events.AttemptFinished(P, FIRST, 1, AttemptResult.FAILURE, 5, now_ms, "Boom"))
    node.due(SECOND)
    node.start(FIRST, attempt=2)
    node.finish(FIRST)
    node.start(SECOND)
    node.finish(SECOND)


def run_without_order(node: Node) -> None:
    """Beside what has an order and before what was due earlier, as its kind allows."""
    node.check.unordered = {"swarm"}
    rows = [StoredTask(FIRST, b'{"hourhand.kind":"swarm"}', 7), StoredTask(SECOND, b"{}", 7)]
    node.stores.schedule.insert_tasks(P, rows, 1).result(timeout=30)
    node.due(SECOND)
    node.start(SECOND)
    node.take(events.AttemptStarted(P, FIRST, 1, 5, is_unordered=True))
    node.finish(FIRST)
    node.finish(SECOND)


@pytest.mark.parametrize(
    "live",
    [
        run_in_order,
        run_without_order,
        outlive_a_revocation,
        run_again_after_a_takeover,
        retry_by_an_operator,
        overtake_after_a_command,
        store_late,
        begin_before_the_end_of_the_log,
        pass_a_straggler,
        fail_and_try_again,
    ],
)
def test_what_is_promised_or_excepted_is_no_fault(live: Callable[[Node], None]) -> None:
    """A check that cries wolf is switched off."""
    node = Node()

    live(node)

    assert node.told.of(events.PromiseDoubted) == []


def test_curiosity_is_bounded_and_suspicion_is_not() -> None:
    """However many tasks run, the store is asked ten times a second at most."""
    clock, told = VirtualClock(NOW_MS), RecordingTelemetry()
    stores = open_memory_stores(MemoryStores())
    check = SelfCheck(clock, told.emit, stores, 1.0)
    keys: Sequence[TaskKey] = [a_key(due_in_ms=0, ordering_id=f"id {n}") for n in range(500)]
    check.take(events.PartitionAssigned(P, 1, 0, 0))
    clock.advance(SETTLED_MS)

    for key in keys:
        check.take(events.AttemptStarted(P, key, 1, 5))

    assert len(told.of(events.SelfChecked)) == 10
    clock.advance(1_000)
    for key in keys:
        check.take(events.AttemptStarted(P, key, 1, -5))
    assert len(told.of(events.SelfChecked)) == 20
    assert len(told.of(events.PromiseDoubted)) == 1_000
