"""OrderingExecutor under random conversations: its states, its order, and what it counts.

Decides what a parent, a store and a TaskExecutor may say when; never looks at the role's state,
but for the transitions that it makes.
"""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages import (
    AdoptAttempt,
    AttemptTask,
    DrainTasks,
    ExecuteTask,
    HoldOrdering,
    KeepLane,
    LoadOrdering,
    OrderingDrained,
    OrderingLoaded,
    PauseOrdering,
    ReturnLane,
    SpillQueue,
    StartTasks,
    TaskExecuted,
    TaskPostponed,
    UpdateTask,
    WithdrawTask,
)
from actors.model.commands import Withdrawal
from actors.model.key import TaskKey, first_key_at
from actors.model.ordering_state import (
    MODES_AFTER,
    PHASES_AFTER,
    OrderingMode,
    OrderingPhase,
)
from actors.model.task import StoredTask
from tests.builders import NOW_MS, a_stored_task, an_attempt
from tests.unit.actors.ordering_executor_bench import ID, Bench, ProbedOrdering, task_named
from tests.unit.probes import EPOCH, Probe

NAMES = "abcdefgh"
AHEAD_MS = 2_000
SETTLED_STEPS = 300


class Watched(ProbedOrdering):
    """Keeps which transitions it makes."""

    phases: set[tuple[OrderingPhase, OrderingPhase]]
    modes: set[tuple[OrderingMode, OrderingMode]]

    def _enter(self, phase: OrderingPhase) -> None:
        self.phases.add((self._phase, phase))
        super()._enter(phase)

    def _turn(self, mode: OrderingMode) -> None:
        self.modes.add((self._mode, mode))
        super()._turn(mode)


class Conversation:
    """One ordering id, and everybody who talks to it."""

    def __init__(self, kind: type[ProbedOrdering] = ProbedOrdering) -> None:
        self.bench = Bench(kind, known_since_ms=0)
        self.stored: dict[TaskKey, StoredTask] = {}
        self.handed: list[TaskKey] = []
        """Open keys that were handed on, in the order in which they first were."""
        self.late: set[TaskKey] = set()
        """Handed on during a read, which may bring a later key that is later still: long past due,
        neither has an order to keep."""
        self.at_hand: StoredTask | None = None
        self.doubted = self.is_catching_up = self.is_leaving = self.is_draining = False
        self.sent = self.offset = self.attempts = 0

    def do(self, step: str, number: int) -> None:
        """Take a step where it may come now, and look at what follows."""
        getattr(self, f"_{step}")(number % len(NAMES))
        told = self.bench.role.children[0].messages if self.bench.role.children else []
        begun = [message.task for message in told if isinstance(message, AttemptTask)]
        for task in begun[self.attempts :]:
            assert self.at_hand is None, "P3: one at a time"
            self.at_hand, self.doubted = task, False
            before = self.handed[: self.handed.index(task.key)]
            early = [key for key in before if key < task.key and key not in self.late]
            assert not early, "P4: in order"
            assert not self.is_leaving and not self.is_draining
        self.attempts = len(begun)
        last = self.bench.last
        if self.handed and last and last.received == self.sent and not self.is_leaving:
            assert last.first_ms is not None, "P8: it is not idle"
            assert last.first_ms <= min(self.handed).scheduled_ms
        assert self.bench.slots >= 0

    def settle(self) -> None:
        """Answer everything until nothing is left to answer."""
        self.do("start", 0)
        for number in range(SETTLED_STEPS):
            for step in ("keep", "answer", "finish", "pass_time"):
                self.do(step, number)

    def _store(self, task: StoredTask) -> StoredTask:
        self.stored[task.key] = task
        if task.key not in self.handed:
            self.handed.append(task.key)
            self.late.discard(task.key)
            if self.bench.harness.persistence.has(LoadOrdering):
                self.late.add(task.key)
        return task

    def _begins(self) -> bool:
        return not self.sent and not self.is_draining

    def _may_be_handed(self) -> bool:
        return not self.is_leaving and not self.is_draining

    # The parent.

    def _adopt(self, number: int) -> None:
        if self._begins():
            self.sent += 1
            self.at_hand = self._store(task_named(NAMES[number]))
            self.doubted = self.is_catching_up = True
            attempt = an_attempt(task=self.at_hand, epoch=EPOCH - number % 2)
            self.bench.tell(AdoptAttempt(attempt))

    def _hold(self, number: int) -> None:
        """The watermark of an owner whose clock was ahead left these to the store."""
        if self._begins():
            self.sent += 1
            for due_in_ms in (-500, AHEAD_MS, AHEAD_MS + number):
                name = f"{number}-{due_in_ms}"
                self._store(a_stored_task(due_in_ms=due_in_ms, ordering_id=ID, uniqueness_key=name))
            first = first_key_at(NOW_MS - 500)
            self.bench.tell(HoldOrdering(first, first_key_at(NOW_MS + 3 * AHEAD_MS)))

    def _execute(self, number: int) -> None:
        if self._may_be_handed():
            self.sent += 1
            self.offset += 1
            self._store(task_named(NAMES[number], self.offset))
            self.bench.execute(NAMES[number], offset=self.offset)

    def _update(self, number: int) -> None:
        if self.handed:
            self.offset += 1
            key = self.handed[number % len(self.handed)]
            task = StoredTask(key, b"{}", self.offset)
            self.stored[key] = task
            self.sent += 1
            self.bench.tell(UpdateTask(task))

    def _keep(self, _number: int) -> None:
        """Decline what is offered to a lane, as though something more were on its way."""
        if self.bench.harness.executor.take_all(ReturnLane):
            self.bench.tell(KeepLane())

    def _start(self, _number: int) -> None:
        if not self.is_draining:
            self.is_catching_up = False
            self.bench.tell(StartTasks())

    def _withdraw(self, number: int) -> None:
        waiting = [key for key in self.handed if not self.at_hand or key != self.at_hand.key]
        if waiting:
            self.sent += 1
            key = waiting[number % len(waiting)]
            del self.stored[key]
            self.handed.remove(key)
            self.bench.tell(WithdrawTask(key, Withdrawal.CLOSE, Probe()))

    def _retry(self, _number: int) -> None:
        if self.at_hand and not self.doubted:
            self.sent += 1
            self.bench.tell(WithdrawTask(self.at_hand.key, Withdrawal.RETRY, Probe()))
            self._end(in_doubt=False, closed=False)

    def _spill(self, number: int) -> None:
        self.bench.tell(SpillQueue(task_named(NAMES[number]).key))

    def _pause(self, number: int) -> None:
        if number == 0 and self._may_be_handed():
            self.sent += 1
            self.is_leaving = True
            self.bench.tell(PauseOrdering())

    def _drain(self, number: int) -> None:
        if number == 0:
            self.is_draining = True
            self.bench.tell(DrainTasks())

    # Its TaskExecutor.

    def _postpone(self, _number: int) -> None:
        if self.at_hand and not self.doubted:
            self.bench.tell(TaskPostponed(self.at_hand.key))

    def _finish(self, number: int) -> None:
        if self.at_hand:
            in_doubt = self.doubted or number == 1
            self._end(in_doubt=in_doubt, closed=not in_doubt)

    def _end(self, *, in_doubt: bool, closed: bool) -> None:
        assert self.at_hand is not None
        key, offset = self.at_hand.key, self.at_hand.offset
        self.at_hand = None
        if closed and self.stored[key].offset == offset:
            del self.stored[key]
            self.handed.remove(key)
        self.bench.tell(TaskExecuted(key, offset, in_doubt))

    # The store, and time.

    def _answer(self, _number: int) -> None:
        if self.bench.harness.persistence.has(LoadOrdering):
            asked = self.bench.harness.persistence.take(LoadOrdering)
            keys = sorted(key for key in self.stored if asked.after < key <= asked.up_to)
            page = tuple(self.stored[key] for key in keys[: asked.limit])
            next_after = page[-1].key if len(keys) > asked.limit else None
            self.bench.tell(OrderingLoaded(page, next_after))

    def _pass_time(self, number: int) -> None:
        self.bench.harness.advance(500 * number)


STEPS = (
    "adopt",
    "hold",
    "start",
    "execute",
    "execute",
    "execute",
    "update",
    "withdraw",
    "retry",
    "spill",
    "pause",
    "drain",
    "postpone",
    "finish",
    "finish",
    "answer",
    "answer",
    "pass_time",
    "keep",
    "keep",
)


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, len(NAMES) - 1)), max_size=60))
def test_p3_p4_p8_an_ordering_id_runs_all_it_was_handed_in_order(
    steps: list[tuple[str, int]],
) -> None:
    """Whatever its parent, its task and the store say, and whenever; and it keeps no slot."""
    talk = Conversation()

    for step, number in steps:
        talk.do(step, number)
    talk.settle()

    budget = talk.bench.harness.siblings.budget
    if talk.is_draining:
        assert talk.bench.harness.executor.has(OrderingDrained)
    elif talk.bench.last is not None:
        assert talk.is_leaving or not talk.handed, "all has run"
        assert (talk.bench.slots, budget.due_bytes) == (0, 0)
        assert talk.bench.last.first_ms is None


def test_every_transition_of_the_tables_happens_and_no_other() -> None:
    """A state that nothing reaches, or a way that nothing takes, does not belong there."""
    Watched.phases, Watched.modes = set(), set()
    for seed in range(250):
        rng = random.Random(seed)
        talk = Conversation(Watched)
        if seed % 2:
            # It can only come first, which chance seldom chooses.
            talk.do("hold", seed)
        for _ in range(40):
            talk.do(rng.choice(STEPS), rng.randrange(len(NAMES)))

    assert Watched.phases == {(a, b) for a, after in PHASES_AFTER.items() for b in after}
    assert Watched.modes == {(a, b) for a, after in MODES_AFTER.items() for b in after}


@pytest.mark.parametrize(
    ("before", "refused"),
    [
        ((), TaskExecuted(task_named("a").key, 0)),
        ((), TaskPostponed(task_named("a").key)),
        ((), OrderingLoaded((), None)),
        ((), ExecuteTask(a_stored_task(ordering_id="another"))),
        ((), HoldOrdering(task_named("b").key, task_named("a").key)),
        ((DrainTasks(),), ExecuteTask(task_named("a"))),
        ((PauseOrdering(),), ExecuteTask(task_named("a"))),
        ((PauseOrdering(),), PauseOrdering()),
        ((DrainTasks(),), PauseOrdering()),
        ((DrainTasks(),), HoldOrdering(task_named("a").key, task_named("b").key)),
        ((ExecuteTask(task_named("a")),), TaskExecuted(task_named("b").key, 0)),
        (
            (ExecuteTask(task_named("a")),),
            AdoptAttempt(an_attempt(task=task_named("b"), epoch=EPOCH)),
        ),
        (
            (
                HoldOrdering(task_named("a").key, task_named("c").key),
                OrderingLoaded((task_named("d"),), None),
            ),
            None,
        ),
    ],
)
def test_what_a_state_refuses_is_a_bug_of_the_tree(
    before: tuple[object, ...], refused: object
) -> None:
    """The tree is thrown away and rebuilt from the store, as for every bug (P16)."""
    bench = Bench()

    with pytest.raises(AssertionError):
        _tell_all(bench, *before, *([refused] if refused else ()))


def _tell_all(bench: Bench, *messages: object) -> None:
    for message in messages:
        bench.tell(message)
