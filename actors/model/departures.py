"""A partition's records that must be durable elsewhere: dead letters, strays in their partition.

Decides which of them may go now.  Strays of one ordering id go one after the other: one that
overtook another would be undone by it (P6).  Never sends any.
"""

from collections import deque
from dataclasses import dataclass

from actors.model.codec import LogRecord


@dataclass(slots=True, eq=False)
class Departure:
    """A record that is not durable elsewhere yet."""

    record: LogRecord
    batch: int
    ordering_id: str = ""
    """Whose record it is; empty for a dead letter, which has no order."""
    own: int = -1
    """The partition that a stray belongs to."""


class Departures:
    """All departures of a partition."""

    def __init__(self) -> None:
        self._waiting: dict[int, Departure] = {}
        self._strays: dict[str, deque[Departure]] = {}
        """By ordering id; the first of each is under way."""

    def begin(self, departure: Departure) -> bool:
        """Take a departure; return whether it may go now."""
        assert departure.record.offset not in self._waiting, "a record departs once"
        self._waiting[departure.record.offset] = departure
        if not departure.ordering_id:
            return True
        strays = self._strays.setdefault(departure.ordering_id, deque())
        assert not strays or strays[-1].record.offset < departure.record.offset, "not in log order"
        strays.append(departure)
        return len(strays) == 1

    def let_pass(self, departure: Departure) -> Departure | None:
        """Have no other wait for this one; return the one that may go now."""
        strays = self._strays.get(departure.ordering_id)
        if strays is None or strays[0] is not departure:
            return None
        strays.popleft()
        if strays:
            return strays[0]
        del self._strays[departure.ordering_id]
        return None

    def end(self, departure: Departure) -> None:
        """It is durable elsewhere."""
        assert self._waiting.get(departure.record.offset) is departure, "it departed before"
        del self._waiting[departure.record.offset]

    def of_batch(self, batch: int) -> list[Departure]:
        """Return those that came with a batch."""
        return [each for each in self._waiting.values() if each.batch == batch]

    @property
    def first_offset(self) -> int | None:
        """Where the first of them stands."""
        return min(self._waiting, default=None)
