"""The invariant of limits: promise P24.

It counts attempts and knows what a limit says and how many partitions each node held; it knows
nothing of how nodes share it out.  It yields one sentence for each violation, as those of
``invariants`` do.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

from actors.model.flow import Limit
from tests.simulation.history import Held, Started
from tests.simulation.judged import Complaints, Run
from tests.simulation.limited import LIMITS

FIRST_MS = 1_000.0
"""A node that gained a partition waits no longer than this with the first start of a value."""
_ROUNDING = 1e-6


class _Holdings:
    """How many partitions each node held, and when it gained or lost some."""

    def __init__(self, run: Run) -> None:
        self._partitions = run.partitions
        self._changes: dict[str, list[Held]] = defaultdict(list)
        self.gains: list[Held] = []
        for each in run.history.of(Held):
            if each.partitions > self.held(each.node, each.at_ms):
                self.gains.append(each)
            self._changes[each.node].append(each)

    def held(self, node: str, at_ms: float) -> int:
        """Return how many a node held, from its last change on."""
        changes = self._changes[node]
        place = bisect_right(changes, at_ms, key=lambda each: each.at_ms)
        return changes[place - 1].partitions if place else 0

    def shares(self, at_ms: float) -> Iterator[float]:
        """Yield the share of each node that held any."""
        for node in tuple(self._changes):
            if held := self.held(node, at_ms):
                yield held / self._partitions

    def tokens(self, limit: Limit, at_ms: float) -> float:
        """Return how many starts all nodes may have saved up: each its burst, or what it gained
        since it had no partition.
        """
        found = 0.0
        for node, changes in self._changes.items():
            if not (held := self.held(node, at_ms)):
                continue
            since = [each for each in changes if each.at_ms <= at_ms]
            while (first := since.pop()).partitions and since:
                held = max(held, first.partitions)
                if not since[-1].partitions:
                    break
            gained = (at_ms - first.at_ms) * held / self._partitions / limit.per_ms
            if self._is_slow(limit, self.held(node, at_ms)):
                gained = max(1.0, gained)
            share = self.held(node, at_ms) / self._partitions
            found += min(max(1.0, limit.burst_tasks * share), gained)
        return found

    def _is_slow(self, limit: Limit, held: int) -> bool:
        """Whether a node's starts of a value are so far apart that it need not wait for one."""
        return limit.per_ms * self._partitions > FIRST_MS * max(1, held)

    def lost_ms(self, node: str, until_ms: float) -> float:
        """Return when a node last lost a partition."""
        changes = self._changes[node]
        before = [0, *(each.partitions for each in changes)]
        lost = (
            each.at_ms
            for each, had in zip(changes, before, strict=False)
            if each.partitions < had and each.at_ms <= until_ms
        )
        return max(lost, default=-math.inf)

    def was_under_way(self, start: Started) -> bool:
        """Whether an attempt was let through before its node lost a partition."""
        return start.queued_ms <= self.lost_ms(start.node, start.at_ms)

    def late_gains(self, limit: Limit, first_ms: float, last_ms: float) -> int:
        """Count the gains by which a node may start a task more than its share, in a time."""
        return sum(
            self._is_slow(limit, each.partitions)
            for each in self.gains
            if first_ms - FIRST_MS < each.at_ms <= last_ms
        )


def p24_limits_are_kept(run: Run) -> Complaints:
    """In any time and for each value no more attempts start than rate and burst allow, and no more
    run at once than ``concurrency`` does.
    """
    holdings = _Holdings(run)
    by_value: dict[tuple[str, int, str], list[Started]] = defaultdict(list)
    for start in run.started:
        for number, limit in enumerate(LIMITS.get(start.kind or "", ()), 1):
            value = start.tenant if limit.key else ""
            by_value[start.kind or "", number, value].append(start)
    for (kind, number, value), starts in by_value.items():
        limit = LIMITS[kind][number - 1]
        name = f"{kind}#{number} {value}".rstrip()
        if limit.rate is not None:
            yield from _started_too_often(name, limit, starts, holdings)
        if limit.concurrency is not None:
            yield from _too_many_at_once(name, limit.concurrency, starts, holdings, run)


def _started_too_often(
    name: str, limit: Limit, starts: Sequence[Started], holdings: _Holdings
) -> Complaints:
    counted = [each for each in starts if not holdings.was_under_way(each)]
    for place, first in enumerate(counted):
        burst = holdings.tokens(limit, first.at_ms)
        for number, last in enumerate(counted[place:], 1):
            allowed = burst + (last.at_ms - first.at_ms) / limit.per_ms
            if number <= allowed + _ROUNDING:
                continue
            if number > allowed + holdings.late_gains(limit, first.at_ms, last.at_ms) + _ROUNDING:
                yield (
                    f"{number} attempts of {name} started from {first.at_ms:.0f} to"
                    f" {last.at_ms:.0f}, {allowed:.2f} are allowed"
                )
                break


def _too_many_at_once(
    name: str, most: int, starts: Sequence[Started], holdings: _Holdings, run: Run
) -> Complaints:
    running: list[Started] = []
    for start in starts:
        running = [
            each for each in running if each.id not in run.ended or not _is_over(run, each, start)
        ]
        running.append(start)
        if holdings.was_under_way(start):
            continue
        here = sum(each.node == start.node for each in running)
        slots = _slots(most, holdings.held(start.node, start.at_ms) / run.partitions)
        if here > slots:
            yield f"{start.key} started as number {here} of {name} on {start.node}, {slots} may run"
        counted = sum(each.at_ms > holdings.lost_ms(each.node, start.at_ms) for each in running)
        everywhere = sum(_slots(most, part) for part in holdings.shares(start.at_ms))
        if counted > everywhere:
            yield f"{start.key} started as number {counted} of {name}, {everywhere} may run"


def _slots(most: int, part: float) -> int:
    return max(1, math.floor(most * part + _ROUNDING))


def _is_over(run: Run, earlier: Started, later: Started) -> bool:
    return run.ended[earlier.id].at_ms <= later.at_ms
