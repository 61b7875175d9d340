"""Which partitions end for their readers before their log does: a transaction is open there.

A reader gets what is committed only.  A producer that begins a transaction and never ends it holds
up all that stands behind it, until the broker ends it: after fifteen minutes by default.  Decides
when that has lasted so long that somebody should know; it can do nothing about it.
"""

from collections.abc import Callable, Mapping

LOOK_MS = 5_000
"""Only what is a second look old is told: where much is written, a log grows while it is read."""
_TOLD_AFTER_MS = 10_000


class OpenTransactions:
    """What is known of the started partitions; used from the polling thread."""

    def __init__(self, end_of: Callable[[int], int | None]) -> None:
        """``end_of`` tells a partition's end, read or not, as far as it is known here."""
        self._end_of = end_of
        self._since: dict[int, tuple[int, float]] = {}
        """Where a partition stands still, and since when (monotonic time)."""
        self._look_at_ms = 0.0
        self.waiting: Mapping[int, str] = {}
        """Why nothing more of a partition can be read."""

    def look(self, ends: Mapping[int, int], now_ms: float) -> None:
        """Look again where it is time.

        ``ends`` has the partitions that were read up to what readers get, and how far that is.
        """
        if now_ms < self._look_at_ms:
            return
        self._look_at_ms = now_ms + LOOK_MS
        since, waiting = {}, {}
        for partition, offset in ends.items():
            end = self._end_of(partition)
            if end is None or end <= offset:
                continue
            known = self._since.get(partition)
            began_ms = known[1] if known is not None and known[0] == offset else now_ms
            since[partition] = (offset, began_ms)
            if now_ms - began_ms >= _TOLD_AFTER_MS:
                waiting[partition] = (
                    f"it waits at offset {offset}, below its end {end}: a producer's transaction is"
                    " open there, until that producer or the broker ends it"
                )
        self._since, self.waiting = since, waiting

    def restart(self) -> None:
        """Forget how long anything lasts: nothing is being read just now."""
        self._since, self.waiting = {}, {}
