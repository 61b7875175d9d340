"""One node's reports: what the latest says, and how fast its counts grow.

Decides nothing about which node is still there.
"""

import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from actors.model.key import TaskKey
from actors.model.oversight import NodeReport
from scheduler.admin.lateness import difference, quantiles, summed
from scheduler.admin.values import instant_value

logger = logging.getLogger("hourhand.admin")

_RATE_MS = 10_000
"""Rates are of so long."""


@dataclass(slots=True)
class Heard:
    """One node's latest report, and those of the last seconds for rates."""

    report: NodeReport
    body: dict[str, Any]
    earlier: deque[tuple[int, dict[str, Any]]] = field(default_factory=deque)

    def value(self, *, alive: bool) -> dict[str, Any]:
        """Return the node as a JSON value; what changes is unknown of one that is silent."""
        body = self.body
        return {
            "node": self.report.node,
            "state": "alive" if alive else "silent",
            "asOf": instant_value(self.report.reported_ms),
            "started": instant_value(body["startedMs"]),
            "version": body["version"],
            "address": body["address"],
            "leaseLeftMs": body["leaseLeftMs"] if alive else None,
            "leaseByLock": body["leaseByLock"],
            "partitions": sorted(each["partition"] for each in body["partitions"]),
            "executionsPerS": self._rate("started") if alive else None,
            "failuresPerS": self._rate("failed") if alive else None,
            "inFlight": body["runningCount"] if alive else None,
            "failing": body["failingCount"] if alive else None,
            "blocked": body["blockedCount"] if alive else None,
            "treeFailures": body["treeFailures"],
            "pausesVersion": body["pausesVersion"],
        }

    def lateness(self) -> list[int]:
        """Return the lateness counts of the last seconds."""
        later = summed(each["lateness"] for each in self.body["partitions"])
        earlier = summed(each["lateness"] for each in self.earlier[0][1]["partitions"])
        return difference(later, earlier)

    def _rate(self, name: str) -> float | None:
        first_ms, first = self.earlier[0]
        took_s = (self.report.reported_ms - first_ms) / 1000
        if took_s <= 0:
            return None
        total: int = sum(each[name] for each in self.body["partitions"])
        before: int = sum(each[name] for each in first["partitions"])
        return round(max(0, total - before) / took_s, 2)


def heard_now(known: Mapping[str, Heard], reports: Iterable[NodeReport]) -> dict[str, Heard]:
    """Return the nodes that have a report, each with what it said before."""
    nodes: dict[str, Heard] = {}
    for report in reports:
        found = known.get(report.node)
        if found is None or found.report.beat < report.beat:
            body = _decoded(report.body)
            if body is None:
                continue
            earlier = deque() if found is None else found.earlier
            earlier.append((report.reported_ms, body))
            while len(earlier) > 2 and earlier[1][0] < report.reported_ms - _RATE_MS:
                earlier.popleft()
            found = Heard(report, body, earlier)
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


def _decoded(body: bytes) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        logger.debug("a report of another version cannot be read")
        return None
