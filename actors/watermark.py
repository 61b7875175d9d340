"""The watermark of a partition: all tasks before it are closed, except those of stragglers.

Decides when it is saved: it is durably lowered before any role receives an older task, and raised
in the background up to the first open task.  Saves with it the time up to which outside writers
must also write to the log.  Never raises it further than was measured, and never deletes a row:
``Sweep`` does, after each advance.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from hourhand.actors.kernel.operations import Ask, Operation, Steps
from hourhand.actors.kernel.ref import Recipient
from hourhand.actors.messages import MeasureProgress, ProgressMeasured, Siblings, WatermarkMeasured
from hourhand.actors.model.operations.events import WatermarkAdvanced, WatermarkHeld
from hourhand.actors.model.operations.ownership import Assignment, Watermark
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.read_ahead import ReadAhead
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.effects import Effects
from hourhand.actors.schedule_reader import ScheduleReader
from hourhand.actors.sweep import Sweep


class WatermarkKeeper:
    """The watermark of one partition: operations, and steps of them, which wait for answers."""

    def __init__(
        self,
        effects: Effects,
        assignment: Assignment,
        clock: Clock,
        siblings: Siblings,
        reader: ScheduleReader,
        reach: ReadAhead,
    ) -> None:
        self._settings = effects.settings.watermark
        self._look_ahead_ms = effects.settings.window.look_ahead_ms
        self._store = effects.stores.ownership
        self._emit = effects.telemetry.emit
        self._ownership = assignment.ownership
        self._partition = assignment.ownership.partition
        self._clock = clock
        self._siblings = siblings
        self._reader = reader
        self._reach = reach
        self._sweep = Sweep(effects.stores, reader, assignment.ownership, clock, self._settings)
        self.mark = assignment.watermark
        """The watermark of the last save that was begun; the stored one is never ahead of it."""
        self._saved = assignment.watermark
        self.next_offset = assignment.next_offset
        """Every record below this offset was read."""
        self._durable_offset = assignment.next_offset
        """Every record below this offset had its effect, here or where it was forwarded to."""

    def save(self, mark: Watermark) -> Operation:
        """Write a watermark; it counts from the begin of the write."""
        mark = replace(mark, write_time=self._ownership.next_write_time())
        assert mark.write_time > self.mark.write_time, "saves of an owner are ordered"
        assert mark.loaded_until_ms >= self.mark.loaded_until_ms, "only ever raised"
        self.mark = self._saved = mark
        yield self._store.save_watermark(self._partition, self._ownership.epoch, mark)

    def lower(self, tasks: Sequence[StoredTask]) -> Operation:
        """Lower it durably before a role receives an older task: a restart must load that (P8)."""
        earliest_ms = min([task.key.scheduled_ms for task in tasks])
        if earliest_ms < self.mark.watermark_ms:
            yield from self.save(self.mark.lowered_to(earliest_ms))
        assert self.mark.watermark_ms <= earliest_ms, "a restart would not load it (P8)"

    def raise_loaded_until(self, before_ms: int) -> Operation:
        """Tell outside writers, before a read, up to which time they must write to the log too."""
        if before_ms > self.mark.loaded_until_ms:
            # It is raised further than needed, so that most reads need no save.
            ahead_ms = before_ms + self._look_ahead_ms
            yield from self.save(replace(self.mark, loaded_until_ms=ahead_ms))

    def note_persisted(self, next_offset: int, pending_offset: int | None) -> None:
        """Note that all records below ``next_offset`` were read, and that those below
        ``pending_offset`` had their effect.
        """
        self.next_offset = max(self.next_offset, next_offset)
        assert pending_offset is None or pending_offset < self.next_offset, (
            "it is forwarded after it was read"
        )
        self._durable_offset = self.next_offset if pending_offset is None else pending_offset

    def advance(self, asker: Recipient, *, drained: bool = False) -> Operation:
        """Raise the watermark to the first open task; save it if it has moved far enough."""
        lag_ms = self._settings.drained_lag_ms if drained else self._settings.lag_ms
        question = MeasureProgress(None, (), self.mark.watermark_ms, asker)
        progress = yield Ask(self._siblings.partition_scheduler, question)
        advanced = self._advanced(progress, lag_ms)
        if drained:
            # The supervisor handles it after the save has begun; nothing waits for the save's end.
            self._siblings.supervisor.tell(WatermarkMeasured())
        is_idle = self._reach.latest_row_ms < self._saved.watermark_ms
        if advanced.is_worth_saving(self._saved, self._settings.step_ms(lag_ms, is_idle=is_idle)):
            yield from self.save(advanced)
            passed = len(advanced.stragglers)
            self._emit(WatermarkAdvanced(self._partition, advanced.watermark_ms, passed))

    def _advanced(self, progress: ProgressMeasured, lag_ms: int) -> Watermark:
        """Return the raised watermark, with a bounded list of stragglers before it."""
        mark, now_ms = self.mark, self._clock.now_ms()
        loaded_ms, open_ms = self._reach.checkpoint.key.scheduled_ms, progress.earliest_ms
        floor_ms = mark.floor_ms(now_ms, lag_ms, loaded_ms, open_ms)
        advanced = mark.advanced_to(floor_ms, progress.stragglers, self._settings.stragglers_max)
        assert advanced.watermark_ms <= floor_ms, "something behind it is open (P8)"
        if advanced.watermark_ms < floor_ms:
            self._emit(
                WatermarkHeld(self._partition, advanced.watermark_ms, len(progress.stragglers))
            )
        assert self._durable_offset <= self.next_offset, "what was not read is not durable (P9)"
        return replace(advanced, next_offset=self._durable_offset)

    def sweep(self) -> Steps[bool]:
        """Delete a page of closed rows; return True if another page follows at once."""
        self.mark, has_more = yield from self._sweep.step(self.mark)
        self._reader.thinned_ms = self.mark.thinned_ms
        return has_more

    def confirm_ownership(self) -> Operation:
        """Check that no newer owner has claimed the partition.

        An owner that claims it after this check loads all that is durable by now.  One that claimed
        it before has older rows in memory, and would take our outcome as decided (P6).
        """
        claim = yield self._store.read_watermark(self._partition)
        self._ownership.confirm(claim)
