"""Reports of nodes: the latest, the growth of counts, lateness, and the last hour.

The hour is as one process saw it: a point at intervals, by partition, and marks on it. Each point
holds the changes since the previous one; memory grows with partitions and not with tasks. It does
not decide which nodes are alive.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self, TypeVar

from hourhand.actors.model.operations.oversight import LATENESS_MS, NodeReport, PartitionReport
from hourhand.scheduler.admin.answers import instant_text
from hourhand.scheduler.admin.picture import (
    Glance,
    History,
    HistoryMark,
    HistoryPoint,
    Quantiles,
    ShownNode,
    ShownPool,
)

BUCKETS = len(LATENESS_MS) + 1
RATE_MS = 10_000
"""Rates cover this time."""
POINT_MS = 15_000
POINTS_MAX = 240
"""One hour."""
MOMENTS_MAX = 500

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
            processes=_shown_pool(report) if alive else None,
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


def _shown_pool(report: NodeReport) -> ShownPool | None:
    pool = report.processes
    if pool is None:
        return None
    return ShownPool(
        places=pool.places,
        alive=pool.alive,
        busy=pool.busy,
        resident_bytes=pool.resident_bytes,
        deaths=pool.deaths,
    )


def with_reports(
    known: Mapping[str, ReportedNode], reports: Iterable[NodeReport]
) -> dict[str, ReportedNode]:
    """Return the nodes that have a report, each with its earlier reports."""
    nodes: dict[str, ReportedNode] = {}
    for report in reports:
        found = known.get(report.node)
        if found is None or found.report.report_number < report.report_number:
            earlier = deque() if found is None else found.earlier
            earlier.append(report)
            while len(earlier) > 2 and earlier[1].reported_ms < report.reported_ms - RATE_MS:
                earlier.popleft()
            found = ReportedNode(report, earlier)
        nodes[report.node] = found
    return nodes


def sum_known(values: Iterable[Number | None]) -> Number | None:
    """Add up the known values; None if there are none."""
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
    """Return the growth of counts; a restarted process counts from zero."""
    if any(a < b for a, b in zip(later, earlier, strict=False)):
        return list(later)
    return [a - b for a, b in zip(later, earlier, strict=False)]


class _Added(NamedTuple):
    """The work of a partition between two points."""

    started: int = 0
    failed: int = 0
    lateness: Sequence[int] = (0,) * BUCKETS

    def since(self, before: Self) -> "_Added":
        return _Added(
            max(0, self.started - before.started),
            max(0, self.failed - before.failed),
            difference(self.lateness, before.lateness),
        )

    def plus(self, other: Self) -> "_Added":
        return _Added(
            self.started + other.started,
            self.failed + other.failed,
            summed([self.lateness, other.lateness]),
        )


class LastHour:
    """Points and marks; the caller's lock guards it."""

    def __init__(self) -> None:
        self._points: deque[tuple[Glance, dict[int, _Added]]] = deque(maxlen=POINTS_MAX)
        self._due_ms: float | None = None
        self._counted: dict[tuple[str, int], _Added] = {}

    def draw(self, now_ms: float, glance: Glance, reports: Mapping[str, NodeReport]) -> None:
        """Add a point if the last one is old enough; times are monotonic."""
        if self._due_ms is not None and now_ms < self._due_ms:
            return
        first = self._due_ms is None
        self._due_ms = now_ms + POINT_MS
        changes = self._changes(reports)
        if not first:
            self._points.append((glance, changes))

    def shown(self, reports: Mapping[str, NodeReport], partition: int | None) -> History:
        """Show points and marks, of one partition or of all."""
        moments = [
            HistoryMark(
                time=instant_text(each.at_ms),
                what=each.what,
                partition=each.partition,
                detail=each.detail,
                node=node,
            )
            for node, report in reports.items()
            for each in report.moments
        ]
        moments.sort(key=lambda each: each.time or "")
        return History(
            every_ms=POINT_MS,
            lateness_bounds_ms=list(LATENESS_MS),
            points=[_point(*each, partition) for each in self._points],
            moments=moments[-MOMENTS_MAX:],
        )

    def _changes(self, reports: Mapping[str, NodeReport]) -> dict[int, _Added]:
        """Return the work of each partition since the last point, on any node."""
        changes: dict[int, _Added] = {}
        counted: dict[tuple[str, int], _Added] = {}
        for name, report in reports.items():
            for each in report.partitions:
                place = name, each.partition
                now = counted[place] = _Added(each.started, each.failed, each.lateness)
                before = self._counted.get(place, _Added())
                if now[:2] != before[:2]:
                    added = now.since(before)
                    changes[each.partition] = changes.get(each.partition, _Added()).plus(added)
        self._counted = counted
        return changes


def _point(glance: Glance, changes: Mapping[int, _Added], partition: int | None) -> HistoryPoint:
    total = _Added()
    for number, change in changes.items():
        if partition is None or number == partition:
            total = total.plus(change)
    return HistoryPoint(
        time=glance.time,
        in_flight=glance.in_flight,
        failing=glance.failing,
        blocked=glance.blocked,
        limited=glance.limited,
        lag=glance.lag,
        nodes=glance.nodes,
        started=total.started,
        failed=total.failed,
        lateness=list(total.lateness),
        lateness_ms=Quantiles.of(total.lateness),
    )
