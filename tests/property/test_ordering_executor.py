"""Ordering ids under random conversations: their order, what they occupy, and their states.

Decides what a scheduler, a store, a tracker and user code may say when; looks at an id's state
only to name it, by what the id has.
"""

import random
import re
from enum import Enum, auto

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hourhand.actors.messages import (
    DrainTasks,
    LoadOrdering,
    OrderingLoaded,
    RecordOutcomes,
    StartTasks,
    UpdateTask,
)
from hourhand.actors.model.execution.attempts import Ending
from hourhand.actors.model.execution.commands import Withdrawal
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.ordering_executor import OrderingExecutor
from tests.builders import NOW_MS, an_attempt
from tests.tidy.source import ROOT
from tests.unit.actors.execution_bench import ID, Bench, task_named
from tests.unit.fakes import SLOW_MS
from tests.unit.probes import EPOCH, Probe

NAMES = "abcdefgh"
SETTLED_STEPS = 60


class OrderingPhase(Enum):
    """What an ordering id waits for, as the architecture page names it."""

    IDLE = auto()
    BUSY = auto()
    SLOW = auto()
    LOADING = auto()
    WAITING = auto()


PHASES_AFTER = {
    OrderingPhase.IDLE: (OrderingPhase.BUSY, OrderingPhase.LOADING, OrderingPhase.WAITING),
    OrderingPhase.BUSY: (
        *(OrderingPhase.IDLE, OrderingPhase.SLOW, OrderingPhase.LOADING, OrderingPhase.WAITING),
    ),
    OrderingPhase.SLOW: (OrderingPhase.IDLE, OrderingPhase.LOADING, OrderingPhase.WAITING),
    OrderingPhase.LOADING: (OrderingPhase.IDLE, OrderingPhase.BUSY, OrderingPhase.WAITING),
    OrderingPhase.WAITING: (OrderingPhase.IDLE, OrderingPhase.BUSY, OrderingPhase.LOADING),
}
"""What may follow at the end of a message."""


def phase_of(ordering: OrderingExecutor | None) -> OrderingPhase:
    """Return what an id waits for, which follows from what it has."""
    if ordering is None:
        return OrderingPhase.IDLE
    if ordering.front is not None:
        return OrderingPhase.SLOW if ordering.front.is_slow else OrderingPhase.BUSY
    queue = ordering.queue
    if queue is not None and queue.reading is not None:
        return OrderingPhase.LOADING
    if queue is not None and queue.stored is not None:
        return OrderingPhase.WAITING
    return OrderingPhase.IDLE


class Conversation:
    """One ordering id, and everybody who talks to it."""

    def __init__(self, *, adopts: bool = False) -> None:
        task = task_named("a")
        self.stored: dict[TaskKey, StoredTask] = {}
        left = [an_attempt(task=task, epoch=EPOCH)] if adopts else []
        self.bench = Bench(known_since_ms=0, left=left, queue_max=2)
        self.done: set[TaskKey] = set()
        self.asker: Probe | None = None
        """Who asked for a task last."""
        self.offset = 0
        self.is_draining = False
        if adopts:
            self.stored[task.key] = task
        self.phases: set[tuple[OrderingPhase, OrderingPhase]] = set()
        self._last = phase_of(self.ordering)

    @property
    def ordering(self) -> OrderingExecutor | None:
        """The id, while it is busy."""
        return self.bench.actor._orderings.get(ID)

    def do(self, step: str, number: int) -> None:
        """Take a step where it may come now, and look at what follows."""
        getattr(self, f"_{step}")(number)
        started = self.bench.runner.started
        assert len(started) <= 1, "P3: one at a time"
        before, self._last = self._last, phase_of(self.ordering)
        if self._last is not before:
            self.phases.add((before, self._last))
        tasks, size = self.bench.slots, self.bench.budget.due_bytes
        assert tasks >= 0 and (tasks == 0) == (size == 0), "P13: what is here is counted"
        if self.stored and not self.is_draining:
            progress = self.bench.progress(NOW_MS - 3_600_000)
            times = [each.first_ms for each in progress.stragglers]
            times += [] if progress.earliest_ms is None else [progress.earliest_ms]
            assert times and min(times) <= min(self.stored).scheduled_ms, "P8: it is not passed"

    def settle(self) -> None:
        """Let everything end, and answer all, until nothing is left to answer."""
        self.do("start", 0)
        self.do("unpause", 0)
        for _ in range(SETTLED_STEPS):
            for step in ("answer", "end_well", "record", "pass_time"):
                self.do(step, 0)

    # The scheduler, and operators.

    def _execute(self, number: int) -> None:
        if not self.is_draining:
            self.offset += 1
            task = task_named(NAMES[number], self.offset)
            if task.key in self.done:
                key = task.key._replace(uniqueness_key=f"{NAMES[number]}-{self.offset}")
                task = replace(task, key=key)
            self.stored[task.key] = task
            self.bench.execute(task)

    def _update(self, number: int) -> None:
        key = task_named(NAMES[number]).key
        if key in self.stored:
            self.offset += 1
            self.stored[key] = StoredTask(key, b"{}", self.offset)
            self.bench.tell(UpdateTask(self.stored[key]))

    def _hold(self, number: int) -> None:
        """The watermark of an owner whose clock was ahead left this to the store."""
        if not self.is_draining:
            self.offset += 1
            key = task_named(NAMES[number]).key
            late_ms, name = NOW_MS + 500 * number, f"late-{self.offset}"
            key = key._replace(scheduled_ms=late_ms, uniqueness_key=name)
            self.stored[key] = StoredTask(key, b"{}", 0)
            first_ms = late_ms if number % 2 else NOW_MS - 2_000
            self.bench.load_straggler(ID, first_ms, late_ms + 1)

    def _start(self, _number: int) -> None:
        if not self.is_draining:
            self.bench.tell(StartTasks())

    def _pause(self, _number: int) -> None:
        self.bench.pause(ID)

    def _unpause(self, _number: int) -> None:
        self.bench.pause()

    def _drain(self, number: int) -> None:
        if number == 0:
            self.is_draining = True
            self.bench.tell(DrainTasks())

    def _withdraw(self, number: int) -> None:
        """An operator has a task tried again, which does nothing to one that is open; each command
        waits for the answer to the one before.
        """
        if self.asker is None or self.asker.messages:
            self.asker = self.bench.withdraw(Withdrawal.RETRY, task_named(NAMES[number]).key)

    # User code, the tracker and the store.

    def _end_well(self, _number: int) -> None:
        if self.bench.runner.started:
            self.bench.end(Ending.DONE)

    def _end_badly(self, _number: int) -> None:
        if self.bench.runner.started:
            self.bench.end(Ending.RETRY, retry_after_ms=1_000)

    def _take_long(self, _number: int) -> None:
        self.bench.runner.slow = [each.attempt for each in self.bench.runner.started]
        self.bench.advance(SLOW_MS)
        self.bench.runner.slow = []

    def _record(self, _number: int) -> None:
        while self.bench.tracker.has(RecordOutcomes):
            (asked,) = (m for m in self.bench.tracker.messages if isinstance(m, RecordOutcomes))
            for completion in asked.completions:
                self.bench.harness.siblings.known_completions.remember(completion)
                self.done.add(completion.key)
                self.stored.pop(completion.key, None)
            self.bench.record()

    def _answer(self, _number: int) -> None:
        if self.bench.asks_store:
            asked = self.bench.harness.persistence.take(LoadOrdering)
            keys = sorted(key for key in self.stored if asked.after < key <= asked.up_to)
            page = tuple(self.stored[key] for key in keys[: asked.limit])
            next_after = page[-1].key if len(keys) > asked.limit else None
            self.bench.tell(OrderingLoaded(asked, page, next_after))

    def _pass_time(self, _number: int) -> None:
        self.bench.advance(500)


STEPS = (
    *("execute", "execute", "execute", "update", "hold", "start", "pause", "unpause", "drain"),
    *("withdraw", "end_well", "end_well", "end_badly", "take_long", "record", "record", "answer"),
    *("answer", "pass_time"),
)


@given(
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, len(NAMES) - 1)), max_size=60),
)
def test_p3_p8_an_ordering_id_runs_all_it_was_handed(
    adopts: bool, steps: list[tuple[str, int]]
) -> None:
    """Whatever happens, and whenever; in the end it occupies nothing."""
    talk = Conversation(adopts=adopts)

    for step, number in steps:
        talk.do(step, number)
    talk.settle()

    assert (talk.bench.slots, talk.bench.budget.due_bytes) == (0, 0)
    assert talk.bench.is_drained if talk.is_draining else not talk.stored


def test_every_transition_of_the_table_happens_and_no_other() -> None:
    """A state that nothing reaches, or a way that nothing takes, does not belong there."""
    phases = set()
    for seed in range(250):
        rng = random.Random(seed)
        talk = Conversation(adopts=seed % 3 == 0)
        for _ in range(60):
            talk.do(rng.choice(STEPS), rng.randrange(len(NAMES)))
        phases |= talk.phases

    assert phases == {(a, b) for a, after in PHASES_AFTER.items() for b in after}


def test_the_architecture_page_draws_the_table() -> None:
    """One row for each phase, also for one that nothing follows."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = dict(re.findall(r"^\| ([a-z ]+) \| [^|]+ \| ([a-z, ]*?) *\|$", page, re.MULTILINE))

    assert set(PHASES_AFTER) == set(OrderingPhase)
    for phase, after in PHASES_AFTER.items():
        assert drawn[phase.name.lower()] == ", ".join(each.name.lower() for each in after)
