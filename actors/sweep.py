"""Deletes the hours of a partition that are done, and only those.

Decides the order: completions go when their retention is over, and only after the schedule rows
that they guard are gone (P5).  Never moves the watermark.
"""

from msgspec.structs import replace

from actors.kernel.operations import Steps
from actors.model.ownership import Ownership, Watermark
from actors.ports.clock import Clock
from actors.ports.store import Stores


def sweep_hours(
    mark: Watermark, stores: Stores, ownership: Ownership, clock: Clock, retention_ms: int
) -> Steps[Watermark]:
    """Delete whole hours; return the mark that says how far they are deleted."""
    partition = ownership.partition
    tasks_end_ms = mark.tasks_sweep_end_ms()
    if tasks_end_ms > mark.tasks_swept_until_ms:
        hours = (mark.tasks_swept_until_ms, tasks_end_ms)
        write_time = ownership.next_write_time()
        done_ms = yield stores.schedule.delete_tasks(partition, *hours, write_time)
        assert hours[0] <= done_ms <= hours[1], "other hours were deleted"
        mark = replace(mark, tasks_swept_until_ms=done_ms)
    now_ms = clock.now_ms()
    mark = mark.with_retention_begun(now_ms, retention_ms)
    statuses_end_ms = mark.statuses_sweep_end_ms(now_ms)
    if statuses_end_ms > mark.statuses_swept_until_ms:
        hours = (mark.statuses_swept_until_ms, statuses_end_ms)
        write_time = ownership.next_write_time()
        done_ms = yield stores.status.delete_statuses(partition, *hours, write_time)
        assert hours[0] <= done_ms <= hours[1], "other hours were deleted"
        mark = replace(mark, statuses_swept_until_ms=done_ms)
    return mark
