"""What the owner of a partition says of it, as a JSON value."""

from typing import Any

from actors.model.oversight import PartitionReport
from scheduler.admin.values import instant_value

OWNERS_WORD = (
    *("epoch", "nextOffset", "lag", "watermark", "loadedUntil", "waiting", "executing"),
    *("held", "stragglers", "overdueMs", "assigned", "catchUpMs", "pauseKnown"),
)
"""What nobody but the owner knows: null where it does not answer."""


def owners_word(said: PartitionReport) -> dict[str, Any]:
    """Return what a report says of one partition."""
    return {
        "state": said.stage,
        "epoch": said.epoch,
        "nextOffset": said.next_offset,
        "watermark": instant_value(said.watermark_ms),
        "loadedUntil": instant_value(said.loaded_until_ms),
        "waiting": said.waiting,
        "executing": said.executing,
        "held": said.held,
        "stragglers": said.stragglers,
        "overdueMs": said.overdue_ms,
        "assigned": instant_value(said.assigned_ms),
        "catchUpMs": said.catch_up_ms,
    }
