"""``TransferStore`` on Cassandra: definitions by shard, outcomes by ranges of the token ring.

Notes and the number of partitions are lightweight transactions, as all of ``schedule_meta``.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from hourhand.actors.model.task.definition import Definition, DefinitionKind
from hourhand.scheduler.adapters.cassandra.definitions import (
    DEFINITION_COLUMNS,
    DEFINITION_PLACE,
    SHARDS,
    definition_of,
)
from hourhand.scheduler.adapters.cassandra.ownership import (
    OUTCOME_COLUMNS,
    PARTITION_COUNT,
    outcome_of,
)
from hourhand.scheduler.adapters.cassandra.session import CassandraSession
from hourhand.scheduler.adapters.cassandra.stores import connect
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.ports.transfer import UNFINISHED, OutcomeRow

_NOTE = "transfer"
_TABLES = (
    "task_schedule",
    "task_status",
    "completion_segment",
    "attempt_history",
    "definition",
    "command_outcome",
    "partition_watermark",
)
_TOKEN_MIN, _TOKENS = -(2**63), 2**64
"""Bounds of Murmur3Partitioner, Cassandra's default; no row has the lowest token."""


def open_transfer(settings: Settings) -> "CassandraTransfer":
    """Connect and check the schema; raises StoreUnavailable and SchemaMissing."""
    session = connect(settings.cassandra)
    try:
        return CassandraTransfer(session)
    except BaseException:
        session.close()
        raise


class CassandraTransfer:
    """One keyspace; used from one thread."""

    def __init__(self, session: CassandraSession) -> None:
        self._session = session
        self._read = session.prepare(
            "SELECT value FROM {keyspace}.schedule_meta WHERE name = ?", serial=True
        )
        self._insert = session.prepare(
            "INSERT INTO {keyspace}.schedule_meta (name, value) VALUES (?, ?) IF NOT EXISTS"
        )
        self._update = session.prepare(
            "UPDATE {keyspace}.schedule_meta SET value = ? WHERE name = ? IF EXISTS"
        )
        self._delete = session.prepare(
            "DELETE FROM {keyspace}.schedule_meta WHERE name = ? IF EXISTS"
        )
        self._definitions = session.prepare(
            f"SELECT {DEFINITION_COLUMNS} FROM {{keyspace}}.definition WHERE {DEFINITION_PLACE}"
        )
        self._outcomes = session.prepare(
            f"SELECT partition_id, log_offset, {OUTCOME_COLUMNS} FROM {{keyspace}}.command_outcome"
            " WHERE token(partition_id, log_offset) > ? AND token(partition_id, log_offset) <= ?"
        )

    def is_empty(self) -> bool:
        asked = [
            self._session.prepare(f"SELECT partition_id FROM {{keyspace}}.{table} LIMIT 1").bind(())
            for table in _TABLES
        ]
        return not any(self._session.execute_all(asked))

    def read_note(self) -> str | None:
        return self._value(_NOTE)

    def write_note(self, note: str) -> bool:
        self._session.execute(self._insert.bind((PARTITION_COUNT, str(UNFINISHED))))
        if self._value(PARTITION_COUNT) != str(UNFINISHED):
            return False
        self._session.execute(self._insert.bind((_NOTE, note)))
        self._session.execute(self._update.bind((note, _NOTE)))
        return True

    def finish(self, partition_count: int | None) -> None:
        if partition_count is None:
            self._session.execute(self._delete.bind((_NOTE,)))
            self._session.execute(self._delete.bind((PARTITION_COUNT,)))
            return
        self._session.execute(self._update.bind((str(partition_count), PARTITION_COUNT)))
        self._session.execute(self._delete.bind((_NOTE,)))

    def scan_definitions(self, partition: int) -> Iterator[Sequence[Definition]]:
        places = [(kind, shard) for kind in DefinitionKind for shard in range(SHARDS)]
        reads = (self._definitions.bind((partition, kind.value, shard)) for kind, shard in places)
        for position, rows in self._session.stream(reads):
            yield [definition_of(places[position][0], row) for row in rows]

    def scan_outcomes(self, share: int, shares: int) -> Iterator[Sequence[OutcomeRow]]:
        first, last = (
            min(_TOKEN_MIN + each * _TOKENS // shares, 2**63 - 1) for each in (share, share + 1)
        )
        for _, rows in self._session.stream([self._outcomes.bind((first, last))]):
            yield [OutcomeRow(row[0], row[1], outcome_of(row[2:])) for row in rows]

    def close(self) -> None:
        self._session.close()

    def _value(self, name: str) -> str | None:
        rows: list[tuple[Any, ...]] = self._session.execute(self._read.bind((name,)))
        return str(rows[0][0]) if rows else None
