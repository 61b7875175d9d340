"""``OversightStore`` and ``TallyStore`` in memory: requests are served at once, so they never
interleave.
"""

from collections.abc import Mapping
from concurrent.futures import Future

from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.oversight import AuditEntry, AuditPage, AuditPlace, NodeReport
from hourhand.actors.model.operations.tally import HourTally, decode_tally, encode_tally
from hourhand.actors.ports.oversight import REPORT_KEPT_MS, PartitionTally
from hourhand.scheduler.adapters.memory.tables import MemoryTables, request


class MemoryOversight(MemoryTables):
    """Rows of ``node_report``, ``pause_sheet`` and ``audit_log``."""

    @request
    def save_report(self, report: NodeReport) -> None:
        reports = self._data.reports
        found = reports.get(report.node)
        if found is None or found.report_number < report.report_number:
            reports[report.node] = report
        oldest_ms = report.reported_ms - REPORT_KEPT_MS
        for node in [n for n, each in reports.items() if each.reported_ms < oldest_ms]:
            del reports[node]

    @request
    def read_reports(self) -> tuple[NodeReport, ...]:
        return tuple(self._data.reports.values())

    @request
    def read_config(self, known: OperatorConfig) -> OperatorConfig:
        stored = self._data.config
        return known if stored.version == known.version else stored

    @request
    def replace_config(self, config: OperatorConfig) -> bool:
        if self._data.config.version != config.version - 1:
            return False
        self._data.config = config
        return True

    @request
    def append_audit(self, entry: AuditEntry, kept_ms: int) -> None:
        """Write an entry; memory keeps all of them."""
        del kept_ms
        self._data.audit[entry.place] = entry

    @request
    def page_audit(self, before: AuditPlace | None, limit: int) -> AuditPage:
        places = sorted(self._data.audit, reverse=True)
        older = [each for each in places if before is None or each < before]
        page = tuple(self._data.audit[each] for each in older[:limit])
        return AuditPage(page, page[-1].place if len(older) > limit else None)


class MemoryTallies(MemoryTables):
    """Rows of ``hour_tally``, with names of their own for requests."""

    def load(
        self, partition: int, first_hour_ms: int, end_hour_ms: int
    ) -> "Future[PartitionTally]":
        def effect() -> PartitionTally:
            rows = self._data.tallies.get(partition, {})
            hours = {
                hour_ms: decode_tally(body)
                for hour_ms, (_, body) in sorted(rows.items())
                if first_hour_ms <= hour_ms < end_hour_ms
            }
            _, offset = self._data.counted_offsets.get(partition, (-1, 0))
            return PartitionTally(offset, hours)

        return self.ask("load_tallies", partition, effect)

    def save(
        self,
        partition: int,
        hours: Mapping[int, HourTally],
        counted_offset: int,
        write_time: int,
    ) -> "Future[None]":
        bodies = {hour_ms: encode_tally(tally) for hour_ms, tally in hours.items()}

        def effect() -> None:
            rows = self._data.tallies.setdefault(partition, {})
            for hour_ms, body in bodies.items():
                if rows.get(hour_ms, (-1, b""))[0] < write_time:
                    rows[hour_ms] = (write_time, body)
            if self._data.counted_offsets.get(partition, (-1, 0))[0] < write_time:
                self._data.counted_offsets[partition] = (write_time, counted_offset)

        return self.ask("save_tallies", partition, effect)

    def forget(self, partition: int, before_hour_ms: int, write_time: int) -> "Future[None]":
        def effect() -> None:
            rows = self._data.tallies.get(partition, {})
            for hour_ms, (written, _) in list(rows.items()):
                if hour_ms < before_hour_ms and written <= write_time:
                    del rows[hour_ms]

        return self.ask("forget_tallies", partition, effect)
