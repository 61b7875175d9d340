"""``TransferStore`` and ``LogTail`` on a folder; the caller holds the folder's lock.

Reading takes read-only connections; the writing side is opened with the first note.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hourhand.actors.model.operations.ownership import Claim
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.definition import Definition, DefinitionKind, DefinitionName
from hourhand.actors.model.values.errors import InvalidInput
from hourhand.scheduler.adapters.embedded.connection import (
    FAILURES,
    File,
    is_there,
    open_connection,
)
from hourhand.scheduler.adapters.embedded.database import Database
from hourhand.scheduler.adapters.embedded.definitions import DEFINITION
from hourhand.scheduler.adapters.embedded.folder import log_file, store_file
from hourhand.scheduler.adapters.embedded.ownership import OUTCOME, PARTITION_COUNT, outcome_of
from hourhand.scheduler.adapters.embedded.pair import check_pair
from hourhand.scheduler.adapters.embedded.records import read_ends, read_records, starting_position
from hourhand.scheduler.adapters.embedded.seal import opened
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.ports.transfer import UNFINISHED, OutcomeRow, Span
from hourhand.scheduler.runtime.answers import JOB_S, answered

_NOTE = "transfer"
_PIECE_ROWS = 1_000
_TABLES = (
    "task_schedule",
    "task_status",
    "completion_segment",
    "attempt_history",
    "definition",
    "command_outcome",
    "partition_watermark",
)


class EmbeddedTransfer:
    """The store file of one folder; used from one thread."""

    def __init__(self, settings: Settings) -> None:
        check_pair(settings)
        self._file = store_file(settings.embedded.folder)
        self._connection = open_connection(self._file, read_only=True)
        self._database: Database | None = None

    def is_empty(self) -> bool:
        return not any(
            _rows(self._file, self._connection, f"SELECT 1 FROM {table} LIMIT 1")
            for table in _TABLES
        )

    def read_note(self) -> str | None:
        found = _rows(
            self._file, self._connection, f"SELECT value FROM schedule_meta WHERE name = '{_NOTE}'"
        )
        return str(found[0][0]) if found else None

    def write_note(self, note: str) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            connection.execute(
                "INSERT OR IGNORE INTO schedule_meta VALUES (?, ?)", (PARTITION_COUNT, UNFINISHED)
            )
            (count,) = connection.execute(
                "SELECT value FROM schedule_meta WHERE name = ?", (PARTITION_COUNT,)
            ).fetchone()
            if count == UNFINISHED:
                connection.execute(
                    "INSERT OR REPLACE INTO schedule_meta VALUES (?, ?)", (_NOTE, note)
                )
            return bool(count == UNFINISHED)

        return bool(self._write(work))

    def finish(self, partition_count: int | None) -> None:
        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE schedule_meta SET value = ? WHERE name = ?",
                (partition_count or UNFINISHED, PARTITION_COUNT),
            )
            gone = [_NOTE] if partition_count is not None else [_NOTE, PARTITION_COUNT]
            for name in gone:
                connection.execute("DELETE FROM schedule_meta WHERE name = ?", (name,))

        self._write(work)

    def scan_definitions(self, partition: int) -> Iterator[Sequence[Definition]]:
        query = (
            f"SELECT {DEFINITION.selected} FROM definition WHERE partition = ? ORDER BY kind, id"
        )
        for rows in self._pieces(query, partition):
            yield [
                Definition(DefinitionName(DefinitionKind(row[1]), row[2]), *row[3:7])
                for row in rows
            ]

    def scan_outcomes(self, share: int, shares: int) -> Iterator[Sequence[OutcomeRow]]:
        query = f"SELECT {OUTCOME.selected} FROM command_outcome WHERE partition % ? = ?"
        for rows in self._pieces(query, shares, share):
            yield [OutcomeRow(row[0], row[1], outcome_of(row[2:10])) for row in rows]

    def close(self) -> None:
        self._connection.close()
        if self._database is not None:
            self._database.close()

    def _pieces(self, query: str, *arguments: int) -> Iterator[list[tuple[Any, ...]]]:
        try:
            cursor = self._connection.execute(query, arguments)
            while rows := cursor.fetchmany(_PIECE_ROWS):
                yield [opened(row) for row in rows]
        except FAILURES as error:
            raise self._file.failure(error) from error

    def _write(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        if self._database is None:
            self._database = Database(self._file)
        return answered(self._database.write(work), JOB_S, str(self._file.path))


class EmbeddedTail:
    """The log file of one folder; InvalidInput if it is missing."""

    def __init__(self, settings: Settings) -> None:
        self._file = log_file(settings.embedded.folder)
        if not is_there(self._file):
            raise InvalidInput(
                f"embedded.folder {settings.embedded.folder} holds no installation: there is no"
                f" {self._file.path.name} in it"
            )
        self._connection = open_connection(self._file, read_only=True)

    def spans(self, stored: Mapping[int, Claim | None]) -> Mapping[int, Span]:
        counts = _rows(self._file, self._connection, "SELECT partition_count FROM topic")
        count = int(counts[0][0]) if counts else 0
        try:
            ends = read_ends(self._connection)
            claims = {each: stored.get(each) for each in range(count)}
            return {
                each: self._span(each, claim, ends.get(each, 0)) for each, claim in claims.items()
            }
        except FAILURES as error:
            raise self._file.failure(error) from error

    def members(self) -> int:
        return 0

    def read(self, partition: int, start: int, end: int) -> Iterator[Sequence[LogRecord]]:
        try:
            while start < end:
                limit = min(end - start, _PIECE_ROWS)
                records = read_records(self._connection, partition, start, limit)
                if not records:
                    return
                yield records
                start = records[-1].offset + 1
        except FAILURES as error:
            raise self._file.failure(error) from error

    def close(self) -> None:
        self._connection.close()

    def _span(self, partition: int, claim: Claim | None, end: int) -> Span:
        stored = None if claim is None else claim.watermark.next_offset
        position = starting_position(self._connection, partition, stored)
        held = read_records(self._connection, partition, 0, 1)
        first = held[0].offset if held else end
        return Span(first, position.next_offset, position.end_offset)


def _rows(file: File, connection: sqlite3.Connection, query: str) -> list[tuple[Any, ...]]:
    try:
        return connection.execute(query).fetchall()
    except FAILURES as error:
        raise file.failure(error) from error
