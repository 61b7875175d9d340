"""PartitionExecutor: one OrderingExecutor for each busy ordering id of a partition.

Decides when an ordering id becomes busy and when it is idle again, and counts the slots its
tasks occupy.  Never looks inside a task, and never makes one ordering id wait for another
(P7).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import NamedTuple, assert_never

import msgspec

from actors.kernel.actor import Actor
from actors.kernel.context import Look
from actors.kernel.ref import Ref
from actors.messages import (
    AdoptAttempt,
    CompletionRecorded,
    CompletionsRecorded,
    DrainTasks,
    ExecuteTask,
    ExecuteTasks,
    HoldOrdering,
    HoldOrderings,
    KeepLane,
    MeasureProgress,
    MeetSiblings,
    OrderingDrained,
    PauseOrdering,
    PauseTasks,
    ProgressMeasured,
    ReturnLane,
    Siblings,
    SlotsReleased,
    SpillQueue,
    StartTasks,
    TasksDrained,
    TasksReleased,
    TaskWithdrawn,
    UpdateTask,
    WithdrawTask,
)
from actors.model.commands import WithdrawalResult
from actors.model.events import orderings_measured
from actors.model.key import first_key_at
from actors.model.ownership import Ownership, Straggler, stragglers_of
from actors.model.pauses import NOT_PAUSED, PartitionPause
from actors.model.status import Completion
from actors.model.task import StoredTask
from actors.ordering_executor import OrderingExecutor
from actors.ordering_lane import EndedAttempts, OrderingLanes
from actors.ports.effects import Effects


@dataclass(slots=True)
class _Ordering:
    """What is known of a busy ordering id from outside."""

    ref: Ref
    first_ms: int | None
    """At most the scheduled time of its first open task."""
    sent: int = 1
    held: bool = False


class _ReleaseSlots(msgspec.Struct, frozen=True):
    pass


class _AttemptsEnded(msgspec.Struct, frozen=True):
    """Attempts of lanes have ended."""


class _Left(NamedTuple):
    """What is known of an ordering id whose open tasks are left to the next owner."""

    first_ms: int | None
    held: bool


class _SlowCheckDue(Look, msgspec.Struct, frozen=True):
    pass


Message = (
    ExecuteTasks
    | _AttemptsEnded
    | CompletionsRecorded
    | TasksReleased
    | ReturnLane
    | _ReleaseSlots
    | _SlowCheckDue
    | UpdateTask
    | WithdrawTask
    | MeasureProgress
    | HoldOrderings
    | StartTasks
    | OrderingDrained
    | DrainTasks
    | MeetSiblings
    | PauseTasks
)
"""All that this role is told."""


class PartitionExecutor(Actor):
    """States: running, draining."""

    def __init__(self, effects: Effects, ownership: Ownership) -> None:
        self._effects = effects
        self._ownership = ownership
        self._siblings: Siblings
        self._orderings: dict[str, _Ordering] = {}
        self._released = 0
        self._release_pending = False
        self._draining = False
        self._lanes: OrderingLanes
        self._ended = EndedAttempts(self._tell_of_ended)
        self._drained: dict[str, _Left] = {}
        """Their open tasks are left to the next owner, who must load them."""
        self._pause = NOT_PAUSED
        self._parked: dict[str, int] = {}
        """Paused ids, and those whose last attempt is still ending, to the time from which on
        their open tasks are left to the store; no task of them is handed on."""
        self._reached_ms = 0
        """Nothing scheduled after this was handed to an id."""

    def on_receive(self, message: Message) -> None:
        match message:
            case ExecuteTasks(tasks=tasks):
                self._execute(tasks)
            case _AttemptsEnded():
                self._take_ended()
            case CompletionsRecorded(completions=completions):
                self._take_recorded(completions)
            case TasksReleased():
                self._release(message)
            case ReturnLane():
                self._take_back(message)
            case _ReleaseSlots():
                self._siblings.partition_scheduler.tell(SlotsReleased(self._released))
                self._released = 0
                self._release_pending = False
            case _SlowCheckDue():
                self._check_slow()
            case UpdateTask(task=task):
                self._update(task)
            case WithdrawTask():
                self._withdraw(message)
            case MeasureProgress():
                self._measure_progress(message)
            case HoldOrderings():
                for straggler in message.stragglers:
                    self._hold(straggler, message.watermark_ms)
            case StartTasks():
                for ordering in self._orderings.values():
                    ordering.ref.tell(message)
            case OrderingDrained(ordering_id=ordering_id):
                self._end_ordering(ordering_id)
            case DrainTasks():
                self._drain()
            case PauseTasks(sheet=sheet):
                self._take_pause(sheet.of_partition(self._ownership.partition))
            case MeetSiblings(siblings=siblings):
                self._meet(siblings)
            case _:
                assert_never(message)

    def _meet(self, siblings: Siblings) -> None:
        """Begin by taking over what an earlier tree left running on this node (P16)."""
        self._siblings = siblings
        self._lanes = OrderingLanes(self._effects, self._ownership, siblings, self._ended)
        for attempt in self._effects.runner.unsettled(self._ownership.partition):
            key = attempt.task.key
            assert attempt.partition == self._ownership.partition, "another partition's attempt"
            self._reached_ms = max(self._reached_ms, key.scheduled_ms)
            self._send(key.ordering_id, key.scheduled_ms, AdoptAttempt(attempt))
        self._context.after(self._effects.settings.window.slow_attempt_ms, _SlowCheckDue())

    def _execute(self, tasks: Sequence[StoredTask]) -> None:
        assert tasks, "nothing is due"
        assert not self._draining, "a partition that is given up is handed nothing"
        assert tasks[0].key <= tasks[-1].key, "what is due comes in key order (P4)"
        self._reached_ms = max(self._reached_ms, tasks[-1].key.scheduled_ms)
        budget = self._siblings.budget
        queue_max = budget.queue_tasks_max(self._effects.settings.window)
        any_held_back = self._parked or self._pause is not NOT_PAUSED
        parked = 0
        for task in tasks:
            key = task.key
            if any_held_back and self._is_held_back(key.ordering_id):
                self._park(key.ordering_id, key.scheduled_ms)
                budget.release((task,))
                parked += 1
            elif key.ordering_id in self._orderings or not self._lanes.take(task, queue_max):
                self._send(key.ordering_id, key.scheduled_ms, ExecuteTask(task))
        self._lanes.start()
        self._give_back(parked + self._lanes.take_spilled())

    # Plain tasks: no mailbox, and one message for many of them.

    def _tell_of_ended(self) -> None:
        self.actor_ref.tell(_AttemptsEnded())

    def _take_ended(self) -> None:
        for ordering_id in self._lanes.record(self._ended.take(), self.actor_ref):
            self._open(ordering_id)

    def _take_recorded(self, completions: Sequence[Completion]) -> None:
        for completion in completions:
            ordering = self._orderings.get(completion.key.ordering_id)
            if ordering is not None:
                # Not counted: it is about the task that the id took over.
                ordering.ref.tell(CompletionRecorded(completion.key, completion.result))
        closed = self._lanes.close(completions)
        for ordering_id in closed.waiting:
            if self._draining:
                self._leave(ordering_id)
            elif not self._lanes.go_on(ordering_id):
                self._open(ordering_id)
        self._lanes.start()
        self._give_back(closed.tasks)
        self._report_drained()

    def _leave(self, ordering_id: str) -> None:
        """Leave what waits in a lane to the next owner."""
        lane = self._lanes.remove(ordering_id)
        assert lane is not None, "what waits has a lane"
        self._drained[ordering_id] = _Left(lane.first_ms, held=False)

    def _open(self, ordering_id: str) -> None:
        """Give an ordering id that has a lane a mailbox, as it is not plain any more."""
        lane = self._lanes.remove(ordering_id)
        assert lane is not None, "an ordering id has a lane or a mailbox"
        assert ordering_id not in self._orderings, "an ordering id has a lane or a mailbox"
        first_ms = lane.first_ms
        ref = self._spawn(ordering_id, lane.handed_over())
        self._orderings[ordering_id] = _Ordering(ref, first_ms)
        if self._draining:
            ref.tell(DrainTasks())

    def _take_back(self, message: ReturnLane) -> None:
        """Let a lane go on with plain tasks, unless something is on its way to their mailbox."""
        ordering = self._orderings.get(message.ordering_id)
        if ordering is None or self._draining:
            # It is told to end.
            return
        assert message.received <= ordering.sent, "more is received than was sent"
        if message.received < ordering.sent or not self._lanes.take_back(
            message.ordering_id, message.tasks, message.executors
        ):
            ordering.ref.tell(KeepLane())
            return
        del self._orderings[message.ordering_id]
        self.stop_child(ordering.ref)
        self._lanes.start()

    def _update(self, task: StoredTask) -> None:
        ordering_id = task.key.ordering_id
        if self._lanes.holds(task.key):
            self._open(ordering_id)
        ordering = self._orderings.get(ordering_id)
        if ordering is not None:
            # Counted like a task, or a lane could go on without it (P6).
            ordering.sent += 1
            ordering.ref.tell(UpdateTask(task))

    def _send(self, ordering_id: str, first_ms: int, message: object) -> None:
        assert ordering_id not in self._parked, "a parked id is handed nothing"
        if ordering_id in self._lanes:
            self._open(ordering_id)
        ordering = self._orderings.get(ordering_id)
        if ordering is None:
            self._orderings[ordering_id] = _Ordering(self._spawn(ordering_id, message), first_ms)
            return
        ordering.sent += 1
        if ordering.first_ms is None or first_ms < ordering.first_ms:
            ordering.first_ms = first_ms
        ordering.ref.tell(message)

    def _spawn(self, ordering_id: str, first_message: object) -> Ref:
        child = OrderingExecutor(
            self._effects,
            self._ownership,
            ordering_id,
            partition_executor=self.actor_ref,
            siblings=self._siblings,
        )
        return self.spawn(child, first_message)

    def _hold(self, straggler: Straggler, watermark_ms: int) -> None:
        """Let an id read what the watermark left behind it before it runs anything else."""
        if straggler.first_ms >= watermark_ms:
            # The watermark was lowered below it since; the ordinary load comes by.
            return
        self._reached_ms = max(self._reached_ms, watermark_ms)
        if self._is_held_back(straggler.ordering_id):
            self._park(straggler.ordering_id, straggler.first_ms)
            return
        hold = HoldOrdering(first_key_at(straggler.first_ms), first_key_at(watermark_ms))
        self._send(straggler.ordering_id, straggler.first_ms, hold)

    def _release(self, message: TasksReleased) -> None:
        if ordering := self._orderings.get(message.ordering_id):
            self._note_progress(ordering, message)
        self._siblings.budget.release_slots(message.ordering_id, message.released)
        self._give_back(message.released)

    def _give_back(self, slots: int) -> None:
        self._released += slots
        if slots and not self._release_pending:
            # One message to the scheduler for all that is released until it is handled.
            self._release_pending = True
            self._context.tell_self(_ReleaseSlots())

    def _note_progress(self, ordering: _Ordering, message: TasksReleased) -> None:
        assert message.received <= ordering.sent, "more is received than was sent"
        ordering.held = message.held
        if message.received == ordering.sent:
            ordering.first_ms = message.first_ms
            if message.first_ms is None:
                # It is idle and has seen everything sent to it, so nothing can be lost.
                self._end_ordering(message.ordering_id)

    def _check_slow(self) -> None:
        slow_ms = self._effects.settings.window.slow_attempt_ms
        for attempt in self._effects.runner.long_running(self._ownership.partition, slow_ms):
            key = attempt.task.key
            if self._lanes.holds(key):
                self._open(key.ordering_id)
            ordering = self._orderings.get(key.ordering_id)
            # A task without order that is held says nothing of the others of its id.
            is_any_unordered = bool(self._effects.concurrency_per_id)
            if ordering is not None and (is_any_unordered or not ordering.held):
                ordering.ref.tell(SpillQueue(key))
        self._context.after(slow_ms, _SlowCheckDue())

    def _withdraw(self, message: WithdrawTask) -> None:
        if self._lanes.holds(message.key):
            self._open(message.key.ordering_id)
        ordering = self._orderings.get(message.key.ordering_id)
        if ordering is None:
            message.reply_to.tell(TaskWithdrawn(message.key, WithdrawalResult.ABSENT))
        else:
            # Counted like a task, or the child could be stopped before it answers.
            ordering.sent += 1
            ordering.ref.tell(message)

    def _measure_progress(self, message: MeasureProgress) -> None:
        earliest_ms = message.earliest_ms
        found = [*message.held, *starmap(Straggler, self._parked.items())]
        for ordering_id, left in (*self._busy(), *self._drained.items()):
            if left.first_ms is None or ordering_id in self._parked:
                continue
            if left.held or left.first_ms < message.watermark_ms:
                found.append(Straggler(ordering_id, left.first_ms))
            elif earliest_ms is None or left.first_ms < earliest_ms:
                earliest_ms = left.first_ms
        held = stragglers_of(found)
        place, now_ms = self._ownership.partition, self._context.clock.now_ms()
        busy = len(self._orderings) + len(self._lanes)
        measured = orderings_measured(place, busy, held, earliest_ms, now_ms)
        self._effects.telemetry.emit(measured)
        message.reply_to.tell(ProgressMeasured(earliest_ms, held))

    def _busy(self) -> Iterator[tuple[str, _Left]]:
        for ordering_id, ordering in self._orderings.items():
            yield ordering_id, _Left(ordering.first_ms, ordering.held)
        for ordering_id, first_ms in self._lanes.progress():
            yield ordering_id, _Left(first_ms, held=False)

    # What an operator pauses is left to the store, and read there when it may run again.

    def _is_held_back(self, ordering_id: str) -> bool:
        pause = self._pause
        return pause.whole or ordering_id in pause.ordering_ids or ordering_id in self._parked

    def _take_pause(self, pause: PartitionPause) -> None:
        self._pause = pause
        if self._draining:
            # Whatever waits is the next owner's, paused or not: an id that begins now ends late.
            return
        for ordering_id in self._lanes:
            if pause.whole or ordering_id in pause.ordering_ids:
                self._open(ordering_id)
        for ordering_id, ordering in self._orderings.items():
            held_back = pause.whole or ordering_id in pause.ordering_ids
            if held_back and ordering_id not in self._parked and ordering.first_ms is not None:
                self._park(ordering_id, ordering.first_ms)
                ordering.sent += 1
                ordering.ref.tell(PauseOrdering())
        for ordering_id in tuple(self._parked):
            self._resume(ordering_id)

    def _park(self, ordering_id: str, first_ms: int) -> None:
        assert first_ms <= self._reached_ms, "a pause that ends would not read it (P8)"
        known_ms = self._parked.get(ordering_id, first_ms)
        self._parked[ordering_id] = min(known_ms, first_ms)

    def _resume(self, ordering_id: str) -> None:
        """Have an id read what was left to the store, unless its last attempt still runs."""
        pause = self._pause
        if pause.whole or ordering_id in pause.ordering_ids or ordering_id in self._orderings:
            return
        assert not self._draining, "a partition that is given up begins nothing"
        first_ms = self._parked.pop(ordering_id)
        hold = HoldOrdering(first_key_at(first_ms), first_key_at(self._reached_ms + 1))
        self._send(ordering_id, first_ms, hold)

    def _drain(self) -> None:
        self._draining = True
        for ordering in self._orderings.values():
            ordering.ref.tell(DrainTasks())
        self._report_drained()

    def _end_ordering(self, ordering_id: str) -> None:
        """Stop a child; it may have said twice that it is done, once by being idle."""
        if ordering := self._orderings.pop(ordering_id, None):
            assert ordering_id not in self._drained, "an id that drained begins nothing again"
            self.stop_child(ordering.ref)
            if self._draining:
                self._drained[ordering_id] = _Left(ordering.first_ms, ordering.held)
                self._report_drained()
            elif ordering_id in self._parked:
                self._resume(ordering_id)

    def _report_drained(self) -> None:
        if self._draining and not self._orderings and not len(self._lanes):
            self._siblings.supervisor.tell(TasksDrained())
