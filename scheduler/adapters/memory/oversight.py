"""``OversightStore`` and ``TallyStore`` in memory: requests are served at once, so they never
interleave.
"""

from collections.abc import Mapping
from concurrent.futures import Future

from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.oversight import AuditEntry, AuditPage, AuditPlace, NodeReport
from hourhand.actors.model.operations.tally import HourTally, decode_tally, encode_tally
from hourhand.actors.ports.oversight import REPORT_KEPT_MS, PartitionTally
from hourhand.scheduler.adapters.memory.tables import MemoryStores, View


class MemoryOversight:
    """Rows of ``node_report``, ``pause_sheet`` and ``audit_log``."""

    def __init__(self, data: MemoryStores, view: View) -> None:
        self._data = data
        self._ask = view.ask

    def save_report(self, report: NodeReport) -> "Future[None]":
        """Replace the node's report, and delete those of nodes that were silent for long."""

        def effect() -> None:
            reports = self._data.reports
            found = reports.get(report.node)
            if found is None or found.report_number < report.report_number:
                reports[report.node] = report
            oldest_ms = report.reported_ms - REPORT_KEPT_MS
            for node in [n for n, each in reports.items() if each.reported_ms < oldest_ms]:
                del reports[node]

        return self._ask("save_report", -1, effect)

    def read_reports(self) -> "Future[tuple[NodeReport, ...]]":
        """Read all reports."""
        return self._ask("read_reports", -1, lambda: tuple(self._data.reports.values()))

    def read_config(self, known: OperatorConfig) -> "Future[OperatorConfig]":
        """Read the operator config."""

        def effect() -> OperatorConfig:
            stored = self._data.config
            return known if stored.version == known.version else stored

        return self._ask("read_config", -1, effect)

    def replace_config(self, config: OperatorConfig) -> "Future[bool]":
        """Replace the operator config by its successor."""

        def effect() -> bool:
            if self._data.config.version != config.version - 1:
                return False
            self._data.config = config
            return True

        return self._ask("replace_config", -1, effect)

    def append_audit(self, entry: AuditEntry, kept_ms: int) -> "Future[None]":
        """Write an entry; memory keeps all of them."""
        del kept_ms

        def effect() -> None:
            self._data.audit[entry.place] = entry

        return self._ask("append_audit", -1, effect)

    def page_audit(self, before: AuditPlace | None, limit: int) -> "Future[AuditPage]":
        """Read a page, newest first."""

        def effect() -> AuditPage:
            places = sorted(self._data.audit, reverse=True)
            older = [each for each in places if before is None or each < before]
            page = tuple(self._data.audit[each] for each in older[:limit])
            return AuditPage(page, page[-1].place if len(older) > limit else None)

        return self._ask("page_audit", -1, effect)


class MemoryTallies:
    """Rows of ``hour_tally``."""

    def __init__(self, data: MemoryStores, view: View) -> None:
        self._data = data
        self._ask = view.ask

    def load(
        self, partition: int, first_hour_ms: int, end_hour_ms: int
    ) -> "Future[PartitionTally]":
        """Read the counts of some hours."""

        def effect() -> PartitionTally:
            rows = self._data.tallies.get(partition, {})
            hours = {
                hour_ms: decode_tally(body)
                for hour_ms, (_, body) in sorted(rows.items())
                if first_hour_ms <= hour_ms < end_hour_ms
            }
            _, offset = self._data.counted_offsets.get(partition, (-1, 0))
            return PartitionTally(offset, hours)

        return self._ask("load_tallies", partition, effect)

    def save(
        self,
        partition: int,
        hours: Mapping[int, HourTally],
        counted_offset: int,
        write_time: int,
    ) -> "Future[None]":
        """Replace the counts of some hours."""
        bodies = {hour_ms: encode_tally(tally) for hour_ms, tally in hours.items()}

        def effect() -> None:
            rows = self._data.tallies.setdefault(partition, {})
            for hour_ms, body in bodies.items():
                if rows.get(hour_ms, (-1, b""))[0] < write_time:
                    rows[hour_ms] = (write_time, body)
            if self._data.counted_offsets.get(partition, (-1, 0))[0] < write_time:
                self._data.counted_offsets[partition] = (write_time, counted_offset)

        return self._ask("save_tallies", partition, effect)

    def forget(self, partition: int, before_hour_ms: int, write_time: int) -> "Future[None]":
        """Remove the counts of old hours."""

        def effect() -> None:
            rows = self._data.tallies.get(partition, {})
            for hour_ms, (written, _) in list(rows.items()):
                if hour_ms < before_hour_ms and written <= write_time:
                    del rows[hour_ms]

        return self._ask("forget_tallies", partition, effect)
