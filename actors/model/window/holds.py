"""The records of a partition that must be durable elsewhere first, and a hold while one fails.

Such a record is a dead letter, or a stray on its way to its own partition. Decides which of them
may go now: strays of one ordering id go one after the other, because one that overtook another
would be undone by it (P6). While something of the partition fails and is retried it is held.
Decides the begin and the end of that, and when it is reported again: at once, then after intervals
that double. Never sends or retries anything itself.
"""

from collections import deque
from dataclasses import dataclass

from hourhand.actors.model.operations.events import PartitionHeld, PartitionReleased
from hourhand.actors.model.task.codec import LogRecord

REPORT_FIRST_MS = 10_000.0
REPORT_LONGEST_MS = 600_000.0


class Hold:
    """The failing things of one partition."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._causes: set[object] = set()
        self._since_ms = self._report_at_ms = self._report_after_ms = 0.0

    def __bool__(self) -> bool:
        return bool(self._causes)

    def note(
        self, what: object, reason: str | None, now_ms: float
    ) -> PartitionHeld | PartitionReleased | None:
        """Note that something failed, or with None that it no longer does; return an event if it is
        time for one.
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


@dataclass(slots=True, eq=False)
class Forward:
    """A record that is not durable elsewhere yet."""

    record: LogRecord
    batch: int
    ordering_id: str = ""
    """Ordering id of the record; empty for a dead letter, which has no order."""
    own: int = -1
    """The partition that a stray belongs to."""


class Forwards:
    """All forwards of a partition."""

    def __init__(self) -> None:
        self._waiting: dict[int, Forward] = {}
        self._strays: dict[str, deque[Forward]] = {}
        """By ordering id; the first of each is under way."""

    def begin(self, forward: Forward) -> bool:
        """Add a forward; return True if it may go now."""
        assert forward.record.offset not in self._waiting, "a record is forwarded once"
        self._waiting[forward.record.offset] = forward
        if not forward.ordering_id:
            return True
        strays = self._strays.setdefault(forward.ordering_id, deque())
        assert not strays or strays[-1].record.offset < forward.record.offset, "not in log order"
        strays.append(forward)
        return len(strays) == 1

    def let_pass(self, forward: Forward) -> Forward | None:
        """Let others pass this one; return the one that may go now."""
        strays = self._strays.get(forward.ordering_id)
        if strays is None or strays[0] is not forward:
            return None
        strays.popleft()
        if strays:
            return strays[0]
        del self._strays[forward.ordering_id]
        return None

    def end(self, forward: Forward) -> None:
        """Note that it is durable elsewhere."""
        assert self._waiting.get(forward.record.offset) is forward, "it was forwarded before"
        del self._waiting[forward.record.offset]

    def of_batch(self, batch: int) -> list[Forward]:
        """Return those that came with a batch."""
        return [each for each in self._waiting.values() if each.batch == batch]

    @property
    def first_offset(self) -> int | None:
        """The offset of the first of them."""
        return min(self._waiting, default=None)
