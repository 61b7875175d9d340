"""PartitionScheduler: holds the loaded tasks of a partition until they are due.

Decides when a task is due, by the wall clock, never early (P2), with one timer for the
earliest.  Hands due tasks on in key order, as many as the executor has slots for, and only
once the partition may start.  Never reads or writes the store.
"""

import heapq
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
from actors.model.commands import Holding, Withdrawal
from actors.model.events import PartitionLoadReported, WindowShrunk
from actors.model.key import TaskKey
from actors.model.ownership import Straggler
from actors.model.task import StoredTask
from actors.ports.effects import Effects

TASKS_PER_MESSAGE_MAX = 250
"""Due tasks handed on at a time: a whole herd in one message would delay every other partition."""


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
        """What is handed on stays in memory, so it is no more than that may hold (P13)."""
        self._siblings: Siblings
        self._tasks: dict[TaskKey, StoredTask] = {}
        self._order: list[TaskKey] = []
        """A heap of the keys, some of them no longer in ``_tasks``."""
        self._executing = 0
        self._running = False
        self._draining = False
        self._is_paused = False
        self._held: list[HoldOrderings] = []
        """What must reach the executor before the first task does."""
        self._timer: Timer | None = None

    def on_receive(self, message: Message) -> None:
        match message:
            case ScheduleTasks(tasks=tasks):
                self._schedule(tasks)
            case SlotsReleased(slots=slots):
                self._executing -= slots
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
                self._siblings = siblings
            case _:
                assert_never(message)

    def _schedule(self, tasks: tuple[StoredTask, ...]) -> None:
        for task in tasks:
            known = self._tasks.get(task.key)
            if known is None:
                heapq.heappush(self._order, task.key)
                self._tasks[task.key] = task
            else:
                self._tasks[task.key] = known.merged_with(task)
        self._execute_due()
        if len(self._tasks) + self._executing > self._window.tasks_max:
            self._report_load()

    def _execute_due(self) -> None:
        """Hand on what is due and has a slot, then sleep until the next is."""
        if not self._running or self._draining or self._is_paused:
            return
        now_ms = self._context.clock.now_ms()
        free = self._slots - self._executing
        due: list[StoredTask] = []
        order, tasks = self._order, self._tasks
        while order and len(due) < free and order[0].scheduled_ms <= now_ms:
            task = tasks.pop(heapq.heappop(order), None)
            if task is not None:
                due.append(task)
        if due:
            self._executing += len(due)
            for first in range(0, len(due), TASKS_PER_MESSAGE_MAX):
                some = tuple(due[first : first + TASKS_PER_MESSAGE_MAX])
                self._siblings.partition_executor.tell(ExecuteTasks(some))
        if len(due) < free:
            self._sleep_until_due(now_ms)

    def _sleep_until_due(self, now_ms: int) -> None:
        """Set the timer, at most one check interval ahead: the wall clock may be stepped."""
        while self._order and self._order[0] not in self._tasks:
            heapq.heappop(self._order)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._order:
            wait_ms = self._order[0].scheduled_ms - now_ms
            delay_ms = max(0, min(wait_ms, self._window.clock_check_ms))
            self._timer = self._context.after(delay_ms, _DueTimerFired())

    def _report_load(self) -> None:
        waiting = len(self._tasks)
        self._siblings.throughput_controller.tell(LoadMeasured(waiting, self._executing))
        event = PartitionLoadReported(self._partition, waiting, self._executing)
        self._telemetry.emit(event)

    def _shrink(self, tasks_max: int) -> None:
        """Leave the latest tasks to the store, where they all are."""
        excess = len(self._tasks) - tasks_max
        if excess <= 0:
            return
        keys = sorted(self._tasks)
        kept, dropped = keys[:tasks_max], keys[tasks_max:]
        for key in dropped:
            del self._tasks[key]
        self._order = kept
        # One key lower than the first dropped would do; the last kept is such a key, and
        # where none is kept the millisecond before is.
        last_kept = kept[-1] if kept else TaskKey(dropped[0].scheduled_ms - 1, "", "")
        self._siblings.task_persistence.tell(LowerCheckpoint(last_kept))
        self._telemetry.emit(WindowShrunk(self._partition, len(dropped)))

    def _measure_progress(self, message: MeasureProgress) -> None:
        while self._order and self._order[0] not in self._tasks:
            heapq.heappop(self._order)
        earliest_ms = self._order[0].scheduled_ms if self._order else None
        held: list[Straggler] = []
        for hold in self._held:
            held.extend(hold.stragglers)
        self._siblings.partition_executor.tell(
            replace(message, earliest_ms=earliest_ms, held=tuple(held))
        )

    def _update(self, message: UpdateTask) -> None:
        """Take over a later record where the key waits, or have whoever was handed it do so."""
        known = self._tasks.get(message.task.key)
        if known is None:
            self._siblings.partition_executor.tell(message)
        else:
            self._tasks[message.task.key] = known.merged_with(message.task)

    def _withdraw(self, message: WithdrawTask) -> None:
        """Let go of a key; the executor may run an older record of it, so it is asked too."""
        task = self._tasks.get(message.key)
        if task is not None and message.withdrawal is Withdrawal.MOVE and task.attempts.last:
            message.reply_to.tell(TaskWithdrawn(message.key, Holding.RAN))
            return
        self._tasks.pop(message.key, None)
        self._siblings.partition_executor.tell(message)

    def _hold(self, message: HoldOrderings) -> None:
        if self._running:
            self._siblings.partition_executor.tell(message)
        else:
            self._held.append(message)

    def _start(self) -> None:
        if self._draining:
            # The log was read to its end too late: nothing may begin any more.
            return
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
