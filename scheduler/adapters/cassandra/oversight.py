"""``OversightStore`` on Cassandra.

The pause sheet is one row under lightweight transactions.  It is looked at often, so that look
reads its version alone, at the ordinary consistency: a change that was answered is seen by it.
"""

from concurrent.futures import Future

from actors.model.oversight import (
    AuditEntry,
    AuditPage,
    AuditPlace,
    NodeReport,
    decode_reports,
    encode_report,
)
from actors.model.pauses import PauseSheet, decode_sheet, encode_sheet
from actors.ports.oversight import REPORT_KEPT_MS
from scheduler.adapters.cassandra.session import CassandraSession

_SHARD = 0
_NAME = "pauses"
_PERIOD_MS = 30 * 86_400_000
_PERIODS_MAX = 16
"""Looked through for one page; an empty one costs a read."""
_TTL_S_MAX = 20 * 365 * 86_400


class CassandraOversightStore:
    """Reports, pauses, audit log; see ``actors.ports.oversight`` for the contract."""

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
        self._version = session.prepare("SELECT version FROM {keyspace}.pause_sheet WHERE name = ?")
        self._sheet = session.prepare(
            "SELECT body FROM {keyspace}.pause_sheet WHERE name = ?", serial=True
        )
        self._first_sheet = session.prepare(
            "INSERT INTO {keyspace}.pause_sheet (name, version, body) VALUES (?, ?, ?)"
            " IF NOT EXISTS"
        )
        self._next_sheet = session.prepare(
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
        """Replace the node's report; a TTL forgets it."""
        values = (_SHARD, report.node, report.reported_ms, encode_report(report))
        ttl_s = REPORT_KEPT_MS // 1000
        return self._session.write([self._save_report.bind((*values, report.beat, ttl_s))])

    def read_reports(self) -> "Future[tuple[NodeReport, ...]]":
        """Read all reports."""

        def work() -> tuple[NodeReport, ...]:
            return decode_reports(self._session.execute(self._read_reports.bind((_SHARD,))))

        return self._session.submit(work)

    def read_pauses(self, known: PauseSheet) -> "Future[PauseSheet]":
        """Read the version, and the sheet where it is another."""

        def work() -> PauseSheet:
            rows = self._session.execute(self._version.bind((_NAME,)))
            if (rows[0][0] if rows else 0) == known.version:
                return known
            return self._stored()

        return self._session.submit(work)

    def replace_pauses(self, sheet: PauseSheet) -> "Future[bool]":
        """Replace the sheet by its successor.

        The answer may be lost and the statement repeated: then the sheet that stands tells.
        """

        def work() -> bool:
            body = encode_sheet(sheet)
            if sheet.version == 1:
                change = self._first_sheet.bind((_NAME, 1, body))
            else:
                change = self._next_sheet.bind((sheet.version, body, _NAME, sheet.version - 1))
            if self._session.execute(change)[0][0]:
                return True
            return self._stored() == sheet

        return self._session.submit(work)

    def append_audit(self, entry: AuditEntry, kept_ms: int) -> "Future[None]":
        """Write an entry; its place is its writer's own, so one clock orders what stands there."""
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
        """Return a place behind all entries: no clock is asked, and there are few periods."""
        rows = self._session.execute(self._periods)
        newest = max((row[0] for row in rows), default=0)
        return AuditPlace((newest + 1) * _PERIOD_MS - 1, "\U0010ffff")

    def _stored(self) -> PauseSheet:
        rows = self._session.execute(self._sheet.bind((_NAME,)))
        return decode_sheet(rows[0][0]) if rows else PauseSheet()
