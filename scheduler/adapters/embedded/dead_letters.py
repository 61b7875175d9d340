"""``LogView`` on the folder's log file."""

import sqlite3
from collections.abc import Mapping, Sequence

from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.ports.log import Position
from hourhand.scheduler.adapters.embedded.database import Database
from hourhand.scheduler.adapters.embedded.folder import log_file
from hourhand.scheduler.adapters.embedded.pair import check_pair
from hourhand.scheduler.adapters.embedded.records import as_record, read_ends
from hourhand.scheduler.adapters.embedded.seal import opened
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.ports.dead_letters import LetterPage, LogEnd
from hourhand.scheduler.runtime.answers import answered

_SELECT = (
    "SELECT id, timestamp_ms, key, value, headers, checksum"
    " FROM dead_letter LEFT JOIN letter_checksum USING (id)"
)


class EmbeddedLogView:
    """Reads the log of ``settings.embedded.folder``; raises the errors of the writer."""

    def __init__(self, settings: Settings) -> None:
        check_pair(settings)
        self._database = Database(log_file(settings.embedded.folder), readers=1)

    def ends(self) -> Mapping[int, LogEnd]:
        """Return the bounds of every partition that ever had a record."""

        def work(connection: sqlite3.Connection) -> Mapping[int, LogEnd]:
            return {each: LogEnd(0, end) for each, end in read_ends(connection).items()}

        return answered(self._database.read(work))

    def letters(self, before: str | None, limit: int) -> LetterPage:
        """Read dead letters; a place is a row's id."""
        if before is not None and not (before.isdecimal() and len(before) < 19):
            raise ValueError(f"{before[:80]!r} is not a place among the dead letters")
        end = 2**62 if before is None else int(before)
        query = f"{_SELECT} WHERE id < ? ORDER BY id DESC LIMIT ?"

        def work(connection: sqlite3.Connection) -> LetterPage:
            rows = connection.execute(query, (end, limit + 1)).fetchall()
            page = [as_record(opened(row)) for row in rows[:limit]]
            return LetterPage(page, str(page[-1].offset) if len(rows) > limit else None)

        return answered(self._database.read(work))

    def find_letters(self, places: Sequence[Position]) -> Mapping[Position, LogRecord]:
        asked = [each for each in dict.fromkeys(places) if each.partition == 0]
        query = f"{_SELECT} WHERE id = ?"

        def work(connection: sqlite3.Connection) -> Mapping[Position, LogRecord]:
            return {
                place: as_record(opened(row))
                for place in asked
                for row in connection.execute(query, (min(place.offset, 2**62),))
            }

        return answered(self._database.read(work))

    def close(self) -> None:
        self._database.close()
