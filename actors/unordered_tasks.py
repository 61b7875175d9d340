"""Tasks of one ordering id that need no order, because their kind may run several at once.

Each such kind has places of its own, and waits neither for tasks with an order nor for another
kind.  Decides which of its tasks are at hand, which wait in memory, and which are left to the
store.  Never decides the result of an attempt, and never reads the store itself.
"""

from collections.abc import Iterator
from typing import Protocol

from hourhand.actors.executors_of_kinds import ExecutorsOfKinds
from hourhand.actors.messages import OrderingLoaded, WithdrawTask
from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.execution.commands import Withdrawal, WithdrawalResult
from hourhand.actors.model.execution.task_state import Phase
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.ordering_queue import OrderingQueue
from hourhand.actors.task_executor import TaskExecutorRole
from hourhand.actors.task_parent import TaskParent
from hourhand.actors.turn import Turn


class _OfKind:
    """The tasks of one kind."""

    __slots__ = ("at_hand", "places", "slow", "tasks")

    def __init__(self, places: int | None) -> None:
        self.places = places
        """Tasks at hand at once; None where only memory bounds them."""
        self.tasks = OrderingQueue()
        self.at_hand = 0
        self.slow = 0
        """Tasks at hand that take long or wait."""


class Ordering(TaskParent[TaskExecutorRole], Protocol):
    """The view that tasks without order have of their OrderingExecutor."""

    ordering_id: str

    def has_in_order(self, key: TaskKey) -> bool:
        """True if a key with an order is at hand or waits in memory."""

    def spill(self, task: StoredTask) -> None:
        """Leave a task that turned out to have an order to the store."""


class UnorderedTasks:
    """The tasks without order of one ordering id, which decides when they may continue."""

    __slots__ = ("_at_hand", "_idle", "_kinds", "_ordering", "_turn")

    def __init__(self, ordering: Ordering, turn: Turn) -> None:
        self._ordering = ordering
        self._turn = turn
        self._kinds: dict[str | None, _OfKind] = {}
        self._at_hand: dict[TaskKey, tuple[TaskExecutorRole, _OfKind]] = {}
        """Each task with the kind whose place it takes: a later record may name another kind."""
        self._idle: list[ExecutorsOfKinds] = []
        """Executors without a task."""

    @property
    def is_busy(self) -> bool:
        """True if any task is at hand."""
        return bool(self._at_hand)

    @property
    def is_idle(self) -> bool:
        """True if there is no task, in memory or in the store."""
        return not self._at_hand and all(each.tasks.is_empty for each in self._kinds.values())

    @property
    def is_slow(self) -> bool:
        """True if a task at hand takes long or waits."""
        return any(each.slow for each in self._kinds.values())

    @property
    def size_bytes(self) -> int:
        """Bytes of its tasks in memory."""
        at_hand = sum([role.task.size_bytes for role, _ in self._at_hand.values()])
        return at_hand + sum([each.tasks.size_bytes for each in self._kinds.values()])

    def __len__(self) -> int:
        return len(self._at_hand) + sum([len(each.tasks) for each in self._kinds.values()])

    def first_ms(self) -> int | None:
        """Return the scheduled time of the first open task, or for stored ones an earlier time."""
        known = [each.tasks.first_ms() for each in self._kinds.values()]
        times = [time_ms for time_ms in known if time_ms is not None]
        return min((*times, *(key.scheduled_ms for key in self._at_hand)), default=None)

    def find(self, key: TaskKey) -> TaskExecutorRole | None:
        """Return the task of a key, if it is at hand."""
        found = self._at_hand.get(key)
        return None if found is None else found[0]

    def takes(self, task: StoredTask) -> bool:
        """True if a task belongs here: it needs no order, or an earlier record needed none."""
        return task.kind in self._turn.effects.concurrency_per_id or self._waits(task.key)

    # A task arrives.

    def accept(self, task: StoredTask) -> None:
        """Add a task that does not wait here; a task whose key is at hand is read again later."""
        assert not self._waits(task.key), "a later record of a key that waits updates it"
        if task.key not in self._at_hand:
            self._of(task.kind).tasks.enqueue(task, 0 if self._ordering.is_paused else self._most)

    def update(self, task: StoredTask) -> bool:
        """Use a later record of a key; return True if the key waits in memory."""
        return any(each.tasks.update(task) for each in self._kinds.values())

    def spill(self, task: StoredTask) -> None:
        """Leave a task to the store, where it was found, unless memory has it."""
        of_kind = self._of(task.kind)
        if not self._knows(task.key) and not of_kind.tasks.leaves_to_store(task.key):
            of_kind.tasks.spill_key(task.key)

    def read_first(self, after: TaskKey, up_to: TaskKey) -> None:
        """Read a range of the store before anything else begins."""
        for kind in self._turn.effects.concurrency_per_id:
            self._of(kind).tasks.spill(after, up_to)

    @property
    def _most(self) -> int:
        return self._turn.effects.settings.window.ordering_queue_tasks_max

    def _of(self, kind: str | None) -> _OfKind:
        of_kind = self._kinds.get(kind)
        if of_kind is None:
            places = self._turn.effects.concurrency_per_id.get(kind, 1)
            of_kind = self._kinds[kind] = _OfKind(places)
        return of_kind

    def _knows(self, key: TaskKey) -> bool:
        """True if a key is at hand or waits in memory."""
        return key in self._at_hand or self._waits(key)

    def _waits(self, key: TaskKey) -> bool:
        return any(key in each.tasks for each in self._kinds.values())

    # The next tasks.

    def go_on(self) -> None:
        """Begin tasks that have a place, and read further ones; if all places have slow tasks,
        leave the waiting tasks to the store.
        """
        for kind, of_kind in tuple(self._kinds.items()):
            self._begin_next(kind, of_kind)
            if of_kind.slow == of_kind.at_hand and not self._has_place(of_kind):
                of_kind.tasks.spill_all()
        # All kinds once more: one may have received a task from another.
        for kind, of_kind in tuple(self._kinds.items()):
            self._read_on(kind, of_kind)

    def _begin_next(self, kind: str | None, of_kind: _OfKind) -> None:
        tasks = of_kind.tasks
        while self._has_place(of_kind) and (task := tasks.pop()) is not None:
            if task.kind not in self._turn.effects.concurrency_per_id:
                self._ordering.spill(task)
            elif task.kind != kind:
                self.spill(task)
            else:
                self._begin(of_kind, task)

    def _read_on(self, kind: str | None, of_kind: _OfKind) -> None:
        tasks = of_kind.tasks
        if len(tasks) or tasks.reading or tasks.stored is None or not self._has_place(of_kind):
            return
        wait_ms = tasks.stored[0].scheduled_ms - self._turn.clock.now_ms()
        ordering_id = self._ordering.ordering_id
        if wait_ms > 0:
            self._turn.look_again(ordering_id, wait_ms)
        else:
            request = self._turn.read(ordering_id, tasks.stored, self._most, kind)
            tasks.begin_reading(request)

    def _has_place(self, of_kind: _OfKind) -> bool:
        """True if one more task may be at hand.  Without a limit, memory bounds the number; a task
        that waits counts half.
        """
        if of_kind.places is not None:
            return of_kind.at_hand < of_kind.places
        runs, most = of_kind.at_hand - of_kind.slow, self._most
        return runs < most and of_kind.at_hand < 2 * most

    def _begin(self, of_kind: _OfKind, task: StoredTask) -> None:
        assert task.key not in self._at_hand, "a key never runs beside itself (P3)"
        self._put_at_hand(of_kind, task).begin()
        assert of_kind.places is None or of_kind.at_hand <= of_kind.places, "it has a place (P3)"

    def _put_at_hand(self, of_kind: _OfKind, task: StoredTask) -> TaskExecutorRole:
        executors = self._idle.pop() if self._idle else ExecutorsOfKinds()
        role = TaskExecutorRole(self._ordering, self._turn, task, executors, is_unordered=True)
        of_kind.at_hand += 1
        self._at_hand[task.key] = role, of_kind
        return role

    @property
    def is_foreign(self) -> bool:
        """True if an attempt of another owner is at hand."""
        return any(not role.is_own for role in self.roles())

    def adopt(self, attempt: Attempt) -> None:
        """Wait for an attempt of an earlier tree."""
        task = attempt.task
        assert task.key not in self._at_hand, "an attempt is adopted once"
        self._put_at_hand(self._of(task.kind), task).adopt(attempt, phase=Phase.RUNNING)

    # The store answers.

    def takes_page(self, message: OrderingLoaded) -> bool:
        """True if one of the kinds here waits for this page."""
        return any(each.tasks.reading is message.request for each in self._kinds.values())

    def take_page(self, message: OrderingLoaded) -> None:
        """Take the tasks of a page, except keys that are here with an order."""
        kind, now_ms = message.request.kind, self._turn.clock.now_ms()
        tasks = self._of(kind).tasks
        for task in tasks.end_reading(message.tasks, message.next_after, now_ms):
            if self._ordering.has_in_order(task.key):
                continue
            if task.kind not in self._turn.effects.concurrency_per_id:
                self._ordering.spill(task)
            elif task.kind != kind:
                self.spill(task)
            elif not self._knows(task.key):
                tasks.add(task)

    # A task ends, takes long, or is withdrawn.

    def end(self, role: TaskExecutorRole, *, is_left: bool) -> None:
        """Remove a task from hand; with ``is_left`` it may be open, and is left to the store."""
        _, of_kind = self._at_hand.pop(role.task.key)
        of_kind.at_hand -= 1
        of_kind.slow -= role.is_slow
        assert 0 <= of_kind.slow <= of_kind.at_hand, "a task ends once"
        self._idle.append(role.executors)
        if is_left:
            of_kind.tasks.spill_key(role.task.key)

    def mark_slow(self, role: TaskExecutorRole) -> None:
        """Note that a task takes long or waits."""
        if role.is_slow:
            return
        role.is_slow = True
        _, of_kind = self._at_hand[role.task.key]
        of_kind.slow += 1

    def withdraw(self, message: WithdrawTask, *, is_paused: bool) -> WithdrawalResult:
        """Withdraw a key that waits, for a command."""
        for of_kind in self._kinds.values():
            result = of_kind.tasks.withdraw(message.key, message.withdrawal)
            if result is WithdrawalResult.ABSENT:
                continue
            may_stay_open = message.withdrawal is not Withdrawal.CLOSE
            if result is WithdrawalResult.WITHDRAWN and may_stay_open and not is_paused:
                of_kind.tasks.spill_key(message.key)
            return result
        return WithdrawalResult.ABSENT

    # A pause.

    def pause(self) -> None:
        """Let the tasks at hand end, leave the others to the store, and ignore the answer of a read
        that is under way.
        """
        for of_kind in self._kinds.values():
            of_kind.tasks.stop_reading()
            of_kind.tasks.spill_all()
        for role in tuple(self.roles()):
            role.pause()

    def roles(self) -> Iterator[TaskExecutorRole]:
        """Return the tasks at hand."""
        return (role for role, _ in self._at_hand.values())
