"""``OwnershipStore`` on the store file.

Compare-and-set needs no more than a transaction here: the file has one writer at a time.
"""

import sqlite3
from concurrent.futures import Future

import msgspec

from actors.model.errors import OwnershipLost
from actors.model.key import TaskKey
from actors.model.ownership import Claim, Straggler, Watermark, initial_watermark
from actors.model.status import CommandOutcome, RecordedOutcome
from scheduler.adapters.embedded.database import Database
from scheduler.adapters.embedded.rows import Row, Table

_PARTITION_COUNT = "partition_count"
_OUTCOME = Table(
    "command_outcome",
    ("partition", "record_offset"),
    (
        "outcome",
        "scheduled_ms",
        "ordering_id",
        "uniqueness_key",
        "new_scheduled_ms",
        "new_ordering_id",
        "new_uniqueness_key",
    ),
)
_COLUMNS = """watermark_ms, loaded_until_ms, next_offset, stragglers,
    tasks_swept_until_ms, statuses_swept_until_ms, statuses_due_until_ms, statuses_due_at_ms,
    write_time"""

_stragglers_decoder = msgspec.msgpack.Decoder(list[tuple[str, int]])


class EmbeddedOwnership:
    """Rows of ``partition_watermark``, ``command_outcome`` and ``schedule_meta``."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._upsert_outcome = _OUTCOME.upsert

    def claim(self, partition: int, initial_watermark_ms: int) -> "Future[Claim]":
        """Raise the owner epoch by one and return it with the row as it was."""

        def work(connection: sqlite3.Connection) -> Claim:
            found = _read(connection, partition)
            if found is None:
                first = Claim(1, initial_watermark(initial_watermark_ms))
                connection.execute(
                    f"INSERT INTO partition_watermark (partition, epoch, {_COLUMNS})"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (partition, first.epoch, *_columns(first.watermark)),
                )
                return first
            connection.execute(
                "UPDATE partition_watermark SET epoch = ? WHERE partition = ?",
                (found.epoch + 1, partition),
            )
            return Claim(found.epoch + 1, found.watermark)

        return self._database.write(work)

    def save_watermark(self, partition: int, epoch: int, watermark: Watermark) -> "Future[None]":
        """Replace the row, unless a later save stands there; OwnershipLost by a newer epoch."""

        def work(connection: sqlite3.Connection) -> None:
            found = _read(connection, partition)
            if found is None or found.epoch != epoch:
                raise OwnershipLost(partition, epoch)
            connection.execute(
                f"UPDATE partition_watermark SET ({_COLUMNS}) = (?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " WHERE partition = ? AND write_time <= ?",
                (*_columns(watermark), partition, watermark.write_time),
            )

        return self._database.write(work)

    def read_watermark(self, partition: int) -> "Future[Claim | None]":
        """Read the row without changing it."""
        return self._database.read(lambda connection: _read(connection, partition))

    def insert_outcome(
        self, partition: int, offset: int, outcome: RecordedOutcome, write_time: int
    ) -> "Future[None]":
        """Record what the command at ``offset`` achieved."""
        new_key = outcome.new_key or (None, None, None)
        row = (partition, offset, outcome.outcome.value, *outcome.key, *new_key, write_time)

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(self._upsert_outcome, row)

        return self._database.write(work)

    def find_outcome(self, partition: int, offset: int) -> "Future[RecordedOutcome | None]":
        """Read what the command at ``offset`` achieved."""

        def work(connection: sqlite3.Connection) -> RecordedOutcome | None:
            row: Row | None = connection.execute(
                f"SELECT {_OUTCOME.selected} FROM command_outcome"
                " WHERE partition = ? AND record_offset = ?",
                (partition, offset),
            ).fetchone()
            if row is None:
                return None
            new_key = None if row[5] is None else TaskKey(*row[5:8])
            return RecordedOutcome(CommandOutcome(row[1]), TaskKey(*row[2:5]), new_key)

        return self._database.read(work)

    def agree_partition_count(self, count: int) -> "Future[int]":
        """Store ``count`` where none is stored yet; return what is stored."""

        def work(connection: sqlite3.Connection) -> int:
            connection.execute(
                "INSERT OR IGNORE INTO schedule_meta VALUES (?, ?)", (_PARTITION_COUNT, count)
            )
            (stored,) = connection.execute(
                "SELECT value FROM schedule_meta WHERE name = ?", (_PARTITION_COUNT,)
            ).fetchone()
            return int(stored)

        return self._database.write(work)


def _read(connection: sqlite3.Connection, partition: int) -> Claim | None:
    row = connection.execute(
        f"SELECT epoch, {_COLUMNS} FROM partition_watermark WHERE partition = ?", (partition,)
    ).fetchone()
    if row is None:
        return None
    return Claim(
        row[0],
        Watermark(
            watermark_ms=row[1],
            loaded_until_ms=row[2],
            next_offset=row[3],
            stragglers=tuple(Straggler(*each) for each in _stragglers_decoder.decode(row[4])),
            tasks_swept_until_ms=row[5],
            statuses_swept_until_ms=row[6],
            statuses_due_until_ms=row[7],
            statuses_due_at_ms=row[8],
            write_time=row[9],
        ),
    )


def _columns(watermark: Watermark) -> Row:
    stragglers = [(each.ordering_id, each.first_ms) for each in watermark.stragglers]
    return (
        watermark.watermark_ms,
        watermark.loaded_until_ms,
        watermark.next_offset,
        msgspec.msgpack.encode(stragglers),
        watermark.tasks_swept_until_ms,
        watermark.statuses_swept_until_ms,
        watermark.statuses_due_until_ms,
        watermark.statuses_due_at_ms,
        watermark.write_time,
    )
