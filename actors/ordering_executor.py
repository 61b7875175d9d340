"""OrderingExecutor: strictly one task at a time of one ordering id, in key order (P3, P4), and
beside these the tasks of kinds that need no order.

Decides which task of its id is next; the next starts when the previous completion is
durable.  Keeps a bounded queue: what does not fit, and all that waits behind a slow, failing
or blocked task, stays in the store and is read when it may run (P7, P13).  Never reads the
store itself.
"""

from typing import assert_never

import msgspec
from msgspec.structs import replace

from actors.following_tasks import FollowingTasks
from actors.held_executors import HeldExecutors, is_plain
from actors.kernel.actor import Actor
from actors.kernel.context import Timer
from actors.kernel.ref import Recipient, Ref
from actors.messages import (
    AdoptAttempt,
    AdoptFollower,
    AdoptLane,
    AttemptTask,
    CompletionRecorded,
    DrainTasks,
    ExecuteTask,
    HoldOrdering,
    KeepLane,
    LoadOrdering,
    OrderingDrained,
    OrderingLoaded,
    PauseOrdering,
    ReturnLane,
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
from actors.model.key import TaskKey
from actors.model.ordering_queue import OrderingQueue
from actors.model.ordering_state import (
    MODES_AFTER,
    PHASES_AFTER,
    OrderingMode,
    OrderingPhase,
)
from actors.model.ownership import Ownership
from actors.model.task import StoredTask
from actors.ports.effects import Effects
from actors.task_executor import TaskExecutorRole
from actors.unordered_tasks import UnorderedTasks

_ENDING = (OrderingMode.LEAVING, OrderingMode.DRAINING)


class _GoOn(msgspec.Struct, frozen=True):
    """What was left to the store is due, or what was sent together with a task has come."""

    is_gathered: bool = False


class _UnorderedDue(msgspec.Struct, frozen=True):
    pass


Message = (
    ExecuteTask
    | TaskExecuted
    | TaskPostponed
    | OrderingLoaded
    | SpillQueue
    | AdoptAttempt
    | AdoptLane
    | CompletionRecorded
    | StartTasks
    | HoldOrdering
    | UpdateTask
    | WithdrawTask
    | TaskWithdrawn
    | DrainTasks
    | PauseOrdering
    | KeepLane
    | _GoOn
    | _UnorderedDue
)
"""All that this role is told."""


class OrderingExecutor(Actor):
    """One phase and one mode, as their tables have them; anything else is a bug."""

    def __init__(
        self,
        effects: Effects,
        ownership: Ownership,
        ordering_id: str,
        *,
        partition_executor: Recipient,
        siblings: Siblings,
    ) -> None:
        self._effects, self._ownership = effects, ownership
        self._ordering_id = ordering_id
        self._partition_executor, self._siblings = partition_executor, siblings
        self._phase = OrderingPhase.IDLE
        self._mode = OrderingMode.RUNNING
        self._executor: Ref | None = None
        self._executors = HeldExecutors(effects)
        self._tasks = OrderingQueue()
        self._following = FollowingTasks(effects, siblings.known_completions)
        self._unordered = UnorderedTasks(
            effects, self._spawn_unordered, self._ask_store, self._leave_found
        )
        self._current: TaskKey | None = None
        self._current_bytes = self._counted_bytes = 0
        """What the task at hand holds, and what all that is here was last counted as."""
        self._update: StoredTask | None = None
        """A later record of the task at hand, until its executor is known to have seen it."""
        self._busy_since_ms: int | None = None
        """Scheduled time of the task at hand, also of another owner's attempt; None without one."""
        self._withdrawn: TaskKey | None = None
        """The task at hand, where a command withdrew it that may leave it open."""
        self._askers: dict[TaskKey, Recipient] = {}
        """Who waits for the answer of an executor that is asked to let go of its task."""
        self._loading: tuple[TaskKey, TaskKey] | None = None
        self._reserved = 0
        """Slots kept for what a read may bring, or ids that read together would take the same."""
        self._adopted: TaskKey | None = None
        """What an earlier tree ran in order, which stays so."""
        self._due_timer: Timer | None = None
        self._unordered_timer: Timer | None = None
        self._received, self._is_gathering = 0, False

    def on_receive(self, message: Message) -> None:
        match message:
            case ExecuteTask(task=task):
                self._accept(task)
            case TaskExecuted():
                self._finish(message)
            case TaskPostponed(key=key):
                self._hold(key)
            case OrderingLoaded():
                self._take_loaded(message)
            case SpillQueue(key=key):
                self._hold_slow(key)
            case AdoptAttempt(attempt=attempt):
                self._adopt(attempt)
            case AdoptLane():
                self._adopt_lane(message)
            case CompletionRecorded():
                self._pass_on(message)
            case StartTasks():
                self._start()
            case HoldOrdering(after=after, up_to=up_to):
                self._read_first(after, up_to)
            case UpdateTask(task=task):
                self._take_update(task)
            case WithdrawTask():
                self._withdraw(message)
            case TaskWithdrawn():
                self._pass_on_answer(message)
            case DrainTasks():
                self._drain()
            case PauseOrdering():
                self._leave()
            case KeepLane():
                self._keep()
            case _GoOn(is_gathered=is_gathered):
                self._go_on(is_gathered=is_gathered)
            case _UnorderedDue():
                self._look_at_unordered()
            case _:
                assert_never(message)

    def _enter(self, phase: OrderingPhase) -> None:
        assert phase in PHASES_AFTER[self._phase], f"{phase.name} after {self._phase.name}"
        if self._due_timer is not None:
            self._due_timer.cancel()
            self._due_timer = None
        self._phase = phase

    def _turn(self, mode: OrderingMode) -> None:
        assert mode in MODES_AFTER[self._mode], f"{mode.name} after {self._mode.name}"
        self._mode = mode

    # A task arrives.

    def _accept(self, task: StoredTask) -> None:
        assert task.key.ordering_id == self._ordering_id, "each id has an executor of its own"
        assert self._mode not in _ENDING, "an id that ends is handed nothing"
        self._received += 1
        self._counted_bytes += task.held_bytes
        key = task.key
        if self._update_known(task):
            self._report(released=1)
        elif self._has_no_order(task):
            self._unordered.accept(task)
            self._go_on()
            if released := self._unordered.take_released():
                self._report(released)
        elif self._must_spill(key):
            self._tasks.spill_key(key)
            self._go_on()
            self._report(released=1)
        else:
            self._tasks.add(task)
            self._go_on()

    def _take_update(self, task: StoredTask) -> None:
        assert task.key.ordering_id == self._ordering_id, "another id's task"
        self._received += 1
        self._update_known(task)
        self._report(released=0)

    def _update_known(self, task: StoredTask) -> bool:
        """Take over a later record of a key that is in memory; return whether it is."""
        if task.key != self._current:
            in_order = self._following.update(task) or self._tasks.update(task)
            return in_order or self._unordered.update(task)
        self._update = task.later_of(self._update)
        self._current_bytes = max(self._current_bytes, task.held_bytes)
        self._tell_executor(UpdateTask(task))
        return True

    def _must_spill(self, key: TaskKey) -> bool:
        """Behind a slow task, and during a read, all others are in the store."""
        limit = self._siblings.budget.queue_tasks_max(self._effects.settings.window)
        return (
            self._phase is OrderingPhase.HELD
            or self._phase is OrderingPhase.LOADING
            or self._tasks.must_spill(key, limit - len(self._following))
        )

    # The next task, when there is none at hand.

    def _go_on(self, *, is_gathered: bool = False) -> None:
        """Start the next task, or read on, or say that there is nothing to do."""
        self._is_gathering = self._is_gathering and not is_gathered
        if self._mode is OrderingMode.RUNNING:
            self._go_on_unordered()
        if self._phase is not OrderingPhase.IDLE and self._phase is not OrderingPhase.WAITING:
            return
        if self._mode is OrderingMode.RUNNING:
            if self._effects.run_tasks_max and not is_gathered and self._gather_run():
                return
            if task := self._tasks.pop():
                self._following.take(task, self._tasks)
                self._take_in_hand(task)
                self._tell_executor(AttemptTask(task))
            elif self._tasks.spilled is not None:
                self._read_on(*self._tasks.spilled)
        elif self._mode is OrderingMode.DRAINING and not self._unordered.is_busy:
            self._partition_executor.tell(OrderingDrained(self._ordering_id))

    def _gather_run(self) -> bool:
        """Let a task that others may follow wait for what was sent with it; return whether it does.

        A timer comes behind that, where a message to itself may come before: an actor gets its
        first one at once.
        """
        task = self._tasks.first_task()
        if task is None or self._effects.run_tasks_of(task) == 1:
            return False
        if not self._is_gathering:
            self._is_gathering = True
            self._context.after(0, _GoOn(is_gathered=True))
        return True

    def _take_in_hand(self, task: StoredTask, *, is_own: bool = True) -> None:
        self._enter(OrderingPhase.BUSY)
        self._busy_since_ms, self._current_bytes = task.key.scheduled_ms, task.held_bytes
        self._current = task.key if is_own else None

    def _read_on(self, after: TaskKey, up_to: TaskKey) -> None:
        """Read what was left to the store, or wait until the first of it is due.

        The watermark of an owner whose clock was ahead leaves what is not due yet; and the wall
        clock may be stepped, so it is looked at again.
        """
        window = self._effects.settings.window
        wait_ms = after.scheduled_ms - self._context.clock.now_ms()
        if wait_ms > 0:
            self._rest()
            self._enter(OrderingPhase.WAITING)
            check_ms = min(wait_ms, window.clock_check_ms)
            self._due_timer = self._context.after(check_ms, _GoOn())
            return
        self._enter(OrderingPhase.LOADING)
        self._loading, self._tasks.spilled = (after, up_to), None
        limit = self._siblings.budget.queue_tasks_max(window)
        self._reserve(limit)
        request = LoadOrdering(self._ordering_id, after, up_to, limit, self.actor_ref)
        self._siblings.task_persistence.tell(request)

    def _rest(self) -> None:
        if self._phase is not OrderingPhase.IDLE:
            self._enter(OrderingPhase.IDLE)

    def _reserve(self, slots: int) -> None:
        assert not slots or not self._reserved, "one page is read at a time"
        self._siblings.budget.reserve(slots - self._reserved)
        self._reserved = slots

    def _has_no_order(self, task: StoredTask) -> bool:
        in_order = task.key == self._adopted or task.key in self._following
        return not in_order and self._unordered.takes(task)

    def _took_in_order(self, task: StoredTask) -> bool:
        """Whether a task without order is here as one that had an order by an earlier record."""
        if task.key == self._adopted:
            self._leave_found(task)
        if task.key in (self._current, self._adopted) or task.key in self._following:
            return True
        return task.key in self._tasks

    def _go_on_unordered(self) -> None:
        now_ms = self._context.clock.now_ms()
        due_ms = self._unordered.go_on(now_ms)
        if due_ms is not None and self._unordered_timer is None:
            check_ms = min(due_ms - now_ms, self._effects.settings.window.clock_check_ms)
            self._unordered_timer = self._context.after(check_ms, _UnorderedDue())

    def _look_at_unordered(self) -> None:
        self._unordered_timer = None
        self._go_on()

    def _ask_store(self, after: TaskKey, up_to: TaskKey, kind: str | None) -> None:
        limit = self._effects.settings.window.ordering_queue_tasks_max
        request = LoadOrdering(self._ordering_id, after, up_to, limit, self.actor_ref, kind)
        self._siblings.task_persistence.tell(request)

    def _leave_found(self, task: StoredTask) -> None:
        """Leave a task that has an order to the store, where it was found, unless it is known."""
        key = task.key
        if key != self._current and key not in self._following and key not in self._tasks:
            self._tasks.spill_key(key)

    def _take_loaded(self, message: OrderingLoaded) -> None:
        if self._mode is not OrderingMode.RUNNING:
            return
        if message.kind is not None:
            found = tuple(task for task in message.tasks if not self._took_in_order(task))
            now_ms = self._context.clock.now_ms()
            self._unordered.take_loaded(replace(message, tasks=found), now_ms)
            self._go_on()
            self._report(released=0)
            return
        assert self._loading is not None, "nobody asked for these tasks"
        self._reserve(0)
        assert not len(self._tasks), "what arrives during a read is left to the store"
        (after, up_to), self._loading = self._loading, None
        tasks, now_ms = message.tasks, self._context.clock.now_ms()
        assert not tasks or after < tasks[0].key <= tasks[-1].key <= up_to, "not what was asked for"
        for task in self._tasks.due_of(tasks, message.next_after, up_to, now_ms):
            if self._has_no_order(task):
                self._unordered.leave(task)
            else:
                self._tasks.add(task)
        self._enter(OrderingPhase.IDLE)
        self._go_on_or_return(released=-len(self._tasks))

    def _finish(self, message: TaskExecuted) -> None:
        if self._unordered.finish(message, self._mode):
            self._go_on()
            self._report(released=0)
            return
        assert self._current is None or self._current == message.key, "another task is at hand"
        self._enter(OrderingPhase.IDLE)
        update, withdrawn = self._update, self._withdrawn
        self._update = self._withdrawn = self._current = self._busy_since_ms = None
        self._current_bytes = 0
        follower = self._following.next_begun()
        is_leaving = self._mode is OrderingMode.LEAVING
        released = 1 + self._take_back() + (self._tasks.forget() if is_leaving else 0)
        missed = update is not None and update.offset > message.offset and not is_leaving
        if update is not None and missed:
            # The task ended before it heard of this record, which may open the key again.
            self._tasks.add(update)
            released -= 1
        again = message.key if message.in_doubt else withdrawn
        if again is not None and not is_leaving:
            released += self._tasks.spill_from(again)
        if self._mode is OrderingMode.DRAINING:
            # It may have ended open, and tasks without order may still be at hand.
            self._tasks.spill_key(message.key)
        if follower is None:
            self._go_on_or_return(released)
            return
        self._take_in_hand(follower.task, is_own=follower.is_own)
        self._adopted = follower.task.key if follower.is_doubted else self._adopted
        self._tell_executor(AdoptFollower(follower))
        self._report(released)

    def _take_back(self, key: TaskKey | None = None) -> int:
        """Let what followed the task at hand, or another one, wait; return the slots it frees."""
        limit = self._siblings.budget.queue_tasks_max(self._effects.settings.window)
        return self._following.give_back(self._tasks, limit, key)

    # Nothing but plain tasks is left: a lane goes on.

    def _go_on_or_return(self, released: int) -> None:
        if not self._is_plain():
            self._go_on()
            self._report(released)
            return
        self._enter(OrderingPhase.RETURNING)
        self._report(released)
        self._partition_executor.tell(
            ReturnLane(self._ordering_id, self._received, self._tasks, self._executors)
        )

    def _is_plain(self) -> bool:
        if self._mode is not OrderingMode.RUNNING or not self._unordered.is_idle:
            return False
        task, known = self._tasks.first_task(), self._siblings.known_completions
        return task is not None and is_plain(task, known, self._effects)

    def _keep(self) -> None:
        """Go on here, as something is on its way that a lane would have missed."""
        if self._phase is OrderingPhase.RETURNING:
            self._enter(OrderingPhase.IDLE)
            self._go_on()

    def _pass_on(self, message: CompletionRecorded) -> None:
        """Tell of what the lane asked for, before there was anybody else to answer."""
        if not self._unordered.pass_on(message):
            self._tell_executor(message)

    def _tell_executor(self, message: object) -> None:
        if self._executor is None:
            self._executor = self._spawn_executor(message, self._executors, self._following)
        else:
            self._executor.tell(message)

    def _spawn_unordered(self, message: object, executors: HeldExecutors | None = None) -> Ref:
        """Make an executor of its own for a task beside others, and tell it something."""
        return self._spawn_executor(message, executors or HeldExecutors(self._effects), None)

    def _spawn_executor(
        self, message: object, executors: HeldExecutors, following: FollowingTasks | None
    ) -> Ref:
        role = TaskExecutorRole(
            self._effects,
            self._ownership,
            self.actor_ref,
            siblings=self._siblings,
            executors=executors,
            following=following,
        )
        return self.spawn(role, message)

    # The task at hand takes long.

    def _hold_slow(self, key: TaskKey) -> None:
        if key == self._current or self._unordered.has_at_hand(key):
            self._hold(key)

    def _hold(self, key: TaskKey) -> None:
        if self._unordered.hold(key):
            self._go_on()
            self._report(released=0)
            return
        released = self._take_back()
        if self._phase is not OrderingPhase.HELD:
            self._enter(OrderingPhase.HELD)
        elif not released and not len(self._tasks):
            return
        self._report(released + self._tasks.spill_all())

    # An earlier tree, commands, and letting go.

    def _adopt(self, attempt: Attempt) -> None:
        """Wait for an old attempt; where another owner came in between, its key runs again."""
        is_first = not self._received
        assert is_first or self._mode is OrderingMode.CATCHING_UP, "adopted before any task"
        assert attempt.task.key.ordering_id == self._ordering_id, "another id's attempt"
        self._received += 1
        key, is_own = attempt.task.key, self._ownership.continues(attempt.epoch)
        if is_first:
            self._turn(OrderingMode.CATCHING_UP)
        if attempt.is_unordered:
            self._unordered.adopt(attempt, is_own=is_own)
            self._report(released=0)
            return
        if attempt.follows is not None and self._busy_since_ms is not None:
            self._following.adopt(attempt, is_own=is_own)
        else:
            self._take_in_hand(attempt.task, is_own=is_own)
            self._adopted = key
        self._tell_executor(AdoptAttempt(attempt))
        self._report(released=-1)

    def _adopt_lane(self, message: AdoptLane) -> None:
        """Go on where the lane of this id stopped."""
        assert not self._received, "a lane is taken over before any task"
        self._received = 1
        self._tasks = message.tasks
        attempt = message.attempt
        if attempt is not None and attempt.is_unordered:
            self._unordered.adopt_lane(attempt, self._spawn_unordered(message, message.executors))
        else:
            self._executors = message.executors
            if attempt is not None:
                self._take_in_hand(attempt.task)
                self._tell_executor(message)
        self._counted_bytes = self._held_bytes()
        self._go_on()

    def _withdraw(self, message: WithdrawTask) -> None:
        assert message.key.ordering_id == self._ordering_id, "another id's task"
        key = message.key
        if key == self._current or self._unordered.has_at_hand(key):
            # It counts as received once it is answered, or both could be stopped before.
            self._askers[key] = message.reply_to
            message = replace(message, reply_to=self.actor_ref)
        else:
            self._received += 1
        if key == self._current:
            if message.withdrawal is not Withdrawal.CLOSE:
                self._withdrawn = key
            self._tell_executor(message)
            self._report(released=0)
            return
        if self._unordered.withdraw(message, is_ending=self._mode in _ENDING):
            self._go_on()
            self._report(released=0)
            return
        is_following, released = self._following.find(key) is not None, 0
        waiting = self._following if is_following else self._tasks
        result = waiting.withdraw(key, message.withdrawal)
        if result is WithdrawalResult.WITHDRAWN:
            released = self._take_back(key) if is_following else 1
            if message.withdrawal is not Withdrawal.CLOSE and self._mode not in _ENDING:
                released += self._tasks.spill_from(key)
        message.reply_to.tell(TaskWithdrawn(key, result))
        self._report(released)

    def _pass_on_answer(self, message: TaskWithdrawn) -> None:
        self._received += 1
        self._askers.pop(message.key).tell(message)
        self._report(released=0)

    def _start(self) -> None:
        if self._mode is OrderingMode.CATCHING_UP:
            self._turn(OrderingMode.RUNNING)
            self._go_on()

    def _read_first(self, after: TaskKey, up_to: TaskKey) -> None:
        assert self._mode not in _ENDING, "an id that ends reads nothing more"
        self._received += 1
        self._tasks.spill(after, up_to)
        self._unordered.read_first(after, up_to)
        self._go_on()

    def _drain(self) -> None:
        if self._mode is not OrderingMode.DRAINING:
            self._end(OrderingMode.DRAINING)
        self._go_on()

    def _leave(self) -> None:
        """Leave all to the store; the parent knows from where on it is read after the pause."""
        self._received += 1
        self._end(OrderingMode.LEAVING)
        released, self._loading = self._tasks.forget(), None
        self._unordered.leave_all()
        self._report(released)

    def _end(self, mode: OrderingMode) -> None:
        """Begin nothing any more; a read under way is answered to nobody."""
        self._turn(mode)
        self._reserve(0)
        self._unordered.drain()
        if self._busy_since_ms is not None:
            self._tell_executor(DrainTasks())
        else:
            self._rest()

    def _report(self, released: int) -> None:
        self._count()
        released += self._unordered.take_released()
        self._partition_executor.tell(
            TasksReleased(
                self._ordering_id,
                released,
                self._received,
                self._first_ms(),
                self._phase is OrderingPhase.HELD or self._unordered.is_held,
            )
        )

    def _count(self) -> None:
        """Correct what the partition holds by what has come and gone since it was counted."""
        held_bytes = self._held_bytes()
        self._siblings.budget.resize(self._counted_bytes, held_bytes)
        self._counted_bytes = held_bytes

    def _held_bytes(self) -> int:
        in_order = self._current_bytes + self._following.size_bytes + self._tasks.size_bytes
        return in_order + self._unordered.size_bytes

    def _first_ms(self) -> int | None:
        """Scheduled time of the first open task, in memory or left to the store."""
        loading_ms = None if self._loading is None else self._loading[0].scheduled_ms
        unordered_ms = self._unordered.first_ms()
        times = (self._tasks.first_ms(), self._busy_since_ms, loading_ms, unordered_ms)
        return min((time_ms for time_ms in times if time_ms is not None), default=None)
