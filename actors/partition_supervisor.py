"""PartitionSupervisor: one for each assigned partition.

Decides when its partition may start tasks: when the log is read to the end found at the
assignment, or when the catch-up deadline passed (P4).  Starts the five actors below it and
fails as one with them; never handles a task itself.
"""

from typing import assert_never

import msgspec

from actors.completion_tracker import CompletionTracker
from actors.kernel.actor import Actor
from actors.kernel.ref import Recipient
from actors.messages import (
    DrainTasks,
    LogCaughtUp,
    MeetSiblings,
    PartitionDrained,
    PauseTasks,
    PersistTasks,
    RevokePartitions,
    Siblings,
    StartTasks,
    TasksDrained,
    TasksPersisted,
    WatermarkMeasured,
)
from actors.model.events import CatchUpEnded
from actors.model.known_completions import KnownCompletions
from actors.model.ownership import Assignment
from actors.partition_executor import PartitionExecutor
from actors.partition_scheduler import PartitionScheduler
from actors.ports.effects import Effects
from actors.task_persistence import TaskPersistence
from actors.throughput_controller import ThroughputController

WATERMARK_WAIT_MS = 200
"""Longest wait of a drained partition for its last watermark to be under way: about what the next
owner's first load takes longer without."""


class _CatchUpDeadlinePassed(msgspec.Struct, frozen=True):
    pass


class _WatermarkWaitOver(msgspec.Struct, frozen=True):
    pass


Message = (
    PersistTasks
    | TasksPersisted
    | LogCaughtUp
    | _CatchUpDeadlinePassed
    | RevokePartitions
    | TasksDrained
    | WatermarkMeasured
    | _WatermarkWaitOver
    | PauseTasks
)
"""All that this role is told."""


class PartitionSupervisor(Actor):
    """Owner of one partition's subtree."""

    def __init__(
        self, effects: Effects, assignment: Assignment, topic_supervisor: Recipient
    ) -> None:
        self._effects = effects
        self._assignment = assignment
        self._topic_supervisor = topic_supervisor
        self._partition = assignment.ownership.partition
        self._caught_up = False
        self._tasks_drained = self._watermark_measured = False

    def on_start(self) -> None:
        effects, assignment = self._effects, self._assignment
        ownership = assignment.ownership
        known = KnownCompletions(
            assignment.watermark.watermark_ms, effects.settings.window.completions_max
        )
        self._siblings = Siblings(
            supervisor=self.actor_ref,
            task_persistence=self.spawn(TaskPersistence(effects, assignment)),
            throughput_controller=self.spawn(ThroughputController(effects.settings)),
            partition_scheduler=self.spawn(PartitionScheduler(effects, self._partition)),
            partition_executor=self.spawn(PartitionExecutor(effects, ownership)),
            completion_tracker=self.spawn(CompletionTracker(effects, ownership, known)),
            known_completions=known,
        )
        for sibling in (
            self._siblings.completion_tracker,
            self._siblings.partition_executor,
            self._siblings.partition_scheduler,
            self._siblings.task_persistence,
            self._siblings.throughput_controller,
        ):
            sibling.tell(MeetSiblings(self._siblings))
        self._assigned_ms = self._context.clock.monotonic_ms()
        deadline_ms = effects.settings.recovery.catch_up_deadline_ms
        self._context.after(deadline_ms, _CatchUpDeadlinePassed())

    def on_receive(self, message: Message) -> None:
        match message:
            case PersistTasks():
                self._siblings.task_persistence.tell(message)
            case TasksPersisted():
                self._topic_supervisor.tell(message)
            case LogCaughtUp():
                self._end_catch_up(complete=True)
            case _CatchUpDeadlinePassed():
                self._end_catch_up(complete=False)
            case PauseTasks():
                self._siblings.partition_scheduler.tell(message)
            case RevokePartitions():
                self._drain()
            case TasksDrained():
                self._tasks_drained = True
                self._report_drained()
            case WatermarkMeasured() | _WatermarkWaitOver():
                self._watermark_measured = True
                self._report_drained()
            case _:
                assert_never(message)

    def _end_catch_up(self, *, complete: bool) -> None:
        if self._caught_up:
            return
        self._caught_up = True
        waited_ms = round(self._context.clock.monotonic_ms() - self._assigned_ms)
        self._effects.telemetry.emit(CatchUpEnded(self._partition, waited_ms, complete))
        self._siblings.partition_scheduler.tell(StartTasks())

    def _drain(self) -> None:
        self._siblings.partition_scheduler.tell(DrainTasks())
        self._siblings.task_persistence.tell(DrainTasks())
        self._context.after(WATERMARK_WAIT_MS, _WatermarkWaitOver())

    def _report_drained(self) -> None:
        if self._tasks_drained and self._watermark_measured:
            self._topic_supervisor.tell(PartitionDrained(self._partition))
