"""``OversightStore`` and ``TallyStore`` on the store file."""

import sqlite3
from collections.abc import Mapping
from concurrent.futures import Future

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
    decode_reports,
    encode_report,
)
from hourhand.actors.model.operations.tally import HourTally, decode_tally, encode_tally
from hourhand.actors.ports.oversight import REPORT_KEPT_MS, PartitionTally
from hourhand.scheduler.adapters.embedded.database import Database
from hourhand.scheduler.adapters.embedded.rows import Table
from hourhand.scheduler.adapters.embedded.seal import Row, opened, sealed

_REPORT = Table("node_report", ("node",), ("reported_ms", "body"))
_CONFIG = Table("pause_sheet", ("name",), ("body",))
_AUDIT = Table(
    "audit_log",
    ("at_ms", "id"),
    ("who", "action", "target", "detail", "result", "kept_until_ms"),
)
_MARKS = ", ".join("?" * 10)
_REPLACE_AUDIT = f"INSERT OR REPLACE INTO audit_log ({_AUDIT.selected}) VALUES ({_MARKS})"
_NAME = "pauses"
_LAST = AuditPlace(2**62, "")
_TALLY = Table("hour_tally", ("partition", "hour_ms"), ("body", "counted_offset"))
_MARK = -(2**62)
"""The key of a row before every hour."""


class EmbeddedOversight:
    """Rows of ``node_report``, ``pause_sheet`` and ``audit_log``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save_report(self, report: NodeReport) -> "Future[None]":
        row = sealed((report.node, report.reported_ms, encode_report(report), report.report_number))

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(_REPORT.upsert, row)
            connection.execute(
                "DELETE FROM node_report WHERE reported_ms < ?",
                (report.reported_ms - REPORT_KEPT_MS,),
            )

        return self._database.write(work)

    def read_reports(self) -> "Future[tuple[NodeReport, ...]]":
        def work(connection: sqlite3.Connection) -> tuple[NodeReport, ...]:
            rows = connection.execute(f"SELECT {_REPORT.selected} FROM node_report")
            found = (opened(row) for row in rows)
            return decode_reports(
                (node, report_number, at, body) for node, at, body, report_number in found
            )

        return self._database.read(work)

    def read_config(self, known: OperatorConfig) -> "Future[OperatorConfig]":
        return self._database.read(lambda connection: _config(connection, known))

    def replace_config(self, config: OperatorConfig) -> "Future[bool]":
        """Replace the operator config by its successor in one transaction."""
        row = sealed((_NAME, encode_config(config), config.version))

        def work(connection: sqlite3.Connection) -> bool:
            if _config(connection, OperatorConfig()).version != config.version - 1:
                return False
            connection.execute(_CONFIG.upsert, row)
            return True

        return self._database.write(work)

    def append_audit(self, entry: AuditEntry, kept_ms: int) -> "Future[None]":
        """Write or replace an entry, and delete those that were kept long enough."""
        row = sealed(
            (
                entry.at_ms,
                entry.id,
                entry.who,
                entry.action,
                entry.target,
                entry.detail,
                entry.result,
                entry.at_ms + kept_ms,
                0,
            )
        )

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(_REPLACE_AUDIT, row)
            connection.execute(
                "DELETE FROM audit_log WHERE at_ms < ? AND kept_until_ms < ?",
                (entry.at_ms - kept_ms, entry.at_ms),
            )

        return self._database.write(work)

    def page_audit(self, before: AuditPlace | None, limit: int) -> "Future[AuditPage]":
        place = before or _LAST
        query = (
            f"SELECT {_AUDIT.selected} FROM audit_log WHERE (at_ms, id) < (?, ?)"
            " ORDER BY at_ms DESC, id DESC LIMIT ?"
        )

        def work(connection: sqlite3.Connection) -> AuditPage:
            rows = connection.execute(query, (place.at_ms, place.id, limit + 1)).fetchall()
            page = tuple(AuditEntry(*opened(row)[:7]) for row in rows[:limit])
            return AuditPage(page, page[-1].place if len(rows) > limit else None)

        return self._database.read(work)


def _config(connection: sqlite3.Connection, known: OperatorConfig) -> OperatorConfig:
    query = f"SELECT {_CONFIG.selected} FROM pause_sheet WHERE name = ? AND write_time != ?"
    row = connection.execute(query, (_NAME, known.version)).fetchone()
    return known if row is None else decode_config(opened(row)[1])


class EmbeddedTallies:
    """Rows of ``hour_tally``.

    Each holds the offset that was counted when it was written; the row of hour ``_MARK`` is written
    every time, so it holds the latest.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(
        self, partition: int, first_hour_ms: int, end_hour_ms: int
    ) -> "Future[PartitionTally]":
        query = (
            f"SELECT {_TALLY.selected} FROM hour_tally WHERE partition = ?"
            " AND (hour_ms = ? OR (hour_ms >= ? AND hour_ms < ?)) ORDER BY hour_ms"
        )
        arguments = (partition, _MARK, first_hour_ms, end_hour_ms)

        def work(connection: sqlite3.Connection) -> PartitionTally:
            offset, hours = 0, {}
            for row in connection.execute(query, arguments):
                _, hour_ms, body, counted_offset, _ = opened(row)
                if hour_ms == _MARK:
                    offset = counted_offset
                else:
                    hours[hour_ms] = decode_tally(body)
            return PartitionTally(offset, hours)

        return self._database.read(work)

    def save(
        self,
        partition: int,
        hours: Mapping[int, HourTally],
        counted_offset: int,
        write_time: int,
    ) -> "Future[None]":
        bodies = {_MARK: b"", **{hour: encode_tally(tally) for hour, tally in hours.items()}}
        rows: list[Row] = [
            (partition, hour_ms, body, counted_offset, write_time)
            for hour_ms, body in bodies.items()
        ]

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(_TALLY.upsert, map(sealed, rows))

        return self._database.write(work, rows=len(rows))

    def forget(self, partition: int, before_hour_ms: int, write_time: int) -> "Future[None]":
        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "DELETE FROM hour_tally WHERE partition = ? AND hour_ms > ? AND hour_ms < ?"
                " AND write_time <= ?",
                (partition, _MARK, before_hour_ms, write_time),
            )

        return self._database.write(work)
