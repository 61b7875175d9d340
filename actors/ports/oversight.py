"""The operators' stores: reports of nodes, pauses, the audit log, counts.

The contract of ``hourhand.actors.ports.store`` holds here too: every method returns at once with a
future, and one that resolves means durable (a write) or complete (a read); one that fails with
StoreUnavailable leaves open whether the write happened. Only the pauses influence which tasks run.
"""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Protocol

import msgspec

from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.oversight import AuditEntry, AuditPage, AuditPlace, NodeReport
from hourhand.actors.model.operations.tally import HourTally

REPORT_KEPT_MS = 600_000
"""Time for which a node without further reports is listed."""


class OversightStore(Protocol):
    """Rows of ``node_report``, ``pause_sheet`` and ``audit_log``."""

    def save_report(self, report: NodeReport) -> "Future[None]":
        """Replace the node's report if it has a lower number; delete those of nodes that were
        silent for long.
        """

    def read_reports(self) -> "Future[tuple[NodeReport, ...]]":
        """Read the report of every node that reported within ``REPORT_KEPT_MS``, and maybe of
        others.
        """

    def read_config(self, known: OperatorConfig) -> "Future[OperatorConfig]":
        """Read the operator config; return ``known`` itself if it is unchanged."""

    def replace_config(self, config: OperatorConfig) -> "Future[bool]":
        """Replace the operator config if the stored version is one less; return True if it was.

        Compare-and-set: if two writers know the same config one wins.
        """

    def append_audit(self, entry: AuditEntry, kept_ms: int) -> "Future[None]":
        """Write an entry, in place of one at its place; it is kept for at least ``kept_ms``."""

    def page_audit(self, before: AuditPlace | None, limit: int) -> "Future[AuditPage]":
        """Read up to ``limit`` entries before a place, newest first.

        A page may be short, or even empty, while there are more.
        """


class PartitionTally(msgspec.Struct, frozen=True):
    """The counts of one partition."""

    counted_offset: int
    """Every record below this is counted."""
    hours: Mapping[int, HourTally]


class TallyStore(Protocol):
    """Rows of ``hour_tally``: counts by partition and hour, written by the partition's owner."""

    def load(
        self, partition: int, first_hour_ms: int, end_hour_ms: int
    ) -> "Future[PartitionTally]":
        """Read the counts of hours in [first, end), and the offset up to which the log is
        counted.
        """

    def save(
        self,
        partition: int,
        hours: Mapping[int, HourTally],
        counted_offset: int,
        write_time: int,
    ) -> "Future[None]":
        """Replace the counts of these hours and the offset that were stored below a write time.

        Very many hours may be written in several pieces, the offset with the last.
        """

    def forget(self, partition: int, before_hour_ms: int, write_time: int) -> "Future[None]":
        """Remove the counts of hours before one, up to a write time."""
