"""The last hour as one process saw it: a point every so often, by partition, and marks on it.

Keeps what changed between two points; memory grows with partitions and not with tasks.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actors.model.oversight import LATENESS_MS, NodeReport
from scheduler.admin.lateness import BUCKETS, difference, quantiles, summed
from scheduler.admin.values import instant_value

POINT_MS = 15_000
POINTS_MAX = 240
"""One hour."""
MOMENTS_MAX = 500

Change = tuple[int, int, Sequence[int]]
"""Started, failed, and lateness counts."""


class LastHour:
    """Points and marks; the caller's lock guards it."""

    def __init__(self) -> None:
        self._points: deque[dict[str, Any]] = deque(maxlen=POINTS_MAX)
        self._due_ms: float | None = None
        self._counted: dict[tuple[str, int], Change] = {}

    def draw(self, now_ms: float, status: Mapping[str, Any], reports: Iterable[NodeReport]) -> None:
        """Add a point where it is time for one (monotonic)."""
        if self._due_ms is not None and now_ms < self._due_ms:
            return
        first = self._due_ms is None
        self._due_ms = now_ms + POINT_MS
        partitions = self._changes(reports)
        if not first:
            chosen = ("time", "inFlight", "failing", "blocked", "lag", "nodes")
            point = {name: status[name] for name in chosen}
            self._points.append({**point, "partitions": partitions})

    def value(self, reports: Iterable[NodeReport], partition: int | None) -> dict[str, Any]:
        """Return points and marks as a JSON value, of one partition or of all."""
        moments = [
            {
                "time": instant_value(each.at_ms),
                "what": each.what,
                "partition": each.partition,
                "detail": each.detail,
                "node": report.node,
            }
            for report in reports
            for each in report.moments
        ]
        moments.sort(key=lambda each: each["time"] or "")
        points = [_point_value(each, partition) for each in self._points]
        return {
            "everyMs": POINT_MS,
            "latenessBoundsMs": list(LATENESS_MS),
            "points": points,
            "moments": moments[-MOMENTS_MAX:],
        }

    def _changes(self, reports: Iterable[NodeReport]) -> dict[int, Change]:
        """Return what each partition did since the last point, whichever nodes it was on."""
        changes: dict[int, Change] = {}
        counted: dict[tuple[str, int], Change] = {}
        for report in reports:
            for each in report.partitions:
                place = (report.node, number := each.partition)
                now = (each.started, each.failed, each.lateness)
                started, failed, lateness = self._counted.get(place, (0, 0, [0] * BUCKETS))
                counted[place] = now
                if now[0] != started or now[1] != failed:
                    before = changes.get(number, (0, 0, [0] * BUCKETS))
                    changes[number] = (
                        before[0] + max(0, now[0] - started),
                        before[1] + max(0, now[1] - failed),
                        summed([before[2], difference(now[2], lateness)]),
                    )
        self._counted = counted
        return changes


def _point_value(point: Mapping[str, Any], partition: int | None) -> dict[str, Any]:
    of_partitions: Mapping[int, Change] = point["partitions"]
    chosen = [
        each for number, each in of_partitions.items() if partition is None or number == partition
    ]
    counts = summed(each[2] for each in chosen)
    return {
        **{name: value for name, value in point.items() if name != "partitions"},
        "started": sum(each[0] for each in chosen),
        "failed": sum(each[1] for each in chosen),
        "lateness": counts,
        "latenessMs": quantiles(counts),
    }
