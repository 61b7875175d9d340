"""What the owner of a partition says of it, as a JSON value."""

from collections.abc import Mapping
from typing import Any

from scheduler.admin.values import instant_value

OWNERS_WORD = (
    *("epoch", "nextOffset", "lag", "watermark", "loadedUntil", "waiting", "executing"),
    *("held", "stragglers", "overdueMs", "assigned", "catchUpMs", "pauseKnown"),
)
"""What nobody but the owner knows: null where it does not answer."""


def owners_word(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a report says of one partition."""
    return {
        "state": body["stage"],
        "epoch": body["epoch"],
        "nextOffset": body["nextOffset"],
        "watermark": instant_value(body["watermark_ms"]),
        "loadedUntil": instant_value(body["loaded_until_ms"]),
        "waiting": body["waiting"],
        "executing": body["executing"],
        "held": body["held"],
        "stragglers": body["stragglers"],
        "overdueMs": body["overdue_ms"],
        "assigned": instant_value(body["assigned_ms"]),
        "catchUpMs": body["catch_up_ms"],
    }
