"""Deletes the rows of hours whose tasks are all closed.

Decides the order.  First all schedule rows of an hour go, except those of failed tasks, which are
written once more after the delete's write time.  Failed tasks go when their own retention is over.
Completions go when theirs is over, and only after the schedule rows that they guard (P5).  Works in
steps of a page, so that other operations go between two steps.  Never moves the watermark.
"""

from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from hourhand.actors.kernel.operations import Steps
from hourhand.actors.model.operations.ownership import Ownership, Watermark
from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.values.bucket import hour_of
from hourhand.actors.model.values.settings import WatermarkSettings
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.store import Stores
from hourhand.actors.schedule_reader import ScheduleReader


class Swept(NamedTuple):
    """The result of a step."""

    mark: Watermark
    has_more: bool = False
    """A further step is to follow at once."""


class _Thinning(msgspec.Struct, frozen=True):
    """Hours whose failed tasks are being kept, before all other rows are deleted."""

    first_ms: int
    end_ms: int
    write_time: int
    """The write time of the delete; rows that are written later survive it."""
    reached: TaskKey


class Sweep:
    """The deletes of one partition: steps of an operation, which wait for their answers."""

    def __init__(
        self,
        stores: Stores,
        reader: ScheduleReader,
        ownership: Ownership,
        clock: Clock,
        settings: WatermarkSettings,
    ) -> None:
        self._stores = stores
        self._reader = reader
        self._ownership = ownership
        self._clock = clock
        self._settings = settings
        self._thinning: _Thinning | None = None
        self._kept_until_ms = 0
        """Wall time before which the first hour with a failed task is kept."""
        self._checked: tuple[tuple[int, int], TaskKey] | None = None
        """The hours, and the key up to which their failed tasks are old enough to go."""

    def step(self, mark: Watermark) -> Steps[Swept]:
        """Delete whole hours; return the mark that says how far they are deleted."""
        swept = yield from self._thin(mark)
        if not swept.has_more:
            swept = yield from self._delete_failed(swept.mark)
        if not swept.has_more:
            mark = yield from self._delete_statuses(swept.mark)
            swept = Swept(mark)
        return swept

    def _thin(self, mark: Watermark) -> Steps[Swept]:
        thinning, end_ms = self._thinning, mark.tasks_sweep_end_ms()
        self._thinning = None
        if thinning is None:
            first_ms = mark.thinned_ms
            if end_ms <= first_ms:
                return Swept(mark)
            first = first_key_at(first_ms)
            thinning = _Thinning(first_ms, end_ms, self._ownership.next_write_time(), first)
        elif end_ms < thinning.end_ms:
            # A task in these hours was opened meanwhile: they are not done.
            return Swept(mark)
        next_key = yield from self._keep_page(thinning)
        if next_key is not None:
            self._thinning = replace(thinning, reached=next_key)
            return Swept(mark, has_more=True)
        hours = thinning.first_ms, thinning.end_ms
        done_ms = yield from self._delete_tasks(*hours, thinning.write_time)
        has_kept = thinning.reached > first_key_at(thinning.first_ms)
        if not has_kept and mark.tasks_swept_until_ms >= thinning.first_ms:
            mark = replace(mark, tasks_swept_until_ms=done_ms)
        return Swept(replace(mark, thinned_until_ms=done_ms))

    def _keep_page(self, thinning: _Thinning) -> Steps[TaskKey | None]:
        """Write the rows of some failed tasks once more, above the delete that is to come.

        Return the key to go on from; None where there is no further one.
        """
        if not self._settings.failed_retention_ms:
            return None
        partition = self._ownership.partition
        failed = yield self._stores.status.load_completions(
            partition, thinning.reached, first_key_at(thinning.end_ms), self._reader.found_max
        )
        if not failed:
            return None
        rows = yield from self._reader.find([each.key for each in failed])
        if rows:
            write_time = self._ownership.next_write_time()
            assert write_time > thinning.write_time, "the delete would take them as well"
            yield self._stores.schedule.insert_tasks(partition, rows, write_time)
        # A further step follows even if this was all: it sees by the key that some are kept.
        last: TaskKey = failed[-1].key
        return last

    def _delete_failed(self, mark: Watermark) -> Steps[Swept]:
        """Delete the hours whose failed tasks have been kept for long enough."""
        partition, now_ms = self._ownership.partition, self._clock.now_ms()
        old_ms = now_ms - self._settings.failed_retention_ms
        first_ms = mark.tasks_swept_until_ms
        end_ms = min(mark.thinned_ms, mark.tasks_sweep_end_ms(), hour_of(old_ms))
        checked, self._checked = self._checked, None
        if end_ms <= first_ms or now_ms < self._kept_until_ms:
            return Swept(mark)
        after, hours = first_key_at(first_ms), (first_ms, end_ms)
        if checked is not None and checked[0] == hours:
            after = checked[1]
        limit = self._reader.found_max
        failed = yield self._stores.status.load_completions(
            partition, after, first_key_at(end_ms), limit
        )
        young = next((each for each in failed if each.finished_ms > old_ms), None)
        if young is None and len(failed) == limit:
            self._checked = hours, failed[-1].key
            return Swept(mark, has_more=True)
        if young is not None:
            self._kept_until_ms = young.finished_ms + self._settings.failed_retention_ms
            end_ms = hour_of(young.key.scheduled_ms)
        if end_ms <= first_ms:
            return Swept(mark)
        write_time = self._ownership.next_write_time()
        done_ms = yield from self._delete_tasks(first_ms, end_ms, write_time)
        return Swept(replace(mark, tasks_swept_until_ms=done_ms))

    def _delete_tasks(self, first_ms: int, end_ms: int, write_time: int) -> Steps[int]:
        delete = self._stores.schedule.delete_tasks
        done_ms: int = yield delete(self._ownership.partition, first_ms, end_ms, write_time)
        assert first_ms <= done_ms <= end_ms, "other hours were deleted"
        return done_ms

    def _delete_statuses(self, mark: Watermark) -> Steps[Watermark]:
        now_ms = self._clock.now_ms()
        mark = mark.with_retention_begun(now_ms, self._settings.completion_retention_ms)
        first_ms, end_ms = mark.statuses_swept_until_ms, mark.statuses_sweep_end_ms(now_ms)
        if end_ms <= first_ms:
            return mark
        write_time = self._ownership.next_write_time()
        done_ms = yield self._stores.status.delete_statuses(
            self._ownership.partition, first_ms, end_ms, write_time
        )
        assert first_ms <= done_ms <= end_ms, "other hours were deleted"
        return replace(mark, statuses_swept_until_ms=done_ms)
