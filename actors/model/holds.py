"""A partition that is held: something of it fails and is tried again, and all of it waits for that.

Decides when that begins and ends, and when it is said again: at once, then after intervals that
double.  Never tries anything itself.
"""

from actors.model.events import PartitionHeld, PartitionReleased

REPORT_FIRST_MS = 10_000.0
REPORT_LONGEST_MS = 600_000.0


class Hold:
    """What one partition waits for."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._causes: set[object] = set()
        self._since_ms = self._report_at_ms = self._report_after_ms = 0.0

    def __bool__(self) -> bool:
        return bool(self._causes)

    def note(
        self, what: object, reason: str | None, now_ms: float
    ) -> PartitionHeld | PartitionReleased | None:
        """Note that something failed, or with None that it waits no longer; return what is to be
        told of that, where it is time.
        """
        if reason is None:
            return self._end(what, now_ms)
        if not self._causes:
            self._since_ms = self._report_at_ms = now_ms
            self._report_after_ms = REPORT_FIRST_MS
        self._causes.add(what)
        if now_ms < self._report_at_ms:
            return None
        self._report_at_ms = now_ms + self._report_after_ms
        self._report_after_ms = min(2 * self._report_after_ms, REPORT_LONGEST_MS)
        assert now_ms >= self._since_ms, "monotonic time does not go back"
        return PartitionHeld(self._partition, reason, round(now_ms - self._since_ms))

    def _end(self, what: object, now_ms: float) -> PartitionReleased | None:
        if what not in self._causes:
            return None
        self._causes.remove(what)
        if self._causes:
            return None
        return PartitionReleased(self._partition, round(now_ms - self._since_ms))
