"""The last hour as one process saw it: a point every so often, by partition, and marks on it.

Keeps what changed between two points; memory grows with partitions and not with tasks.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from actors.model.oversight import LATENESS_MS, NodeReport
from scheduler.admin.answers import instant_text
from scheduler.admin.picture import Glance, History, HistoryMark, HistoryPoint, Quantiles
from scheduler.admin.reports import BUCKETS, difference, summed

POINT_MS = 15_000
POINTS_MAX = 240
"""One hour."""
MOMENTS_MAX = 500


class _Added(NamedTuple):
    """What a partition did between two points."""

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
        """Add a point where it is time for one (monotonic)."""
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
        """Return what each partition did since the last point, whichever nodes it was on."""
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
        lag=glance.lag,
        nodes=glance.nodes,
        started=total.started,
        failed=total.failed,
        lateness=list(total.lateness),
        lateness_ms=Quantiles.of(total.lateness),
    )
