"""OrderingExecutor: strictly one task at a time of one ordering id, in key order (P3, P4).

Decides which task of its id is next; the next starts when the previous completion is
durable.  Keeps a bounded queue: what does not fit, and all that waits behind a slow, failing
or blocked task, stays in the store and is read when it may run (P7, P13).  Never reads the
store itself.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import assert_never

import msgspec

from actors.kernel.actor import Actor
from actors.kernel.context import Timer
from actors.kernel.ref import Recipient, Ref
from actors.messages import (
    AdoptAttempt,
    AttemptTask,
    DrainTasks,
    ExecuteTask,
    HoldOrdering,
    LoadOrdering,
    OrderingDrained,
    OrderingLoaded,
    PauseOrdering,
    Siblings,
    SpillQueue,
    StartTasks,
    TaskExecuted,
    TaskPostponed,
    TasksReleased,
    TaskWithdrawn,
    UpdateTask,
    WithdrawTask,
)
from actors.model.attempts import Attempt
from actors.model.commands import Withdrawal, WithdrawalResult
from actors.model.executor_attributes import attribute_complaint
from actors.model.key import TaskKey, first_key_at
from actors.model.outcome import Outcome
from actors.model.ownership import Ownership
from actors.model.task import StoredTask, Task
from actors.model.task_queue import TaskQueue
from actors.ports.effects import Effects
from actors.task_executor import TaskExecutor


class _SpilledDue(msgspec.Struct, frozen=True):
    pass


Message = (
    ExecuteTask
    | TaskExecuted
    | TaskPostponed
    | OrderingLoaded
    | SpillQueue
    | AdoptAttempt
    | StartTasks
    | HoldOrdering
    | UpdateTask
    | WithdrawTask
    | DrainTasks
    | PauseOrdering
    | _SpilledDue
)
"""All that this role is told."""


class OrderingExecutor(Actor):
    """States: idle, busy (a task is at hand), held (the task at hand takes long), loading."""

    def __init__(
        self,
        effects: Effects,
        ownership: Ownership,
        ordering_id: str,
        *,
        partition_executor: Recipient,
        siblings: Siblings,
    ) -> None:
        self._effects = effects
        self._ownership = ownership
        self._ordering_id = ordering_id
        self._partition_executor = partition_executor
        self._siblings = siblings
        self._executor: Ref | None = None
        self._tasks = TaskQueue()
        self._current: TaskKey | None = None
        self._current_bytes = self._counted_bytes = 0
        """What the task at hand holds, and what all that is here was last counted as."""
        self._update: StoredTask | None = None
        """A later record of the task at hand, until its executor is known to have seen it."""
        self._busy_since_ms: int | None = None
        """Scheduled time of the task at hand; None where there is none."""
        self._held = False
        self._retried: TaskKey | None = None
        """The task at hand, where an operator's retry withdrew it to open it again."""
        self._spilled: tuple[TaskKey, TaskKey] | None = None
        """Open tasks with ``after`` < key <= ``up_to`` were left to the store."""
        self._loading: tuple[TaskKey, TaskKey] | None = None
        self._due_timer: Timer | None = None
        """Set while none of what was left to the store is due."""
        self._catching_up = False
        """Set with an old attempt: nothing follows it before the partition may start (P4)."""
        self._draining = self._leaving = False
        self._received = 0

    def on_receive(self, message: Message) -> None:
        match message:
            case ExecuteTask(task=task):
                self._accept(task)
            case TaskExecuted():
                self._finish(message)
            case TaskPostponed():
                self._hold()
            case OrderingLoaded():
                self._take_loaded(message)
            case SpillQueue(key=key):
                if key == self._current:
                    self._hold()
            case AdoptAttempt(attempt=attempt):
                self._adopt(attempt)
            case StartTasks():
                self._catching_up = False
                self._go_on()
            case HoldOrdering(after=after, up_to=up_to):
                self._received += 1
                self._spill(after, up_to)
                self._go_on()
            case UpdateTask(task=task):
                self._update_known(task)
            case WithdrawTask():
                self._withdraw(message)
            case DrainTasks():
                self._drain()
            case PauseOrdering():
                self._leave()
            case _SpilledDue():
                self._check_spilled()
            case _:
                assert_never(message)

    # A task arrives.

    def _accept(self, task: StoredTask) -> None:
        self._received += 1
        self._counted_bytes += task.held_bytes
        key = task.key
        if self._update_known(task):
            self._report(released=1)
        elif self._must_spill(key):
            self._spill(first_key_at(key.scheduled_ms), key)
            self._go_on()
            self._report(released=1)
        else:
            self._tasks.add(task)
            self._go_on()

    def _update_known(self, task: StoredTask) -> bool:
        """Take over a later record of a key that is in memory; return whether it is."""
        if task.key != self._current:
            return self._tasks.update(task)
        self._update = task
        self._current_bytes = max(self._current_bytes, task.held_bytes)
        self._tell_executor(UpdateTask(task))
        return True

    def _must_spill(self, key: TaskKey) -> bool:
        """Once tasks are in the store, later ones join them there, or they would overtake."""
        limit = self._effects.settings.window.ordering_queue_tasks_max
        return (
            self._held
            or (self._spilled is not None and key > self._spilled[0])
            or self._loading is not None
            or len(self._tasks) >= limit
        )

    def _spill(self, after: TaskKey, up_to: TaskKey) -> None:
        first, last = self._spilled or (after, up_to)
        self._spilled = (min(after, first), max(up_to, last))
        self._end_wait()

    def _spill_queue(self) -> int:
        """Forget the queue, which the store holds too; return how many tasks it had."""
        if count := len(self._tasks):
            self._spill(first_key_at(min(self._tasks).scheduled_ms), max(self._tasks))
            self._tasks.clear()
        return count

    # The next task, when there is none at hand.

    def _go_on(self) -> None:
        """Start the next task, or read on, or say that there is nothing to do."""
        if self._busy_since_ms is not None or self._catching_up:
            return
        if self._draining:
            self._partition_executor.tell(OrderingDrained(self._ordering_id))
            return
        if self._leaving:
            self._spilled = None
            return
        if self._loading is not None:
            return
        if task := self._tasks.pop():
            self._current, self._current_bytes = task.key, task.held_bytes
            self._busy_since_ms = task.key.scheduled_ms
            self._tell_executor(AttemptTask(task))
            return
        if self._spilled is not None and self._due_timer is None:
            after, up_to = self._loading = self._spilled
            self._spilled = None
            limit = self._effects.settings.window.ordering_queue_tasks_max
            request = LoadOrdering(self._ordering_id, after, up_to, limit, self.actor_ref)
            self._siblings.task_persistence.tell(request)

    def _take_loaded(self, message: OrderingLoaded) -> None:
        if self._draining or self._leaving:
            return
        assert self._loading is not None, "nobody asked for these tasks"
        up_to, self._loading = self._loading[1], None
        fresh = [task for task in message.tasks if task.key not in self._tasks]
        now_ms = self._context.clock.now_ms()
        early = next((task.key for task in fresh if task.key.scheduled_ms > now_ms), None)
        if early is not None:
            # The watermark of an owner whose clock was ahead: what may still fall due before
            # this must not wait behind it, so it is read again when it is due itself.
            fresh = [task for task in fresh if task.key < early]
            arrived = self._spilled is not None
            self._spill(first_key_at(early.scheduled_ms), up_to)
            if not arrived:
                self._await_spilled()
        elif message.next_after is not None:
            self._spill(message.next_after, up_to)
        for task in fresh:
            self._tasks.add(task)
        self._go_on()
        self._report(released=-len(fresh))

    def _await_spilled(self) -> None:
        """Wait until the first in the store is due, by the wall clock, which may be stepped."""
        assert self._spilled is not None, "only what was left to the store is waited for"
        self._end_wait()
        wait_ms = self._spilled[0].scheduled_ms - self._context.clock.now_ms()
        if wait_ms > 0:
            check_ms = self._effects.settings.window.clock_check_ms
            self._due_timer = self._context.after(min(wait_ms, check_ms), _SpilledDue())

    def _check_spilled(self) -> None:
        if self._due_timer is not None:
            self._await_spilled()
            self._go_on()

    def _end_wait(self) -> None:
        if self._due_timer is not None:
            self._due_timer.cancel()
            self._due_timer = None

    def _finish(self, message: TaskExecuted) -> None:
        update, retried = self._update, self._retried
        self._update = self._retried = self._current = self._busy_since_ms = None
        self._held, self._current_bytes = False, 0
        missed = update is not None and update.offset > message.offset and not self._leaving
        if update is not None and missed:
            # The task ended before it heard of this record, which may open the key again.
            self._tasks.add(update)
        released = 0 if missed else 1
        again = message.key if message.in_doubt else retried
        if again is not None:
            # Read again once its command is done, and before all that waits behind it (P4).
            released += self._spill_queue()
            self._spill(first_key_at(again.scheduled_ms), again)
        self._go_on()
        self._report(released)

    def _tell_executor(self, message: object) -> None:
        if self._executor is None:
            self._executor = self.spawn(self._made_executor(), message)
        else:
            self._executor.tell(message)

    def _made_executor(self) -> TaskExecutor:
        """Make one instance of the user's executor that plays its role below this actor.

        A constructor that raises is a failed attempt of each task, not a failure of the tree.
        """
        role = (self._effects, self._ownership, self.actor_ref, self._siblings)
        try:
            executor = _constructed(self._effects, self._ordering_id)
            # Setting an attribute may be user code too.
            executor.bind_role(*role)
        except BaseException:  # noqa: BLE001 - user code may raise anything
            executor = _BrokenExecutor(partial(_constructed, self._effects, self._ordering_id))
            executor.bind_role(*role)
        return executor

    # The task at hand takes long.

    def _hold(self) -> None:
        if not self._held:
            self._held = True
            self._report(released=self._spill_queue())

    # An earlier tree, commands, and letting go.

    def _adopt(self, attempt: Attempt) -> None:
        """Wait for an old attempt; where another owner came in between, its key runs again."""
        self._received += 1
        assert self._busy_since_ms is None, "an old attempt is adopted before any task"
        key = attempt.task.key
        self._catching_up = True
        self._busy_since_ms, self._current_bytes = key.scheduled_ms, attempt.task.held_bytes
        if self._ownership.continues(attempt.epoch):
            self._current = key
        self._tell_executor(AdoptAttempt(attempt))
        self._report(released=-1)

    def _withdraw(self, message: WithdrawTask) -> None:
        self._received += 1
        key = message.key
        if key == self._current:
            if message.withdrawal is Withdrawal.RETRY:
                self._retried = key
            self._tell_executor(message)
            self._report(released=0)
            return
        task, result = self._tasks.find(key), WithdrawalResult.ABSENT
        if task is not None:
            ran = message.withdrawal is Withdrawal.MOVE and task.attempts.last
            result = WithdrawalResult.RAN if ran else WithdrawalResult.WITHDRAWN
        if result is WithdrawalResult.WITHDRAWN:
            self._tasks.remove(key)
        message.reply_to.tell(TaskWithdrawn(key, result))
        self._report(released=int(result is WithdrawalResult.WITHDRAWN))

    def _drain(self) -> None:
        self._draining, self._catching_up = True, False
        self._end_wait()
        if self._busy_since_ms is not None:
            self._tell_executor(DrainTasks())
        self._go_on()

    def _leave(self) -> None:
        """Whoever told it so remembers from where on all this is read when the pause is over."""
        self._end_wait()
        self._received += 1
        self._leaving, self._catching_up = True, False
        released = self._spill_queue()
        self._spilled = self._loading = None
        if self._busy_since_ms is not None:
            self._tell_executor(DrainTasks())
        self._report(released)

    def _report(self, released: int) -> None:
        self._count()
        self._partition_executor.tell(
            TasksReleased(self._ordering_id, released, self._received, self._first_ms(), self._held)
        )

    def _count(self) -> None:
        """Correct what the partition holds by what has come and gone since it was counted."""
        held_bytes = self._tasks.size_bytes + self._current_bytes
        self._siblings.memory.executing_bytes += held_bytes - self._counted_bytes
        self._counted_bytes = held_bytes

    def _first_ms(self) -> int | None:
        """Scheduled time of the first open task, in memory or left to the store."""
        times = [key.scheduled_ms for key in (self._tasks.first(),) if key]
        if self._busy_since_ms is not None:
            times.append(self._busy_since_ms)
        times += [left[0].scheduled_ms for left in (self._spilled, self._loading) if left]
        return min(times, default=None)


class _BrokenExecutor(TaskExecutor):
    """Stands in where the user's constructor raised: each attempt calls it once more."""

    def __init__(self, make: Callable[[], TaskExecutor]) -> None:
        self._make = make

    def execute(self, task: Task) -> Outcome | None | Awaitable[Outcome | None]:
        """Construct the user's executor again and run the task with it."""
        executor = self._make()
        executor.attempt, executor.fence = self.attempt, self.fence
        return executor.execute(task)


def _constructed(effects: Effects, ordering_id: str) -> TaskExecutor:
    """Call the user's factory; TypeError where what it returns cannot play the role."""
    executor = effects.make_executor(ordering_id)
    if not isinstance(executor, TaskExecutor):
        kind = type(executor).__name__
        raise TypeError(f"the executor factory returned a {kind}, no TaskExecutor")
    if complaint := attribute_complaint(executor):
        raise TypeError(f"{type(executor).__qualname__}.{complaint}")
    return executor
