"""Hour-wide buckets: the row of the store for a scheduled time.

A bucket is named by the UTC millisecond at which its hour begins, so buckets sort like times and
cover years 1 to 9999 without a calendar.
"""

from collections.abc import Iterator

HOUR_MS = 3_600_000
SURELY_DELETED_HOURS = 48
"""Number of last hours in a whole-hour delete that are deleted even without rows."""


def hour_of(time_ms: int) -> int:
    """Return the start, in UTC milliseconds, of the hour that contains ``time_ms``."""
    return time_ms - time_ms % HOUR_MS


def hours_between(start_ms: int, end_ms: int) -> Iterator[int]:
    """Yield the start of every hour that shares a millisecond with [start_ms, end_ms)."""
    if start_ms >= end_ms:
        return iter(())
    return iter(range(hour_of(start_ms), end_ms, HOUR_MS))
