"""The last hour as one process saw it: a point every so often, by partition, and marks on it.

Keeps what changed between two points; memory grows with partitions and not with tasks.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

from scheduler.admin.lateness import BUCKETS, difference, quantiles, summed
from scheduler.admin.values import instant_value
from scheduler.observe.figures import LATENESS_MS

POINT_MS = 15_000
POINTS_MAX = 240
"""One hour."""
MOMENTS_MAX = 500

Change = tuple[int, int, list[int]]
"""Started, failed, and lateness counts."""


class LastHour:
    """Points and marks; the caller's lock guards it."""

    def __init__(self) -> None:
        self._points: deque[dict[str, Any]] = deque(maxlen=POINTS_MAX)
        self._due_ms: float | None = None
        self._counted: dict[tuple[str, int], Change] = {}

    def draw(
        self, now_ms: float, status: Mapping[str, Any], bodies: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Add a point where it is time for one (monotonic); ``bodies`` are the nodes' reports."""
        if self._due_ms is not None and now_ms < self._due_ms:
            return
        first = self._due_ms is None
        self._due_ms = now_ms + POINT_MS
        partitions = self._changes(bodies)
        if not first:
            chosen = ("time", "inFlight", "failing", "blocked", "lag", "nodes")
            point = {name: status[name] for name in chosen}
            self._points.append({**point, "partitions": partitions})

    def value(
        self, bodies: Mapping[str, Mapping[str, Any]], partition: int | None
    ) -> dict[str, Any]:
        """Return points and marks as a JSON value, of one partition or of all."""
        moments = [
            {
                "time": instant_value(each["at_ms"]),
                "what": each["what"],
                "partition": each["partition"],
                "detail": each["detail"],
                "node": node,
            }
            for node, body in bodies.items()
            for each in body["moments"]
        ]
        moments.sort(key=lambda each: each["time"] or "")
        points = [_point_value(each, partition) for each in self._points]
        return {
            "everyMs": POINT_MS,
            "latenessBoundsMs": list(LATENESS_MS),
            "points": points,
            "moments": moments[-MOMENTS_MAX:],
        }

    def _changes(self, bodies: Mapping[str, Mapping[str, Any]]) -> dict[int, Change]:
        """Return what each partition did since the last point, whichever nodes it was on."""
        changes: dict[int, Change] = {}
        counted: dict[tuple[str, int], Change] = {}
        for name, body in bodies.items():
            for each in body["partitions"]:
                number = each["partition"]
                now = (each["started"], each["failed"], each["lateness"])
                started, failed, lateness = self._counted.get((name, number), (0, 0, [0] * BUCKETS))
                counted[name, number] = now
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
