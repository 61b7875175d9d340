"""``OversightStore`` and ``TallyStore`` on Cassandra.

The operator config is one row under lightweight transactions. It is checked often, so a check
reads its version only, at the ordinary consistency, which sees every answered change.
"""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from cassandra.query import BatchStatement, BatchType

from hourhand.actors.model.operations.operator_config import (
    OperatorConfig,
    decode_config,
    encode_config,
)
from hourhand.actors.model.operations.oversight import (
    AuditEntry,
    AuditPage,
    AuditPlace,
    NodeReport,
    all_read_segments,
    decode_reports,
    encode_report,
)
from hourhand.actors.model.operations.tally import HourTally, decode_tally, encode_tally
from hourhand.actors.ports.oversight import REPORT_KEPT_MS, PartitionTally
from hourhand.scheduler.adapters.cassandra.session import CassandraSession

_SHARD = 0
_NAME = "pauses"
_PERIOD_MS = 30 * 86_400_000
_PERIODS_MAX = 16
"""Most periods that are read for one page; an empty one costs a read."""
_TTL_S_MAX = 20 * 365 * 86_400
_BATCH_ROWS_MAX = 200
"""A body is at most a few hundred bytes."""
_FETCH_ROWS = 2_000
"""Rows of one answer: enough for a month of hours."""


class CassandraOversightStore:
    """Reports, pauses, audit log; see ``hourhand.actors.ports.oversight`` for the contract."""

    def __init__(self, session: CassandraSession) -> None:
        self._session = session
        self._save_report = session.prepare(
            "INSERT INTO {keyspace}.node_report (shard, node, reported, body)"
            " VALUES (?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?"
        )
        self._read_reports = session.prepare(
            "SELECT node, WRITETIME(body), toUnixTimestamp(reported), body"
            " FROM {keyspace}.node_report WHERE shard = ?"
        )
        self._read_bodies = session.prepare(
            "SELECT body FROM {keyspace}.node_report WHERE shard = ?"
        )
        self._version = session.prepare("SELECT version FROM {keyspace}.pause_sheet WHERE name = ?")
        self._config = session.prepare(
            "SELECT body FROM {keyspace}.pause_sheet WHERE name = ?", serial=True
        )
        self._first_config = session.prepare(
            "INSERT INTO {keyspace}.pause_sheet (name, version, body) VALUES (?, ?, ?)"
            " IF NOT EXISTS"
        )
        self._next_config = session.prepare(
            "UPDATE {keyspace}.pause_sheet SET version = ?, body = ? WHERE name = ? IF version = ?"
        )
        self._append = session.prepare(
            "INSERT INTO {keyspace}.audit_log (period, at, id, who, action, target, detail,"
            " result) VALUES (?, ?, ?, ?, ?, ?, ?, ?) USING TTL ?"
        )
        self._page = session.prepare(
            "SELECT toUnixTimestamp(at), id, who, action, target, detail, result"
            " FROM {keyspace}.audit_log WHERE period = ? AND (at, id) < (?, ?) LIMIT ?"
        )
        self._periods = session.prepare("SELECT DISTINCT period FROM {keyspace}.audit_log").bind(())

    def save_report(self, report: NodeReport) -> "Future[None]":
        """Replace the node's report; it expires by a TTL."""
        values = (_SHARD, report.node, report.reported_ms, encode_report(report))
        ttl_s = REPORT_KEPT_MS // 1000
        return self._session.write([self._save_report.bind((*values, report.report_number, ttl_s))])

    def read_reports(self) -> "Future[tuple[NodeReport, ...]]":
        def work() -> tuple[NodeReport, ...]:
            return decode_reports(self._session.execute(self._read_reports.bind((_SHARD,))))

        return self._session.submit(work)

    def all_read_segments(self) -> "Future[bool]":
        """Return True if every node that reported, and at least one, can read completion
        segments.
        """

        def work() -> bool:
            rows = self._session.execute(self._read_bodies.bind((_SHARD,)))
            return all_read_segments(row[0] for row in rows)

        return self._session.submit(work)

    def read_config(self, known: OperatorConfig) -> "Future[OperatorConfig]":
        """Read the version, and the operator config if it has changed."""

        def work() -> OperatorConfig:
            rows = self._session.execute(self._version.bind((_NAME,)))
            if (rows[0][0] if rows else 0) == known.version:
                return known
            return self._stored()

        return self._session.submit(work)

    def replace_config(self, config: OperatorConfig) -> "Future[bool]":
        """Replace the operator config by its successor.

        If the answer is lost and the statement repeated, the stored config shows the result.
        """

        def work() -> bool:
            body = encode_config(config)
            if config.version == 1:
                change = self._first_config.bind((_NAME, 1, body))
            else:
                change = self._next_config.bind((config.version, body, _NAME, config.version - 1))
            if self._session.execute(change)[0][0]:
                return True
            return self._stored() == config

        return self._session.submit(work)

    def append_audit(self, entry: AuditEntry, kept_ms: int) -> "Future[None]":
        """Write an entry; only its writer writes to its place, so one clock orders the versions."""
        period = entry.at_ms // _PERIOD_MS
        values = (entry.who, entry.action, entry.target, entry.detail, entry.result)
        ttl_s = min(-(-kept_ms // 1000), _TTL_S_MAX)
        bound = self._append.bind((period, entry.at_ms, entry.id, *values, ttl_s))
        return self._session.write([bound])

    def page_audit(self, before: AuditPlace | None, limit: int) -> "Future[AuditPage]":
        """Read back through the periods, from that of ``before`` or of the latest entry."""

        def work() -> AuditPage:
            place = before or self._end()
            period = place.at_ms // _PERIOD_MS
            last = max(0, period - _PERIODS_MAX)
            found: list[AuditEntry] = []
            while period >= last and len(found) <= limit:
                left = limit + 1 - len(found)
                read = self._page.bind((period, place.at_ms, place.id, left))
                found += [AuditEntry(*row) for row in self._session.execute(read)]
                period -= 1
            page = tuple(found[:limit])
            return AuditPage(page, page[-1].place if len(found) > limit else None)

        return self._session.submit(work)

    def _end(self) -> AuditPlace:
        """Return a place behind all entries, without reading a clock: there are few periods."""
        rows = self._session.execute(self._periods)
        newest = max((row[0] for row in rows), default=0)
        return AuditPlace((newest + 1) * _PERIOD_MS - 1, "\U0010ffff")

    def _stored(self) -> OperatorConfig:
        rows = self._session.execute(self._config.bind((_NAME,)))
        return decode_config(rows[0][0]) if rows else OperatorConfig()


class CassandraTallyStore:
    """The table ``hour_tally``; see ``hourhand.actors.ports.oversight`` for the contract.

    The hours of one save are one batch in one Cassandra partition, cut by size; the offset is in
    the last piece, so counts that are lost between two pieces are counted again and never left out.
    """

    def __init__(self, session: CassandraSession) -> None:
        self._session = session
        table = "{keyspace}.hour_tally"
        self._load = session.prepare(
            f"SELECT toUnixTimestamp(hour), body, counted_offset FROM {table}"
            " WHERE partition_id = ? AND hour >= ? AND hour < ?"
        )
        self._load.fetch_size = _FETCH_ROWS
        self._offset = session.prepare(
            f"SELECT counted_offset FROM {table} WHERE partition_id = ? LIMIT 1"
        )
        self._insert = session.prepare(
            f"INSERT INTO {table} (partition_id, hour, body) VALUES (?, ?, ?) USING TIMESTAMP ?"
        )
        self._note_offset = session.prepare(
            f"INSERT INTO {table} (partition_id, counted_offset) VALUES (?, ?) USING TIMESTAMP ?"
        )
        self._delete = session.prepare(
            f"DELETE FROM {table} USING TIMESTAMP ? WHERE partition_id = ? AND hour < ?"
        )

    def load(
        self, partition: int, first_hour_ms: int, end_hour_ms: int
    ) -> "Future[PartitionTally]":
        def work() -> PartitionTally:
            rows = self._session.execute(self._load.bind((partition, first_hour_ms, end_hour_ms)))
            # Each row also has the offset; if none of these hours exists it is read separately.
            last = rows or self._session.execute(self._offset.bind((partition,)))
            offset = last[-1][-1] if last else None
            return PartitionTally(offset or 0, {hour: decode_tally(body) for hour, body, _ in rows})

        return self._session.submit(work)

    def save(
        self,
        partition: int,
        hours: Mapping[int, HourTally],
        counted_offset: int,
        write_time: int,
    ) -> "Future[None]":
        """Replace the counts of some hours, then the offset."""
        rows = [
            (partition, hour_ms, encode_tally(tally), write_time)
            for hour_ms, tally in sorted(hours.items())
        ]

        def work() -> None:
            pieces = [
                rows[at : at + _BATCH_ROWS_MAX] for at in range(0, len(rows), _BATCH_ROWS_MAX)
            ]
            batches = [self._batch(piece) for piece in pieces or [[]]]
            batches[-1].add(self._note_offset, (partition, counted_offset, write_time))
            for batch in batches:
                self._session.execute(batch)

        return self._session.submit(work)

    def forget(self, partition: int, before_hour_ms: int, write_time: int) -> "Future[None]":
        """Remove the counts of old hours, by one range tombstone."""
        return self._session.write([self._delete.bind((write_time, partition, before_hour_ms))])

    def _batch(self, rows: list[tuple[Any, ...]]) -> Any:
        batch = BatchStatement(batch_type=BatchType.UNLOGGED)
        for row in rows:
            batch.add(self._insert, row)
        batch.is_idempotent = True
        return batch
