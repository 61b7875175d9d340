"""One node's reports: what the latest says, how fast its counts grow, and how late its tasks began.

Decides nothing about which node is still there.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from actors.model.oversight import LATENESS_MS, NodeReport, PartitionReport
from scheduler.admin.answers import instant_text
from scheduler.admin.picture import ShownNode

BUCKETS = len(LATENESS_MS) + 1
RATE_MS = 10_000
"""Rates are of so long."""

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class ReportedNode:
    """One node's latest report, and those of the last seconds for rates."""

    report: NodeReport
    earlier: deque[NodeReport] = field(default_factory=deque)

    def shown(self, *, alive: bool) -> ShownNode:
        """Show the node."""
        report = self.report
        return ShownNode(
            node=report.node,
            state="alive" if alive else "silent",
            as_of=instant_text(report.reported_ms),
            started=instant_text(report.started_ms),
            version=report.version,
            address=report.address,
            lease_left_ms=report.lease_left_ms if alive else None,
            lease_by_lock=report.lease_by_lock,
            partitions=sorted(each.partition for each in report.partitions),
            executions_per_s=self._rate(lambda each: each.started) if alive else None,
            failures_per_s=self._rate(lambda each: each.failed) if alive else None,
            in_flight=report.running_count if alive else None,
            failing=report.failing_count if alive else None,
            blocked=report.blocked_count if alive else None,
            tree_failures=report.tree_failures,
            pauses_version=report.pauses_version,
        )

    def lateness(self) -> list[int]:
        """Return the lateness counts of the last seconds."""
        later = summed(each.lateness for each in self.report.partitions)
        earlier = summed(each.lateness for each in self.earlier[0].partitions)
        return difference(later, earlier)

    def _rate(self, count: Callable[[PartitionReport], int]) -> float | None:
        first = self.earlier[0]
        took_s = (self.report.reported_ms - first.reported_ms) / 1000
        if took_s <= 0:
            return None
        total = sum(map(count, self.report.partitions))
        before = sum(map(count, first.partitions))
        return round(max(0, total - before) / took_s, 2)


def with_reports(
    known: Mapping[str, ReportedNode], reports: Iterable[NodeReport]
) -> dict[str, ReportedNode]:
    """Return the nodes that have a report, each with what it said before."""
    nodes: dict[str, ReportedNode] = {}
    for report in reports:
        found = known.get(report.node)
        if found is None or found.report.beat < report.beat:
            earlier = deque() if found is None else found.earlier
            earlier.append(report)
            while len(earlier) > 2 and earlier[1].reported_ms < report.reported_ms - RATE_MS:
                earlier.popleft()
            found = ReportedNode(report, earlier)
        nodes[report.node] = found
    return nodes


def sum_known(values: Iterable[Number | None]) -> Number | None:
    """Add up what is known; None where nothing is."""
    known = [each for each in values if each is not None]
    return round(sum(known), 2) if known else None


def summed(counts: Iterable[Sequence[int]]) -> list[int]:
    """Add counts up, bucket by bucket."""
    total = [0] * BUCKETS
    for each in counts:
        for place, count in enumerate(each[:BUCKETS]):
            total[place] += count
    return total


def difference(later: Sequence[int], earlier: Sequence[int]) -> list[int]:
    """Return what was added between two counts; a process that began anew counts from zero."""
    if any(a < b for a, b in zip(later, earlier, strict=False)):
        return list(later)
    return [a - b for a, b in zip(later, earlier, strict=False)]
