"""Tasks of one ordering id that need no order: those of kinds of which it runs several at once.

Each such kind has places of its own, and waits neither for the tasks that have an order nor for
another kind.  Decides which of its tasks are at hand, which wait in memory, and which are left to
the store.  Never decides what becomes of an attempt, and never reads the store itself.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from actors.kernel.ref import Ref
from actors.messages import (
    AdoptAttempt,
    AttemptTask,
    CompletionRecorded,
    DrainTasks,
    OrderingLoaded,
    TaskExecuted,
    TaskWithdrawn,
    UpdateTask,
    WithdrawTask,
)
from actors.model.attempts import Attempt
from actors.model.commands import Withdrawal, WithdrawalResult
from actors.model.key import TaskKey, first_key_at
from actors.model.ordering_queue import OrderingQueue
from actors.model.ordering_state import OrderingMode
from actors.model.task import StoredTask
from actors.ports.effects import Effects


@dataclass(slots=True)
class _AtHand:
    """A task that an executor has."""

    executor: Ref
    kind: str | None
    held_bytes: int
    is_own: bool = True
    """False for an attempt that another owner came after: its key is run again."""
    update: StoredTask | None = None
    """A later record, until its executor is known to have seen it."""
    is_withdrawn: bool = False
    """A command withdrew it that may leave it open."""
    is_held: bool = False
    """It takes long, or waits for its next attempt or an operator."""


@dataclass(slots=True)
class _OfKind:
    """What there is of one kind."""

    places: int | None
    """Tasks at hand at once; None where only memory bounds them."""
    tasks: OrderingQueue = field(default_factory=OrderingQueue)
    loading: tuple[TaskKey, TaskKey] | None = None
    at_hand: int = 0
    held: int = 0

    def first_ms(self) -> int | None:
        loading, first_ms = self.loading, self.tasks.first_ms()
        if loading is None:
            return first_ms
        loading_ms = loading[0].scheduled_ms
        return loading_ms if first_ms is None else min(first_ms, loading_ms)

    def leaves_to_store(self, key: TaskKey) -> bool:
        """Whether a key is, or is being read, among what was left to the store."""
        ranges = (self.tasks.spilled, self.loading)
        return any(each is not None and each[0] < key <= each[1] for each in ranges)


class UnorderedTasks:
    """The tasks without order of one ordering id; its OrderingExecutor says when it may go on."""

    def __init__(
        self,
        effects: Effects,
        spawn: Callable[[object], Ref],
        ask_store: Callable[[TaskKey, TaskKey, str | None], None],
        leave_ordered: Callable[[StoredTask], None],
    ) -> None:
        """``spawn`` makes a TaskExecutor and tells it something; ``ask_store`` asks for a range of
        keys of a kind; ``leave_ordered`` leaves a task to the store that turns out to have an
        order.
        """
        self._places = effects.concurrency_per_id
        self._tasks_max = effects.settings.window.ordering_queue_tasks_max
        self._spawn = spawn
        self._ask_store = ask_store
        self._leave_ordered = leave_ordered
        self._kinds: dict[str | None, _OfKind] = {}
        self._at_hand: dict[TaskKey, _AtHand] = {}
        self._idle: list[Ref] = []
        """Executors without a task."""
        self._at_hand_bytes = 0
        self._released = 0
        self._handed_over = False
        """A kind has got a task of another one."""

    @property
    def is_busy(self) -> bool:
        """Whether any task is at hand."""
        return bool(self._at_hand)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing, here or in the store."""
        return not self._at_hand and self.first_ms() is None

    @property
    def is_held(self) -> bool:
        """Whether a task at hand takes long or waits."""
        return any(each.held for each in self._kinds.values())

    @property
    def size_bytes(self) -> int:
        """What its tasks hold in memory."""
        if not self._kinds:
            return 0
        return self._at_hand_bytes + sum(each.tasks.size_bytes for each in self._kinds.values())

    def first_ms(self) -> int | None:
        """Scheduled time of the first open task; of the store's, a time not after it."""
        if not self._kinds:
            return None
        times = [each.first_ms() for each in self._kinds.values()]
        known = [time_ms for time_ms in times if time_ms is not None]
        return min((*known, *(key.scheduled_ms for key in self._at_hand)), default=None)

    def take_released(self) -> int:
        """Return how many slots were given back since this was asked."""
        released, self._released = self._released, 0
        return released

    def takes(self, task: StoredTask) -> bool:
        """Whether a task belongs here: it needs no order, or an earlier record needed none."""
        if task.kind in self._places or task.key in self._at_hand:
            return True
        return any(task.key in each.tasks for each in self._kinds.values())

    # A task arrives.

    def accept(self, task: StoredTask) -> None:
        """Take a task that is not known."""
        assert not self._knows(task.key), "a later record of a known key updates it"
        if not self._of(task.kind).tasks.take(task, self._tasks_max):
            self._released += 1

    def update(self, task: StoredTask) -> bool:
        """Take over a later record of a key that is in memory; return whether it is."""
        known = self._at_hand.get(task.key)
        if known is None or not known.is_own:
            return any(each.tasks.update(task) for each in self._kinds.values())
        known.update = task.later_of(known.update)
        assert known.update.key == task.key, "another key's record"
        if task.held_bytes > known.held_bytes:
            self._at_hand_bytes += task.held_bytes - known.held_bytes
            known.held_bytes = task.held_bytes
        known.executor.tell(UpdateTask(task))
        return True

    def leave(self, task: StoredTask) -> None:
        """Leave a task to the store that was found there, unless it is known."""
        of_kind = self._of(task.kind)
        if not self._knows(task.key) and not of_kind.leaves_to_store(task.key):
            of_kind.tasks.spill_key(task.key)

    def read_first(self, after: TaskKey, up_to: TaskKey) -> None:
        """Have a range of the store read."""
        assert after <= up_to, "a range of keys ends before it begins"
        for kind in self._places:
            self._of(kind).tasks.spill(after, up_to)

    def _of(self, kind: str | None) -> _OfKind:
        of_kind = self._kinds.get(kind)
        if of_kind is None:
            of_kind = self._kinds[kind] = _OfKind(self._places.get(kind, 1))
        return of_kind

    def _knows(self, key: TaskKey) -> bool:
        at_hand = self._at_hand.get(key)
        if at_hand is not None and at_hand.is_own:
            return True
        return any(key in each.tasks for each in self._kinds.values())

    # The next tasks.

    def go_on(self, now_ms: int) -> int | None:
        """Begin what has a place, and read on; return when the first that is not due will be."""
        self._handed_over = False
        waits_ms = [
            due_ms
            for kind, of_kind in tuple(self._kinds.items())
            if (due_ms := self._go_on(kind, of_kind, now_ms)) is not None
        ]
        if self._handed_over:
            return self.go_on(now_ms)
        return min(waits_ms, default=None)

    def _go_on(self, kind: str | None, of_kind: _OfKind, now_ms: int) -> int | None:
        tasks = of_kind.tasks
        while self._has_place(of_kind) and (key := tasks.first()) is not None:
            if key in self._at_hand:
                # Until the old attempt of the key has ended.
                return None
            task = tasks.pop()
            assert task is not None, "the first key has a task"
            if task.kind == kind and kind in self._places:
                self._begin(of_kind, task)
            else:
                self._hand_over(task)
        if len(tasks) or of_kind.loading or tasks.spilled is None or not self._has_place(of_kind):
            return None
        after, up_to = tasks.spilled
        assert after <= up_to, "a range of keys ends before it begins"
        if after.scheduled_ms > now_ms:
            return after.scheduled_ms
        of_kind.loading, tasks.spilled = (after, up_to), None
        self._ask_store(after, up_to, kind)
        return None

    def _has_place(self, of_kind: _OfKind) -> bool:
        """Whether one more may be at hand; where that is unlimited, those that wait count half."""
        if of_kind.places is not None:
            return of_kind.at_hand < of_kind.places
        runs, most = of_kind.at_hand - of_kind.held, self._tasks_max
        return runs < most and of_kind.at_hand < 2 * most

    def _begin(self, of_kind: _OfKind, task: StoredTask) -> None:
        executor = self._told(AttemptTask(task))
        assert task.key not in self._at_hand, "a key never runs beside itself (P3)"
        of_kind.at_hand += 1
        assert of_kind.places is None or of_kind.at_hand <= of_kind.places, "it has a place (P3)"
        self._at_hand[task.key] = _AtHand(executor, task.kind, task.held_bytes)
        self._at_hand_bytes += task.held_bytes

    def _told(self, message: object) -> Ref:
        """Return an executor that has no other task, told of this one."""
        if not self._idle:
            return self._spawn(message)
        executor = self._idle.pop()
        executor.tell(message)
        return executor

    def _hand_over(self, task: StoredTask) -> None:
        """Let a task go whose kind is another one by now."""
        assert task.key not in self._at_hand, "what runs ends where it is"
        self._released += 1
        if task.kind in self._places:
            self._handed_over = True
            self.leave(task)
        else:
            self._leave_ordered(task)

    def take_loaded(self, message: OrderingLoaded, now_ms: int) -> None:
        """Take what was read."""
        of_kind = self._of(message.kind)
        assert of_kind.loading is not None, "nobody asked for these tasks"
        (after, up_to), of_kind.loading = of_kind.loading, None
        found = message.tasks
        assert not found or after < found[0].key <= found[-1].key <= up_to, "not what was asked for"
        if message.next_after is not None:
            of_kind.tasks.spill(message.next_after, up_to)
        for task in found:
            if task.key.scheduled_ms > now_ms:
                # Read again when it is due: its clock may be that of an owner far ahead.
                of_kind.tasks.spill(first_key_at(task.key.scheduled_ms), up_to)
                break
            if task.kind == message.kind:
                if not self._knows(task.key):
                    of_kind.tasks.add(task)
                    self._released -= 1
            elif task.kind in self._places:
                self.leave(task)
            else:
                self._leave_ordered(task)

    # A task ends, takes long, or is withdrawn.

    def finish(self, message: TaskExecuted, mode: OrderingMode) -> bool:
        """Let a task go; False where it was not at hand here."""
        key = message.key
        at_hand = self._at_hand.pop(key, None)
        if at_hand is None:
            return False
        of_kind = self._of(at_hand.kind)
        of_kind.at_hand -= 1
        of_kind.held -= at_hand.is_held
        assert 0 <= of_kind.held <= of_kind.at_hand, "a task ends once"
        self._idle.append(at_hand.executor)
        self._at_hand_bytes -= at_hand.held_bytes
        assert self._at_hand_bytes >= 0, "more is let go of than was taken"
        self._released += 1
        if mode is OrderingMode.LEAVING:
            return True
        if at_hand.update is not None and at_hand.update.offset > message.offset:
            # The task ended before it heard of this record, which may open the key again.
            self._take_again(at_hand.update)
        # Where the partition is given up it may have ended open, and others are still at hand.
        if message.in_doubt or at_hand.is_withdrawn or mode is OrderingMode.DRAINING:
            of_kind.tasks.spill_key(key)
        return True

    def _take_again(self, task: StoredTask) -> None:
        if task.kind in self._places:
            self._of(task.kind).tasks.add(task)
            self._released -= 1
        else:
            self._leave_ordered(task)

    def has_at_hand(self, key: TaskKey) -> bool:
        """Whether an executor has this key."""
        return key in self._at_hand

    def hold(self, key: TaskKey) -> bool:
        """Note that a task takes long or waits; False where it is not at hand here."""
        at_hand = self._at_hand.get(key)
        if at_hand is None:
            return False
        if not at_hand.is_held:
            at_hand.is_held = True
            of_kind = self._of(at_hand.kind)
            of_kind.held += 1
            if of_kind.held == of_kind.at_hand and not self._has_place(of_kind):
                self._released += of_kind.tasks.spill_all()
        return True

    def withdraw(self, message: WithdrawTask, *, is_ending: bool) -> bool:
        """Let go of a key, or have its executor say whether it can; False where it is not here."""
        key = message.key
        may_stay_open = message.withdrawal is not Withdrawal.CLOSE
        at_hand = self._at_hand.get(key)
        if at_hand is not None and at_hand.is_own:
            at_hand.is_withdrawn = at_hand.is_withdrawn or may_stay_open
            at_hand.executor.tell(message)
            return True
        for of_kind in self._kinds.values():
            result = of_kind.tasks.withdraw(key, message.withdrawal)
            if result is WithdrawalResult.ABSENT:
                continue
            if result is WithdrawalResult.WITHDRAWN:
                self._released += 1
                if may_stay_open and not is_ending:
                    of_kind.tasks.spill_key(key)
            message.reply_to.tell(TaskWithdrawn(key, result))
            return True
        return False

    # An earlier tree, and letting go.

    def adopt(self, attempt: Attempt, *, is_own: bool) -> None:
        """Wait for an old attempt."""
        task = attempt.task
        assert task.key not in self._at_hand, "an attempt is adopted once"
        executor = self._told(AdoptAttempt(attempt))
        self._of(task.kind).at_hand += 1
        self._at_hand[task.key] = _AtHand(executor, task.kind, task.held_bytes, is_own)
        self._at_hand_bytes += task.held_bytes
        self._released -= 1

    def adopt_lane(self, attempt: Attempt, executor: Ref) -> None:
        """Go on with the one task of a lane, which an executor has by now."""
        task = attempt.task
        assert not self._at_hand, "a lane is taken over before any task"
        self._of(task.kind).at_hand += 1
        self._at_hand[task.key] = _AtHand(executor, task.kind, task.held_bytes)
        self._at_hand_bytes += task.held_bytes

    def pass_on(self, message: CompletionRecorded) -> bool:
        """Tell an executor of what its lane asked for; False where it is not here."""
        at_hand = self._at_hand.get(message.key)
        if at_hand is not None:
            at_hand.executor.tell(message)
        return at_hand is not None

    def drain(self) -> None:
        """Have what is at hand end."""
        for executor in self._executors():
            executor.tell(DrainTasks())

    def leave_all(self) -> None:
        """Leave what waits to the store, from a time on that the parent knows."""
        for of_kind in self._kinds.values():
            self._released += of_kind.tasks.spill_all()
            of_kind.tasks.spilled = of_kind.loading = None

    def _executors(self) -> Iterator[Ref]:
        return (each.executor for each in self._at_hand.values())
