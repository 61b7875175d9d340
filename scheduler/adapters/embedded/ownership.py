"""``OwnershipStore`` on the store file.

Compare-and-set is a plain transaction here: the file has one writer at a time.
"""

import sqlite3
from concurrent.futures import Future
from uuid import uuid4

import msgspec

from hourhand.actors.model.operations.ownership import (
    Claim,
    Straggler,
    Watermark,
    initial_watermark,
)
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CommandOutcome, RecordedOutcome
from hourhand.actors.model.values.errors import OwnershipLost
from hourhand.scheduler.adapters.embedded.database import Database
from hourhand.scheduler.adapters.embedded.rows import Table, read_rows
from hourhand.scheduler.adapters.embedded.seal import Row, opened, sealed
from hourhand.scheduler.runtime.answers import answered

PARTITION_COUNT = "partition_count"
_INSTALLATION_ID = "installation_id"
_TOPIC_ID = "topic_id:"
"""Keys beside the rows they belong to: earlier versions would refuse a table of another shape. The
log of a folder has none, so they are of logs on servers."""
_THINNED_UNTIL = "thinned_until_ms:"
"""Keys beside the rows, as above."""
OUTCOME = Table(
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
        "moved_data",
    ),
)
_COLUMNS = """partition, epoch, watermark_ms, loaded_until_ms, next_offset, stragglers,
    tasks_swept_until_ms, statuses_swept_until_ms, statuses_due_until_ms, statuses_due_at_ms,
    write_time, checksum"""

_stragglers_decoder = msgspec.msgpack.Decoder(list[tuple[str, int]])


class EmbeddedOwnership:
    """Rows of ``partition_watermark``, ``command_outcome`` and ``schedule_meta``."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._upsert_outcome = OUTCOME.upsert

    def claim(self, partition: int, initial_watermark_ms: int) -> "Future[Claim]":
        def work(connection: sqlite3.Connection) -> Claim:
            found = read_claim(connection, partition)
            if found is None:
                claim = Claim(1, initial_watermark(initial_watermark_ms))
            else:
                claim = Claim(found.epoch + 1, found.watermark)
            replace_claim(connection, partition, claim)
            return claim

        return self._database.write(work)

    def save_watermark(self, partition: int, epoch: int, watermark: Watermark) -> "Future[None]":
        """Replace the row, unless a later save is there; OwnershipLost by a newer epoch."""

        def work(connection: sqlite3.Connection) -> None:
            found = read_claim(connection, partition)
            if found is None or found.epoch != epoch:
                raise OwnershipLost(partition, epoch)
            if found.watermark.write_time <= watermark.write_time:
                replace_claim(connection, partition, Claim(epoch, watermark))

        return self._database.write(work)

    def read_watermark(self, partition: int) -> "Future[Claim | None]":
        return self._database.read(lambda connection: read_claim(connection, partition))

    def find_watermark(self, partition: int) -> "Future[Claim | None]":
        """As ``read_watermark``."""
        return self.read_watermark(partition)

    def insert_outcome(
        self, partition: int, offset: int, outcome: RecordedOutcome, write_time: int
    ) -> "Future[None]":
        new_key = outcome.new_key or (None, None, None)
        row = (
            partition,
            offset,
            outcome.outcome.value,
            *outcome.key,
            *new_key,
            outcome.moved_data,
            write_time,
        )

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(self._upsert_outcome, sealed(row))

        return self._database.write(work)

    def find_outcome(self, partition: int, offset: int) -> "Future[RecordedOutcome | None]":
        def work(connection: sqlite3.Connection) -> RecordedOutcome | None:
            rows = read_rows(
                connection,
                f"SELECT {OUTCOME.selected} FROM command_outcome"
                " WHERE partition = ? AND record_offset = ?",
                (partition, offset),
            )
            return outcome_of(rows[0][1:]) if rows else None

        return self._database.read(work)

    def installation_id(self) -> str:
        """Return the id of this folder's store, which the first caller creates."""

        def work(connection: sqlite3.Connection) -> str:
            connection.execute(
                "INSERT OR IGNORE INTO schedule_meta VALUES (?, ?)", (_INSTALLATION_ID, uuid4().hex)
            )
            (stored,) = connection.execute(
                "SELECT value FROM schedule_meta WHERE name = ?", (_INSTALLATION_ID,)
            ).fetchone()
            return str(stored)

        return answered(self._database.write(work))

    def agree_partition_count(self, count: int) -> "Future[int]":
        def stored(connection: sqlite3.Connection) -> int:
            row = connection.execute(
                "SELECT value FROM schedule_meta WHERE name = ?", (PARTITION_COUNT,)
            ).fetchone()
            return 0 if row is None else int(row[0])

        def work(connection: sqlite3.Connection) -> int:
            connection.execute(
                "INSERT OR IGNORE INTO schedule_meta VALUES (?, ?)", (PARTITION_COUNT, count)
            )
            return stored(connection)

        return self._database.write(work) if count else self._database.read(stored)


def read_claim(connection: sqlite3.Connection, partition: int) -> Claim | None:
    """Return a partition's row; None if it never had an owner."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM partition_watermark WHERE partition = ?", (partition,)
    ).fetchone()
    if row is None:
        return None
    _, *row = opened(row)
    topic_id = _read_beside(connection, _TOPIC_ID, partition)
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
            topic_id="" if topic_id is None else str(topic_id),
            thinned_until_ms=int(_read_beside(connection, _THINNED_UNTIL, partition) or 0),
        ),
    )


def replace_claim(connection: sqlite3.Connection, partition: int, claim: Claim) -> None:
    """Write a partition's row unconditionally; the caller has compared."""
    connection.execute(
        f"INSERT OR REPLACE INTO partition_watermark ({_COLUMNS})"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        sealed((partition, claim.epoch, *_columns(claim.watermark))),
    )
    _write_beside(connection, _TOPIC_ID, partition, claim.watermark.topic_id)
    _write_beside(connection, _THINNED_UNTIL, partition, claim.watermark.thinned_until_ms)


def _read_beside(connection: sqlite3.Connection, name: str, partition: int) -> str | int | None:
    row = connection.execute(
        "SELECT value FROM schedule_meta WHERE name = ?", (name + str(partition),)
    ).fetchone()
    return None if row is None else row[0]


def _write_beside(
    connection: sqlite3.Connection, name: str, partition: int, value: str | int
) -> None:
    name += str(partition)
    if value:
        connection.execute("INSERT OR REPLACE INTO schedule_meta VALUES (?, ?)", (name, value))
    else:
        connection.execute("DELETE FROM schedule_meta WHERE name = ?", (name,))


def outcome_of(row: Row) -> RecordedOutcome:
    """Return the columns of ``OUTCOME`` as an outcome."""
    new_key = None if row[4] is None else TaskKey(*row[4:7])
    return RecordedOutcome(CommandOutcome(row[0]), TaskKey(*row[1:4]), new_key, row[7])


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
