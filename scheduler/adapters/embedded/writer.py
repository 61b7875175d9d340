"""``LogWriter`` on the folder's log file; beside a running node, from any process.

Appends that arrive during a transaction share the next one. It does not know the node; it only
rings the bell.
"""

import sqlite3
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from hourhand.actors.model.task.codec import Headers, LogRecord
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.errors import HourhandError, TaskTooLarge
from hourhand.actors.ports.log import AppendListener, Position
from hourhand.scheduler.adapters.embedded.database import GROUP_ROWS_MAX, Database
from hourhand.scheduler.adapters.embedded.folder import log_file, ring
from hourhand.scheduler.adapters.embedded.pair import check_pair
from hourhand.scheduler.adapters.embedded.records import (
    agree_partition_count,
    insert_records,
    now_ms,
    packed_headers,
)
from hourhand.scheduler.adapters.embedded.seal import sealed
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.ports.dead_letters import letter_headers
from hourhand.scheduler.runtime.batcher import Batcher
from hourhand.scheduler.runtime.light_future import failed, then

_CLOSE_TIMEOUT_S = 30.0
_Appended = tuple[int, bytes, bytes, bytes | None]


class EmbeddedGroup:
    """Records of one thread, which share transactions as all do; each record creates only its
    row.
    """

    def __init__(
        self, appends: Batcher[_Appended, Position], partition_count: int, record_bytes_max: int
    ) -> None:
        self._appends = appends
        self._partition_count = partition_count
        self._record_bytes_max = record_bytes_max
        self._appended = 0
        self._answered = 0
        self._failures: dict[int, BaseException] = {}
        self._awaited = -1
        """Number of answers after which the waiting thread continues."""
        self._settled = threading.Event()

    def append(self, ordering_id: str, value: bytes) -> None:
        key = ordering_id.encode()
        if len(key) + len(value) > self._record_bytes_max:
            raise _too_large(key, value, self._record_bytes_max)
        self._appended += 1
        partition = partition_of(ordering_id, self._partition_count)
        self._appends.ask_for((partition, key, value, None), self)

    def settle(self) -> Mapping[int, HourhandError]:
        """Wait for every record; errors other than HourhandError are raised."""
        # The second of the two threads sees the first one's value, whichever it is.
        self._awaited = self._appended
        if self._answered < self._appended:
            self._settled.wait()
        failures: dict[int, HourhandError] = {}
        for number, error in self._failures.items():
            if not isinstance(error, HourhandError):
                raise error
            failures[number] = error
        return failures

    def set_result(self, _position: Position) -> None:
        """Count a record; called in the order of the records, by one thread at a time."""
        self._answered += 1
        if self._answered == self._awaited:
            self._settled.set()

    def set_exception(self, exception: BaseException) -> None:
        """Keep the error of a record, and count it."""
        self._failures[self._answered] = exception
        self._answered += 1
        if self._answered == self._awaited:
            self._settled.set()


class EmbeddedWriter:
    """Appends to the log of ``settings.embedded.folder``.

    A future resolves once the record is on the disk. Raises LogUnavailable if the folder cannot be
    used, FolderDamaged if its content is not what was written, SchemaMissing if a newer version of
    Hourhand wrote it.
    """

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.embedded.folder
        self._topic = settings.topic.name
        self._record_bytes_max = settings.client.record_bytes_max
        check_pair(settings)
        self._database = Database(log_file(self._folder))
        self._appends = Batcher(self._write, GROUP_ROWS_MAX)
        agreeing = self._database.write(
            partial(agree_partition_count, wanted=settings.topic.partitions)
        )
        try:
            self._partition_count = agreeing.result()
        except BaseException:
            self._database.close()
            raise

    def partition_count(self) -> int:
        """Return the log's number of partitions."""
        return self._partition_count

    def append(
        self, partition: int, key: bytes, value: bytes, headers: Headers = ()
    ) -> "Future[Position]":
        """Append a record; the future fails with TaskTooLarge above ``record_bytes_max``."""
        if not 0 <= partition < self._partition_count:
            raise ValueError(f"partition {partition} is not one of {self._partition_count}")
        if len(key) + len(value) > self._record_bytes_max:
            return failed(_too_large(key, value, self._record_bytes_max))
        return self._appends.ask((partition, key, value, packed_headers(headers)))

    def append_for(
        self, appended: AppendListener, partition: int, key: bytes, value: bytes
    ) -> None:
        """Append a record without headers, and call ``appended`` with the result."""
        if len(key) + len(value) > self._record_bytes_max:
            appended.set_exception(_too_large(key, value, self._record_bytes_max))
        else:
            self._appends.ask_for((partition, key, value, None), appended)

    def begin_group(self) -> EmbeddedGroup:
        """Return a group; its records share transactions as all do."""
        return EmbeddedGroup(self._appends, self._partition_count, self._record_bytes_max)

    def dead_letter(self, record: LogRecord, reason: str) -> "Future[Position]":
        """Store the record, the reason and its original place in a table of their own."""
        noted = [*record.headers, *letter_headers(self._topic, record, reason)]
        row = (record.key, record.value, packed_headers(noted))
        return self._database.write(partial(_insert_dead_letter, row=row))

    def flush(self, timeout_ms: int) -> int:
        self._database.flush(timeout_ms / 1000)
        return self._appends.unanswered

    def close(self) -> None:
        """Write appended records, within a bounded time, and close the file."""
        # Records that wait for the current transaction are requested only after its end.
        self._database.flush(_CLOSE_TIMEOUT_S)
        self._database.close()

    def _write(self, rows: Sequence[_Appended]) -> "Future[Sequence[Position]]":
        """Write rows in one transaction."""
        written = self._database.write(partial(insert_records, appended=rows), rows=GROUP_ROWS_MAX)

        def positions(offsets: Sequence[int]) -> list[Position]:
            ring(self._folder)
            return [Position(row[0], offset) for row, offset in zip(rows, offsets, strict=True)]

        return then(written, positions)


def _too_large(key: bytes, value: bytes, record_bytes_max: int) -> TaskTooLarge:
    return TaskTooLarge(
        f"the record has {len(key) + len(value)} bytes, client.record_bytes_max allows"
        f" {record_bytes_max}; keep large data elsewhere and schedule a reference to it"
    )


def _insert_dead_letter(
    connection: sqlite3.Connection, row: tuple[bytes | None, bytes | None, bytes | None]
) -> Position:
    timed = (now_ms(connection), *row)
    cursor = connection.execute(
        "INSERT INTO dead_letter (timestamp_ms, key, value, headers) VALUES (?, ?, ?, ?)", timed
    )
    number = cursor.lastrowid
    assert number is not None
    checksum = sealed((number, *timed))[-1]
    connection.execute("INSERT INTO letter_checksum VALUES (?, ?)", (number, checksum))
    return Position(0, number)
