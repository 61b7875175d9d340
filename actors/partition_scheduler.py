"""PartitionScheduler: holds the loaded tasks of a partition until they are due.

Decides when a task is due, by the wall clock, never early (P2), with one timer for the
earliest.  Hands due tasks on in key order, as many as the executor has slots for, and only
once the partition may start.  Never reads or writes the store.
"""

from operator import attrgetter
from typing import assert_never

import msgspec
from msgspec.structs import replace

from actors.kernel.actor import Actor
from actors.kernel.context import Timer
from actors.messages import (
    DrainTasks,
    ExecuteTasks,
    HoldOrderings,
    LoadMeasured,
    LowerCheckpoint,
    MeasureLoad,
    MeasureProgress,
    MeetSiblings,
    PauseTasks,
    ScheduleTasks,
    ShrinkWindow,
    Siblings,
    SlotsReleased,
    StartTasks,
    TaskWithdrawn,
    UpdateTask,
    WithdrawTask,
)
from actors.model.commands import Withdrawal, WithdrawalResult
from actors.model.events import PartitionLoadReported, WindowShrunk
from actors.model.key import TaskKey
from actors.model.memory import WindowMemory
from actors.model.ownership import Straggler
from actors.model.task import StoredTask
from actors.model.task_queue import TaskQueue
from actors.ports.effects import Effects

TASKS_PER_MESSAGE_MAX = 250
"""Due tasks handed on at a time: a whole herd in one message would delay every other partition."""

_key_of = attrgetter("key")


class _DueTimerFired(msgspec.Struct, frozen=True):
    pass


Message = (
    ScheduleTasks
    | SlotsReleased
    | _DueTimerFired
    | MeasureLoad
    | ShrinkWindow
    | MeasureProgress
    | UpdateTask
    | WithdrawTask
    | HoldOrderings
    | StartTasks
    | DrainTasks
    | MeetSiblings
    | PauseTasks
)
"""All that this role is told."""


class PartitionScheduler(Actor):
    """States: catching up or paused (nothing starts), running, draining (nothing starts again)."""

    def __init__(self, effects: Effects, partition: int) -> None:
        self._partition = partition
        self._telemetry = effects.telemetry
        self._window = window = effects.settings.window
        self._slots = min(window.executing_tasks_max, window.tasks_max)
        """At most what memory may hold: a task that is handed on stays there (P13)."""
        self._siblings: Siblings
        self._memory: WindowMemory | None = None
        self._tasks = TaskQueue()
        self._executing = 0
        self._running = False
        self._draining = False
        self._is_paused = False
        self._held: list[HoldOrderings] = []
        """What must reach the executor before the first task does."""
        self._timer: Timer | None = None

    def on_stop(self) -> None:
        if self._memory is not None:
            self._memory.end()

    def on_receive(self, message: Message) -> None:
        match message:
            case ScheduleTasks(tasks=tasks):
                self._schedule(tasks)
            case SlotsReleased(slots=slots):
                self._executing -= slots
                assert self._executing >= 0, "slots are given back that nobody took"
                self._execute_due()
            case _DueTimerFired():
                self._timer = None
                self._execute_due()
            case MeasureLoad():
                self._report_load()
            case ShrinkWindow(tasks_max=tasks_max):
                self._shrink(tasks_max)
            case MeasureProgress():
                self._measure_progress(message)
            case UpdateTask():
                self._update(message)
            case WithdrawTask():
                self._withdraw(message)
            case HoldOrderings():
                self._hold(message)
            case StartTasks():
                self._start()
            case DrainTasks():
                self._drain()
            case PauseTasks():
                self._pause(message)
            case MeetSiblings(siblings=siblings):
                self._siblings, self._memory = siblings, siblings.memory
            case _:
                assert_never(message)

    def _schedule(self, tasks: tuple[StoredTask, ...]) -> None:
        assert tasks, "nothing is scheduled"
        if not self._execute_at_once(tasks):
            for task in tasks:
                self._tasks.add(task)
            self._execute_due()
            if self._running:
                self._tell_of_waiting(tasks)
        self._report_excess()

    def _execute_at_once(self, tasks: tuple[StoredTask, ...]) -> bool:
        """Hand on tasks that are all due, where none has to wait and none that waits goes before
        them (P4); return whether it did.
        """
        if not self._may_execute() or len(tasks) > self._slots - self._executing:
            return False
        now_ms, memory = self._context.clock.now_ms(), self._siblings.memory
        first = self._tasks.first()
        if first is not None and first.scheduled_ms <= now_ms:
            return False
        if max([task.key.scheduled_ms for task in tasks]) > now_ms:
            return False
        size_bytes = sum([task.held_bytes for task in tasks])
        if memory.executing_bytes + size_bytes > memory.share_bytes:
            return False
        memory.executing_bytes += size_bytes
        self._hand_on(sorted(tasks, key=_key_of), now_ms)
        if self._timer is None:
            self._sleep_until_due(now_ms)
        return True

    def _tell_of_waiting(self, tasks: tuple[StoredTask, ...]) -> None:
        """What is due and waits for a slot may be the later record of a task handed on (P6)."""
        first, now_ms = self._tasks.first(), self._context.clock.now_ms()
        if first is None or first.scheduled_ms > now_ms:
            return
        for task in tasks:
            if task.key.scheduled_ms <= now_ms and task.key in self._tasks:
                self._siblings.partition_executor.tell(UpdateTask(task))

    def _report_excess(self) -> None:
        memory = self._note_waiting()
        crowded = len(self._tasks) + self._executing > self._window.tasks_max
        if crowded or (memory.room_bytes < 0 and len(self._tasks)):
            self._report_load()

    def _note_waiting(self) -> WindowMemory:
        memory = self._siblings.memory
        memory.waiting_bytes = self._tasks.size_bytes
        assert memory.waiting_bytes >= 0, "more is let go of than was taken"
        return memory

    def _execute_due(self) -> None:
        """Hand on what is due and has a slot, then sleep until the next is."""
        if not self._may_execute():
            return
        now_ms, memory = self._context.clock.now_ms(), self._siblings.memory
        free, free_bytes = self._slots - self._executing, memory.share_bytes
        due: list[StoredTask] = []
        tasks, is_full = self._tasks, False
        while len(due) < free and (key := tasks.first()) and key.scheduled_ms <= now_ms:
            # One always goes on, or a task larger than the share would wait for ever.
            is_full = memory.executing_bytes >= free_bytes and self._executing + len(due) > 0
            if is_full:
                break
            task = tasks.pop()
            assert task is not None, "the first key has a task"
            memory.executing_bytes += task.held_bytes
            due.append(task)
        if due:
            memory.waiting_bytes = tasks.size_bytes
            self._hand_on(due, now_ms)
        if len(due) < free and not is_full:
            self._sleep_until_due(now_ms)

    def _may_execute(self) -> bool:
        return self._running and not self._draining and not self._is_paused

    def _hand_on(self, due: list[StoredTask], now_ms: int) -> None:
        assert due[0].key <= due[-1].key, "what is due goes in key order (P4)"
        assert due[-1].key.scheduled_ms <= now_ms, "handed on before it is due (P2)"
        self._executing += len(due)
        assert self._executing <= self._slots, "more is handed on than has a slot (P13)"
        for first in range(0, len(due), TASKS_PER_MESSAGE_MAX):
            some = tuple(due[first : first + TASKS_PER_MESSAGE_MAX])
            self._siblings.partition_executor.tell(ExecuteTasks(some))

    def _sleep_until_due(self, now_ms: int) -> None:
        """Set the timer, at most one check interval ahead: the wall clock may be stepped."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if first := self._tasks.first():
            wait_ms = first.scheduled_ms - now_ms
            delay_ms = max(0, min(wait_ms, self._window.clock_check_ms))
            self._timer = self._context.after(delay_ms, _DueTimerFired())

    def _report_load(self) -> None:
        waiting = len(self._tasks)
        self._siblings.throughput_controller.tell(LoadMeasured(waiting, self._executing))
        event = PartitionLoadReported(self._partition, waiting, self._executing)
        self._telemetry.emit(event)

    def _shrink(self, tasks_max: int) -> None:
        """Leave the latest tasks to the store, where they all are."""
        assert tasks_max >= 0, "a number of tasks"
        memory = self._note_waiting()
        if len(self._tasks) <= tasks_max and memory.room_bytes >= 0:
            return
        room_bytes = memory.share_bytes - memory.executing_bytes
        # Where nothing runs, one task stays, however large: else none of its size ever would.
        dropped = self._tasks.keep_first(tasks_max, room_bytes, int(not self._executing))
        if not dropped:
            return
        self._note_waiting()
        # One key lower than the first dropped would do; the last kept is such a key, and
        # where none is kept the millisecond before is.
        first_ms = dropped[0].scheduled_ms
        last_kept = max(self._tasks, default=TaskKey(first_ms - 1, "", ""))
        assert last_kept < dropped[0] <= dropped[-1], "the latest leave, and are read again (P8)"
        self._siblings.task_persistence.tell(LowerCheckpoint(last_kept))
        self._telemetry.emit(WindowShrunk(self._partition, len(dropped)))

    def _measure_progress(self, message: MeasureProgress) -> None:
        assert message.earliest_ms is None, "the way begins here"
        assert not message.held, "the way begins here"
        # What others hold may have changed the share.
        self._report_excess()
        first = self._tasks.first()
        earliest_ms = first.scheduled_ms if first else None
        held: list[Straggler] = []
        for hold in self._held:
            held.extend(hold.stragglers)
        self._siblings.partition_executor.tell(
            replace(message, earliest_ms=earliest_ms, held=tuple(held))
        )

    def _update(self, message: UpdateTask) -> None:
        """Take over a later record where the key waits; an ordering id may have an older one."""
        self._tasks.update(message.task)
        self._siblings.partition_executor.tell(message)

    def _withdraw(self, message: WithdrawTask) -> None:
        """Let go of a key; the executor may run an older record of it, so it is asked too."""
        task = self._tasks.find(message.key)
        if task is not None and message.withdrawal is Withdrawal.MOVE and task.attempts.last:
            message.reply_to.tell(TaskWithdrawn(message.key, WithdrawalResult.RAN))
            return
        self._tasks.remove(message.key)
        self._siblings.partition_executor.tell(message)

    def _hold(self, message: HoldOrderings) -> None:
        assert message.stragglers, "nobody is left behind"
        if self._running:
            self._siblings.partition_executor.tell(message)
        else:
            self._held.append(message)

    def _start(self) -> None:
        if self._draining:
            # The log was read to its end too late: nothing may begin any more.
            return
        assert not self._running, "a partition starts once"
        self._running = True
        for hold in self._held:
            self._siblings.partition_executor.tell(hold)
        self._held.clear()
        self._execute_due()
        # Last: an id that adopted an attempt goes on with the earliest of what it was handed.
        self._siblings.partition_executor.tell(StartTasks())

    def _pause(self, message: PauseTasks) -> None:
        """Hand on nothing while all is paused; what is due for a paused id goes on, and its
        executor leaves it to the store.
        """
        self._is_paused = message.sheet.of_partition(self._partition).whole
        self._siblings.partition_executor.tell(message)
        self._execute_due()

    def _drain(self) -> None:
        self._draining = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._siblings.partition_executor.tell(DrainTasks())
