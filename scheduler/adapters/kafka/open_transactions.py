"""Watches for open transactions, which end a partition for readers before its log ends.

A reader gets only committed records. A producer that begins a transaction and never ends it blocks
all records behind it, until the broker ends it: after fifteen minutes by default. Decides when that
has lasted long enough to be reported; it cannot do anything about it.
"""

from collections.abc import Callable, Mapping

LOOK_MS = 5_000
"""Time between two looks. Only a state that two looks saw is reported: a busy log grows while it is
read."""
_TOLD_AFTER_MS = 10_000


class OpenTransactions:
    """The state of started partitions; used from the polling thread."""

    def __init__(self, end_of: Callable[[int], int | None]) -> None:
        """``end_of`` returns a partition's known end, including unread records."""
        self._end_of = end_of
        self._since: dict[int, tuple[int, float]] = {}
        """The offset at which a partition stands still, and since when (monotonic time)."""
        self._look_at_ms = 0.0
        self.waiting: Mapping[int, str] = {}
        """By partition, the reason why nothing more of it can be read."""

    def look(self, ends: Mapping[int, int], now_ms: float) -> None:
        """Look again if it is time.

        ``ends`` has the partitions that were read up to the last visible record, and the offset
        reached.
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
        """Reset all durations: nothing is being read now."""
        self._since, self.waiting = {}, {}
