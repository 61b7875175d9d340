"""TaskPersistence: reads and writes a partition's schedule; no other role does.

Decides the order of its operations.  Each is a generator that yields the answers that it waits
for, and they go one at a time, so that a write, a load and an advance of the watermark never
overlap.  ``Persisting``, ``Loading`` and ``WatermarkKeeper`` decide the content of the operations.
Never runs a task.
"""

from typing import assert_never

import msgspec

from hourhand.actors.kernel.actor import Actor
from hourhand.actors.kernel.context import Look
from hourhand.actors.kernel.operations import Operation, Operations, Resolved
from hourhand.actors.loading import BACKLOG_AT_START_MS, Loading, SearchDue
from hourhand.actors.messages import (
    DrainTasks,
    LoadOrdering,
    LoadStragglers,
    LoadTasks,
    LowerCheckpoint,
    MeetSiblings,
    OutcomesRecorded,
    PersistTasks,
    ProgressMeasured,
    Siblings,
    StatusesFound,
    TaskWithdrawn,
)
from hourhand.actors.model.execution.commands import all_tasks
from hourhand.actors.model.operations.ownership import Assignment, first_advance_ms
from hourhand.actors.model.task.key import first_key_at
from hourhand.actors.model.window.read_ahead import ReadAhead
from hourhand.actors.persisting import Persisting
from hourhand.actors.ports.effects import Effects
from hourhand.actors.schedule_reader import ScheduleReader
from hourhand.actors.watermark import WatermarkKeeper


class _AdvanceDue(Look, msgspec.Struct, frozen=True):
    pass


Message = (
    PersistTasks
    | LoadTasks
    | LoadOrdering
    | LowerCheckpoint
    | Resolved
    | StatusesFound
    | ProgressMeasured
    | TaskWithdrawn
    | OutcomesRecorded
    | _AdvanceDue
    | SearchDue
    | DrainTasks
    | MeetSiblings
)
"""All that this role is told."""


class TaskPersistence(Actor):
    """States: idle, or waiting for an answer to the current operation."""

    def __init__(self, effects: Effects, assignment: Assignment) -> None:
        self._effects = effects
        self._assignment = assignment
        self._saves_first = assignment.resumed or assignment.topic_changed
        self._gathering: list[PersistTasks] | None = None
        """Shares of batches that the next write takes, until that write begins."""
        self._operations: Operations
        self._watermark: WatermarkKeeper
        self._loading: Loading
        self._persisting: Persisting

    def on_receive(self, message: Message) -> None:
        match message:
            case PersistTasks():
                self._gather(message)
            case LoadTasks():
                self._operations.begin(self._loading.load(message))
            case LoadOrdering():
                self._loading.ask(message)
            case LowerCheckpoint(key=key, band=band):
                self._loading.lower(key, band)
            case Resolved(value=value):
                self._operations.resume(value)
            case StatusesFound() | ProgressMeasured() | TaskWithdrawn() | OutcomesRecorded():
                self._operations.resume(message)
            case _AdvanceDue():
                self._operations.begin(self._advance())
            case SearchDue(backlog=backlog):
                self._operations.begin(self._loading.search(backlog))
            case DrainTasks():
                self._operations.begin(self._watermark.advance(self.actor_ref, drained=True))
            case MeetSiblings(siblings=siblings):
                self._meet(siblings)
            case _:
                assert_never(message)

    def _meet(self, siblings: Siblings) -> None:
        self._make_parts(siblings)
        mark = self._watermark.mark
        if self._saves_first:
            # A save of the failed tree may still arrive, and may be ahead of the watermark that was
            # read; after this save it has no effect.  And no effect of a new topic's record is
            # stored before the topic itself: a third topic would count as the second.
            self._operations.begin(self._watermark.save(mark))
        if mark.stragglers:
            hold = LoadStragglers(mark.stragglers, mark.watermark_ms)
            siblings.partition_scheduler.tell(hold)
        if mark.watermark_ms < self._context.clock.now_ms() - BACKLOG_AT_START_MS:
            # Before anything is loaded, so that tasks on time wait only for this.
            self._loading.look_for_backlog()
        self._persisting.report_catch_up()
        interval_ms = self._effects.settings.watermark.interval_ms
        first_ms = first_advance_ms(self._assignment.ownership.partition, interval_ms)
        self._context.after(first_ms, _AdvanceDue())

    def _make_parts(self, siblings: Siblings) -> None:
        effects, assignment, clock = self._effects, self._assignment, self._context.clock
        partition = assignment.ownership.partition
        first = first_key_at(assignment.watermark.watermark_ms)
        reach = ReadAhead(first, effects.flow_rules, partition)
        self._operations = operations = Operations(self._context)
        reader = ScheduleReader(effects, assignment, self._context, siblings)
        self._watermark = mark = WatermarkKeeper(
            effects, assignment, clock, siblings, reader, reach
        )
        self._loading = loading = Loading(
            effects, self._context, siblings, reader, mark, reach, operations, partition
        )
        self._persisting = Persisting(
            effects, assignment, clock, siblings, reader, mark, loading, self.actor_ref
        )

    def _gather(self, share: PersistTasks) -> None:
        """Put shares that wait for a slow write into one write: a slow store gets larger requests,
        not more of them.  A share with a command goes alone, because commands take longer.
        """
        if not all_tasks(share.entries):
            self._gathering = None
            self._operations.begin(self._persisting.persist([share]))
        elif self._gathering is not None:
            self._gathering.append(share)
        else:
            self._gathering = [share]
            self._operations.begin(self._persist_gathered(self._gathering))

    def _persist_gathered(self, shares: list[PersistTasks]) -> Operation:
        if shares is self._gathering:
            self._gathering = None
        yield from self._persisting.persist(shares)

    def _advance(self) -> Operation:
        yield from self._watermark.advance(self.actor_ref)
        yield from self._sweep()

    def _sweep(self) -> Operation:
        if (yield from self._watermark.sweep()):
            # The rest waits behind operations begun meanwhile, however many failed tasks there are.
            self._operations.begin(self._sweep())
        else:
            interval_ms = self._effects.settings.watermark.interval_ms
            self._context.after(interval_ms, _AdvanceDue())
