"""One node's reports: what the latest says, and how fast its counts grow.

Decides nothing about which node is still there.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.model.key import TaskKey
from actors.model.oversight import NodeReport
from scheduler.admin.lateness import difference, quantiles, summed
from scheduler.admin.values import instant_value

_RATE_MS = 10_000
"""Rates are of so long."""


@dataclass(slots=True)
class Heard:
    """One node's latest report, and those of the last seconds for rates."""

    report: NodeReport
    earlier: deque[NodeReport] = field(default_factory=deque)

    def value(self, *, alive: bool) -> dict[str, Any]:
        """Return the node as a JSON value; what changes is unknown of one that is silent."""
        report = self.report
        return {
            "node": report.node,
            "state": "alive" if alive else "silent",
            "asOf": instant_value(report.reported_ms),
            "started": instant_value(report.started_ms),
            "version": report.version,
            "address": report.address,
            "leaseLeftMs": report.lease_left_ms if alive else None,
            "leaseByLock": report.lease_by_lock,
            "partitions": sorted(each.partition for each in report.partitions),
            "executionsPerS": self._rate("started") if alive else None,
            "failuresPerS": self._rate("failed") if alive else None,
            "inFlight": report.running_count if alive else None,
            "failing": report.failing_count if alive else None,
            "blocked": report.blocked_count if alive else None,
            "treeFailures": report.tree_failures,
            "pausesVersion": report.pauses_version,
        }

    def lateness(self) -> list[int]:
        """Return the lateness counts of the last seconds."""
        later = summed(each.lateness for each in self.report.partitions)
        earlier = summed(each.lateness for each in self.earlier[0].partitions)
        return difference(later, earlier)

    def _rate(self, name: str) -> float | None:
        first = self.earlier[0]
        took_s = (self.report.reported_ms - first.reported_ms) / 1000
        if took_s <= 0:
            return None
        total: int = sum(getattr(each, name) for each in self.report.partitions)
        before: int = sum(getattr(each, name) for each in first.partitions)
        return round(max(0, total - before) / took_s, 2)


def heard_now(known: Mapping[str, Heard], reports: Iterable[NodeReport]) -> dict[str, Heard]:
    """Return the nodes that have a report, each with what it said before."""
    nodes: dict[str, Heard] = {}
    for report in reports:
        found = known.get(report.node)
        if found is None or found.report.beat < report.beat:
            earlier = deque() if found is None else found.earlier
            earlier.append(report)
            while len(earlier) > 2 and earlier[1].reported_ms < report.reported_ms - _RATE_MS:
                earlier.popleft()
            found = Heard(report, earlier)
        nodes[report.node] = found
    return nodes


def lateness_of(nodes: Sequence[Heard]) -> dict[str, int | None]:
    """Return the quantiles of lateness over some nodes."""
    return quantiles(summed(node.lateness() for node in nodes))


def key_value(text: str) -> dict[str, Any]:
    """Return a task's key and what is in it as JSON values."""
    key = TaskKey.parse(text)
    return {
        "key": text,
        "orderingId": key.ordering_id,
        "scheduledTime": instant_value(key.scheduled_ms),
    }


def sum_known(values: Iterable[float | None]) -> float | None:
    """Add up what is known; None where nothing is."""
    known = [each for each in values if each is not None]
    return round(sum(known), 2) if known else None
