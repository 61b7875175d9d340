"""PartitionScheduler: keeps the loaded tasks of a partition until they are due.

Decides when a task is due, by the wall clock and never early (P2), with one timer for the earliest
task.  Hands due tasks on in key order, as many as there are free slots, and only once the partition
may start.  Never reads or writes the store.
"""

from operator import attrgetter
from typing import assert_never

import msgspec
from msgspec.structs import replace

from hourhand.actors.kernel.actor import Actor
from hourhand.actors.kernel.context import Timer
from hourhand.actors.messages import (
    BandsChanged,
    DrainTasks,
    ExecuteTasks,
    LoadMeasured,
    LoadStragglers,
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
from hourhand.actors.model.execution.commands import Withdrawal, WithdrawalResult
from hourhand.actors.model.operations.events import PartitionLoadReported, WindowShrunk
from hourhand.actors.model.operations.ownership import Straggler
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.band import Band, BandName, Bands, WaitingQueue
from hourhand.actors.model.window.budget import PartitionBudget
from hourhand.actors.model.window.flow_queues import FlowQueues
from hourhand.actors.model.window.task_queue import TaskQueue
from hourhand.actors.ports.effects import Effects

TASKS_PER_MESSAGE_MAX = 250
"""Due tasks of one message: a larger one would delay every other partition."""
FLOW_TASKS_AT_A_TIME = 32
"""Due tasks of one part if kinds have rules: between two parts, tasks of any partition that go
first are handed on, so that the many tasks of one tenant do not block the node's dispatcher."""

_key_of = attrgetter("key")


class _DueTimerFired(msgspec.Struct, frozen=True):
    pass


class _NextPart(msgspec.Struct, frozen=True):
    """Further due tasks have slots: hand on the next part."""


Message = (
    ScheduleTasks
    | BandsChanged
    | SlotsReleased
    | _DueTimerFired
    | _NextPart
    | MeasureLoad
    | ShrinkWindow
    | MeasureProgress
    | UpdateTask
    | WithdrawTask
    | LoadStragglers
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
        self._rules = effects.flow_rules
        self._window = window = effects.settings.window
        self._slots = window.slots
        self._siblings: Siblings
        self._budget: PartitionBudget | None = None
        self._bands = Bands(TaskQueue)
        self._next_part_told = False
        self._running = False
        self._draining = False
        self._is_paused = False
        self._stragglers: list[LoadStragglers] = []
        """Stragglers that the executor must receive before its first task."""
        self._timer: Timer | None = None

    def on_stop(self) -> None:
        if self._budget is not None:
            self._budget.end()

    def on_receive(self, message: Message) -> None:
        match message:
            case ScheduleTasks(tasks=tasks, band=band):
                self._schedule(tasks, self._bands.of(band))
            case BandsChanged():
                self._change_bands(message)
            case SlotsReleased(slots=slots):
                self._execute_due(slots)
            case _DueTimerFired() | _NextPart():
                self._wake(message)
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
            case LoadStragglers():
                self._take_stragglers(message)
            case StartTasks():
                self._start()
            case DrainTasks():
                self._drain()
            case PauseTasks():
                self._pause(message)
            case MeetSiblings(siblings=siblings):
                self._siblings, self._budget = siblings, siblings.budget
                self._bands = Bands(self._new_queue)
            case _:
                assert_never(message)

    def _new_queue(self) -> WaitingQueue:
        budget = self._siblings.budget
        return FlowQueues(self._rules, budget) if budget.has_flows else TaskQueue()

    def _change_bands(self, message: BandsChanged) -> None:
        if message.on_time_ms is not None:
            self._bands.separate()
            return
        self._bands.join()
        self._execute_due()
        self._report_excess()

    def _schedule(self, tasks: tuple[StoredTask, ...], band: Band) -> None:
        assert tasks, "nothing is scheduled"
        if not self._execute_at_once(tasks, band):
            for task in tasks:
                band.queue.add(task)
            self._execute_due(len(tasks))
            if self._running:
                self._tell_of_waiting(tasks, band.queue)
        self._report_excess()

    def _execute_at_once(self, tasks: tuple[StoredTask, ...], band: Band) -> bool:
        """Hand on tasks at once and return True, if all are due and have slots, and no waiting task
        goes before them (P4).
        """
        if band.queue.takes_turns:
            # The order of the flows decides which of them has a slot.
            return False
        now_ms, budget = self._context.clock.now_ms(), self._siblings.budget
        if not self._may_execute() or len(tasks) > band.most(self._slots) - budget.slots:
            return False
        first = band.queue.first()
        if first is not None and first.scheduled_ms <= now_ms:
            return False
        if max([task.key.scheduled_ms for task in tasks]) > now_ms:
            return False
        size_bytes = sum([task.size_bytes for task in tasks])
        if budget.due_bytes + size_bytes > band.most(budget.share_bytes):
            return False
        self._hand_on(sorted(tasks, key=_key_of), now_ms, band, size_bytes)
        if self._timer is None:
            self._sleep_until_due(now_ms)
        return True

    def _tell_of_waiting(self, tasks: tuple[StoredTask, ...], queue: WaitingQueue) -> None:
        """Tell the executor of due tasks without a slot: it may have an earlier record (P6)."""
        first, now_ms = queue.first(), self._context.clock.now_ms()
        if first is None or first.scheduled_ms > now_ms:
            return
        for task in tasks:
            if task.key.scheduled_ms <= now_ms and task.key in queue:
                self._siblings.partition_executor.tell(UpdateTask(task))

    def _report_excess(self) -> None:
        budget, waiting = self._note_waiting(), len(self._bands)
        crowded = waiting + budget.slots > self._window.tasks_max
        if crowded or (budget.free_bytes < 0 and waiting):
            self._report_load()

    def _note_waiting(self) -> PartitionBudget:
        budget = self._siblings.budget
        budget.keep_waiting(self._bands.size_bytes - budget.waiting_bytes)
        return budget

    def _wake(self, message: _DueTimerFired | _NextPart) -> None:
        if isinstance(message, _NextPart):
            assert self._next_part_told, "one part is under way at a time"
            self._next_part_told = False
        else:
            self._timer = None
        self._execute_due()

    def _execute_due(self, part_max: int = FLOW_TASKS_AT_A_TIME) -> None:
        """Hand on due tasks that have a slot, then sleep until the next one is due.

        If kinds have rules, tasks are handed on in parts.  While a part is under way, at most
        ``part_max`` are: as many as just came or ended, so that other partitions get their turns.
        """
        if not self._may_execute():
            return
        now_ms = self._context.clock.now_ms()
        for band in self._bands:
            self._execute_due_of(band, now_ms, part_max)
        self._sleep_until_due(now_ms)

    def _execute_due_of(self, band: Band, now_ms: int, part_max: int) -> None:
        budget, queue = self._siblings.budget, band.queue
        free, bytes_max = band.most(self._slots) - budget.slots, band.most(budget.share_bytes)
        due_bytes = budget.due_bytes
        if not self._next_part_told:
            part_max = FLOW_TASKS_AT_A_TIME
        part_max = min(free, part_max, FLOW_TASKS_AT_A_TIME) if queue.takes_turns else free
        assert part_max <= free, "nobody is handed more than has a slot (P13)"
        due: list[StoredTask] = []
        if free > 0:
            queue.begin_taking(now_ms)
        while len(due) < part_max:
            # One task always goes on, or one larger than the share would wait for ever.
            if due_bytes >= bytes_max and budget.slots + len(due) > 0:
                break
            task = queue.take_due(now_ms, free - len(due))
            if task is None:
                break
            due_bytes += task.size_bytes
            due.append(task)
        if not due:
            return
        self._note_waiting()
        self._hand_on(sorted(due, key=_key_of) if queue.takes_turns else due, now_ms, band)
        if len(due) == part_max < free and not self._next_part_told:
            self._next_part_told = True
            self._context.tell_last(_NextPart())

    def _may_execute(self) -> bool:
        return self._running and not self._draining and not self._is_paused

    def _hand_on(
        self, due: list[StoredTask], now_ms: int, band: Band, size_bytes: int | None = None
    ) -> None:
        """Give due tasks a slot each and hand them on; ``size_bytes`` of all, where it is known."""
        assert due[0].key <= due[-1].key, "what is due goes in key order (P4)"
        assert due[-1].key.scheduled_ms <= now_ms, "handed on before it is due (P2)"
        budget = self._siblings.budget
        budget.run(due, size_bytes)
        assert budget.slots <= self._slots, "more is handed on than has a slot (P13)"
        executor = self._siblings.partition_executor
        # Tasks on time do not wait behind messages about the backlog of other ids.
        tell = executor.tell_first if band.name is BandName.ON_TIME else executor.tell
        for first in range(0, len(due), TASKS_PER_MESSAGE_MAX):
            tell(ExecuteTasks(tuple(due[first : first + TASKS_PER_MESSAGE_MAX])))

    def _sleep_until_due(self, now_ms: int) -> None:
        """Set the timer, at most one check interval ahead, because the wall clock may be stepped.

        Tasks that are due already wait for a slot: the message that releases one wakes this role.
        """
        due_ms = self._bands.first_after(now_ms)
        if due_ms is None and self._timer is None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due_ms is not None:
            delay_ms = min(due_ms - now_ms, self._window.clock_check_ms)
            self._timer = self._context.after(delay_ms, _DueTimerFired())

    def _report_load(self) -> None:
        waiting, executing = len(self._bands), self._siblings.budget.slots
        measured = LoadMeasured(waiting, executing, self._bands.tasks_of(BandName.ON_TIME))
        self._siblings.throughput_controller.tell(measured)
        event = PartitionLoadReported(self._partition, waiting, executing)
        self._telemetry.emit(event)

    def _shrink(self, tasks_max: int) -> None:
        """Drop the latest tasks from memory; the store has all of them."""
        budget = self._note_waiting()
        if len(self._bands) <= tasks_max and budget.free_bytes >= 0:
            return
        free_bytes = budget.free_bytes + budget.waiting_bytes
        # If nothing runs, one task stays, however large: otherwise it would never run.
        dropped = self._bands.keep_first(tasks_max, free_bytes, int(not budget.slots))
        for band, keys in dropped:
            # Any key below the first dropped one will do: the last kept key, or a key of the
            # millisecond before.
            last_kept = max(band.queue, default=TaskKey(keys[0].scheduled_ms - 1, "", ""))
            assert last_kept < keys[0] <= keys[-1], "the latest leave, and are read again (P8)"
            lowered = LowerCheckpoint(last_kept, band.name)
            self._siblings.task_persistence.tell(lowered)
        self._note_waiting()
        if dropped:
            count = sum(len(keys) for _, keys in dropped)
            self._telemetry.emit(WindowShrunk(self._partition, count))

    def _measure_progress(self, message: MeasureProgress) -> None:
        assert message.earliest_ms is None, "the way begins here"
        assert not message.stragglers, "the way begins here"
        # The load of other partitions may have changed the share of this one.
        self._report_excess()
        first = self._bands.first()
        earliest_ms = None if first is None else first.scheduled_ms
        stragglers: list[Straggler] = []
        for each in self._stragglers:
            stragglers.extend(each.stragglers)
        self._siblings.partition_executor.tell(
            replace(message, earliest_ms=earliest_ms, stragglers=tuple(stragglers))
        )

    def _update(self, message: UpdateTask) -> None:
        """Use a later record if the key waits here; the executor may have an older one as well."""
        self._bands.update(message.task)
        self._siblings.partition_executor.tell(message)

    def _withdraw(self, message: WithdrawTask) -> None:
        """Remove a key; the executor may run an older record of it, so it is asked too."""
        task = self._bands.find(message.key)
        if task is not None and message.withdrawal is Withdrawal.MOVE and task.attempts.last:
            message.reply_to.tell(TaskWithdrawn(message.key, WithdrawalResult.RAN))
            return
        self._bands.remove(message.key)
        self._siblings.partition_executor.tell(message)

    def _take_stragglers(self, message: LoadStragglers) -> None:
        assert message.stragglers, "nobody is left behind"
        if self._running:
            self._siblings.partition_executor.tell(message)
        else:
            self._stragglers.append(message)

    def _start(self) -> None:
        if self._draining:
            # The log was read to its end too late: no attempt may begin any more.
            return
        assert not self._running, "a partition starts once"
        self._running = True
        for each in self._stragglers:
            self._siblings.partition_executor.tell(each)
        self._stragglers.clear()
        self._execute_due()
        # Last: an id that adopted an attempt continues with the earliest of all these tasks.
        self._siblings.partition_executor.tell(StartTasks())

    def _pause(self, message: PauseTasks) -> None:
        """Hand on nothing while the partition is paused.  Due tasks of a paused id are handed on,
        and the executor leaves them to the store.
        """
        self._is_paused = message.config.of_partition(self._partition).whole
        self._siblings.partition_executor.tell(message)
        self._execute_due()

    def _drain(self) -> None:
        self._draining = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._siblings.partition_executor.tell(DrainTasks())
