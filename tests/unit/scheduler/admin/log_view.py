"""``LogView`` over a memory broker."""

from collections.abc import Mapping, Sequence

from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.ports.log import Position
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.ports.dead_letters import LetterPage, LogEnd


class MemoryLogView:
    """Looks at a broker; a place among the letters is an offset."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def ends(self) -> Mapping[int, LogEnd]:
        """Return the bounds of every partition."""
        return {
            number: LogEnd(each.first_offset, each.end_offset)
            for number, each in enumerate(self._broker.partitions)
        }

    def letters(self, before: str | None, limit: int) -> LetterPage:
        """Read letters, newest first."""
        if before is not None and not before.isdecimal():
            raise ValueError("no place")
        records, _ = self._broker.dead_letters.read(0, 10**9)
        older = [each for each in reversed(records) if before is None or each.offset < int(before)]
        page = older[:limit]
        return LetterPage(page, str(page[-1].offset) if len(older) > limit else None)

    def find_letters(self, places: Sequence[Position]) -> Mapping[Position, LogRecord]:
        """Read single letters."""
        records, _ = self._broker.dead_letters.read(0, 10**9)
        found = {Position(0, each.offset): each for each in records}
        return {place: found[place] for place in places if place in found}

    def close(self) -> None:
        """Nothing is open."""
