"""The invariant of limits: promise P24.

It counts attempts and knows what a limit says and how many partitions each node held; it knows
nothing of how nodes share it out.  It yields one sentence for each violation, as those of
``invariants`` do.
"""

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from hourhand.actors.model.flow.fair_order import AGING_STARTS
from hourhand.actors.model.flow.flow import Limit
from tests.simulation.history import ConfigApplied, Held, LineStep, Started
from tests.simulation.judged import Complaints, Run

FIRST_MS = 1_000.0
"""A node that gained a partition waits no longer than this with the first start of a value."""
_ROUNDING = 1e-6


class _Holdings:
    """Number of partitions of each node, and the times at which it gained or lost some."""

    def __init__(self, run: Run) -> None:
        self._partitions, self._lends = run.partitions, run.lends
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

    def tokens(self, limit: Limit, slowest: Limit, at_ms: float) -> float:
        """Return how many starts all nodes may have saved up: each its burst, or what it gained
        since it had no partition.  ``slowest`` has the lowest rate that one of them knew.
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
            # A node that borrows may have gained by the whole rate.
            share = 1.0 if self._lends else held / self._partitions
            gained = (at_ms - first.at_ms) * share / limit.per_ms
            if self._is_slow(slowest, self.held(node, at_ms)):
                gained = max(1.0, gained)
            share = self.held(node, at_ms) / self._partitions
            found += min(max(1.0, limit.burst_tasks * share), gained)
        return found

    def _is_slow(self, limit: Limit, held: int) -> bool:
        """True if a node's starts of a value are so far apart that it need not wait for one."""
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
        """True if an attempt was let through before its node lost a partition."""
        return start.queued_ms <= self.lost_ms(start.node, start.at_ms)

    def late_gains(self, limit: Limit, first_ms: float, last_ms: float) -> int:
        """Count the gains by which a node may start a task more than its share, in a time."""
        return sum(
            self._is_slow(limit, each.partitions)
            for each in self.gains
            if first_ms - FIRST_MS < each.at_ms <= last_ms
        )


class _Known:
    """The limit of one value as nodes knew it: as declared, until an operator's change came."""

    def __init__(self, run: Run, kind: str, number: int, value: str) -> None:
        declared = run.limits[kind][number - 1]
        self._declared = _of_value(declared, value)
        self._by_node: dict[str, list[tuple[float, Limit]]] = defaultdict(list)
        for each in run.history.of(ConfigApplied):
            found = (c for c in each.changes if c.limit == f"{kind}#{number}")
            limit = next((change.of(declared) for change in found), declared)
            self._by_node[each.node].append((each.at_ms, _of_value(limit, value)))
        ever = [limit for known in self._by_node.values() for _, limit in known]
        self.strictest = _extreme([self._declared, *ever], min)
        self.loosest = _extreme([self._declared, *ever], max)

    def between(
        self, first_ms: float, last_ms: float, node: str | None = None
    ) -> tuple[Limit, Limit]:
        """Return the strictest and the loosest numbers that were known, by one node or by any."""
        found = [self._declared] if node is None or node not in self._by_node else []
        for known in self._by_node.values() if node is None else [self._by_node.get(node, [])]:
            earlier = [limit for at_ms, limit in known if at_ms < first_ms]
            found.append(earlier[-1] if earlier else self._declared)
            found += [limit for at_ms, limit in known if first_ms <= at_ms <= last_ms]
        return _extreme(found, min), _extreme(found, max)


def _of_value(limit: Limit, value: str) -> Limit:
    """Return the limit of one value, read here anew: the product's own reading may be at fault."""
    rates = limit.rate if isinstance(limit.rate, Mapping) else {"*": limit.rate}
    return replace(limit, rate=rates.get(value, rates["*"]))


def _extreme(limits: Sequence[Limit], choose: Callable[[Iterable[float]], float]) -> Limit:
    """Return a limit of the lowest or highest numbers of several of one declaration."""
    first = limits[0]
    concurrency = first.concurrency and choose(each.concurrency or 0 for each in limits)
    return Limit(
        rate=None if first.rate is None else choose(each.rest_rate or 0.0 for each in limits),
        per=first.per,
        burst=None if first.rate is None else int(choose(each.burst_tasks for each in limits)),
        concurrency=None if concurrency is None else int(concurrency),
        key=first.key,
    )


def p24_limits_are_kept(run: Run) -> Complaints:
    """In any time and for each value no more attempts start than rate and burst allow, no more run
    at once than ``concurrency`` does, and what waits goes by priority and fair share.
    """
    yield from lines_go_by_priority(run)
    holdings = _Holdings(run)
    by_value: dict[tuple[str, int, str], list[Started]] = defaultdict(list)
    for start in run.started:
        for number, limit in enumerate(run.limits.get(start.kind or "", ()), 1):
            value = start.tenant if limit.key else ""
            by_value[start.kind or "", number, value].append(start)
    for (kind, number, value), starts in by_value.items():
        known = _Known(run, kind, number, value)
        name = f"{kind}#{number} {value}".rstrip()
        if known.loosest.rate is not None:
            yield from _started_too_often(name, known, starts, holdings)
        if known.loosest.concurrency is not None:
            yield from _too_many_at_once(name, known, starts, holdings, run)


def _started_too_often(
    name: str, known: _Known, starts: Sequence[Started], holdings: _Holdings
) -> Complaints:
    counted = [each for each in starts if not holdings.was_under_way(each)]
    for place, first in enumerate(counted):
        least = holdings.tokens(known.strictest, known.loosest, first.at_ms)
        per_ms, since_ms = known.strictest.per_ms, first.at_ms
        for number, last in enumerate(counted[place:], 1):
            since_ms = min(since_ms, last.queued_ms)
            if number <= least + (last.at_ms - first.at_ms) / per_ms + _ROUNDING:
                continue
            slowest, limit = known.between(since_ms, last.at_ms)
            _, ever = known.between(-math.inf, last.at_ms)
            gaining = replace(limit, rate=ever.rate)
            burst = holdings.tokens(gaining, slowest, first.at_ms)
            allowed = burst + (last.at_ms - first.at_ms) / limit.per_ms
            if number <= allowed + _ROUNDING:
                continue
            if number > allowed + holdings.late_gains(slowest, first.at_ms, last.at_ms) + _ROUNDING:
                yield (
                    f"{number} attempts of {name} started from {first.at_ms:.0f} to"
                    f" {last.at_ms:.0f}, {allowed:.2f} are allowed"
                )
                break


def _too_many_at_once(
    name: str, known: _Known, starts: Sequence[Started], holdings: _Holdings, run: Run
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
        _, limit = known.between(start.queued_ms, start.at_ms, start.node)
        slots = _slots(limit, holdings.held(start.node, start.at_ms) / run.partitions)
        if here > slots:
            yield f"{start.key} started as number {here} of {name} on {start.node}, {slots} may run"
        counted = sum(each.at_ms > holdings.lost_ms(each.node, start.at_ms) for each in running)
        _, limit = known.between(min(each.queued_ms for each in running), start.at_ms)
        everywhere = sum(_slots(limit, part) for part in holdings.shares(start.at_ms))
        if counted > everywhere:
            yield f"{start.key} started as number {counted} of {name}, {everywhere} may run"


def _slots(limit: Limit, part: float) -> int:
    assert limit.concurrency is not None, "only such limits are asked"
    return max(1, math.floor(limit.concurrency * part + _ROUNDING))


def _is_over(run: Run, earlier: Started, later: Started) -> bool:
    return run.ended[earlier.id].at_ms <= later.at_ms


def lines_go_by_priority(run: Run) -> Complaints:
    """Attempts that wait on a node for one limit and value go by priority, then by fair share, then
    by arrival; a lower priority goes before higher ones after ``AGING_STARTS`` starts of these, and
    not earlier.

    Looks at kinds with one limit: attempts that wait for several are in one line after the other.
    """
    lines: dict[tuple[int, str], _Line] = defaultdict(_Line)
    for step in run.history.of(LineStep):
        for complaint in lines[step.member, step.line].take(step):
            yield f"on {step.node} at {step.at_ms:.0f} one that waits for {step.line} {complaint}"


class _Line:
    """The attempts that wait for one allowance."""

    def __init__(self) -> None:
        self._waiting: dict[int, LineStep] = {}
        self._passed: Counter[int] = Counter()
        """For each priority, starts of higher ones since its last one, or since nobody waited."""
        self._kept_waiting: Counter[int] = Counter()
        """The same, and since it waits."""
        self._left: set[int] = set()
        """Priorities of attempts that left the line: their places count until they are reached."""
        self._shares = _Shares()

    def take(self, step: LineStep) -> Iterator[str]:
        """Follow one step; yield its faults."""
        if step.step == "waits":
            if all(each.priority != step.priority for each in self._waiting.values()):
                self._kept_waiting[step.priority] = 0
            self._waiting[step.id] = step
            return
        self._waiting.pop(step.id, None)
        if step.step == "leaves":
            self._left.add(step.priority)
        if step.step == "goes":
            yield from self._judge(step)
            yield from self._shares.count(step, self._waiting.values())
        self._shares.forget_absent(step, self._waiting.values())
        if not self._waiting:
            self._passed.clear()
            self._left.clear()

    def _judge(self, step: LineStep) -> Iterator[str]:
        own, waiting = step.priority, self._waiting.values()
        # What came in the same moment may have come after it went.
        earlier = [each for each in waiting if each.at_ms < step.at_ms]
        if step.id < 0 and earlier:
            yield f"was passed by one that did not wait, of the priority {own}"
        alike = (each for each in waiting if (each.priority, each.value) == (own, step.value))
        if any(0 < each.id < step.id for each in alike):
            yield f"was passed by one that came later, of its priority {own}"
        higher = [each.priority for each in earlier if each.priority > own]
        if higher and self._passed[own] < AGING_STARTS:
            yield f"with {max(higher)} was passed by {own} after {self._passed[own]} starts"
        self._passed[own] = self._kept_waiting[own] = 0
        levels = {each.priority for each in waiting}
        for lower in sorted(each for each in levels | self._left if each < own):
            self._passed[lower] += 1
        for lower in sorted(each for each in levels if each < own):
            self._kept_waiting[lower] += 1
            # Those of several priorities may be due at once.
            if self._kept_waiting[lower] > AGING_STARTS + len(levels):
                yield f"with {lower} waited through {self._kept_waiting[lower]} starts"


class _Shares:
    """The starts of values of one priority while they wait beside each other."""

    def __init__(self) -> None:
        self._apart: dict[tuple[int, str, str], tuple[float, float, float]] = {}
        """For two values, by how many starts, each over its weight, the first one is ahead: now, at
        least and at most since both wait."""

    def count(self, step: LineStep, waiting: Collection[LineStep]) -> Iterator[str]:
        """Count a start; yield which values it takes more than their shares from.

        No two values that wait are ever further apart than one start of each.
        """
        beside = {
            each.value: each.weight
            for each in waiting
            if each.priority == step.priority and each.at_ms < step.at_ms
        }
        beside.pop(step.value, None)
        for value, weight in beside.items() if step.id > 0 else ():
            first, second = sorted((step.value, value))
            gain = (1 if first == step.value else -1) / step.weight
            pair = step.priority, first, second
            now, least, most = self._apart.get(pair, (0.0, 0.0, 0.0))
            now += gain
            least, most = min(least, now), max(most, now)
            self._apart[pair] = now, least, most
            if most - least > 1 / step.weight + 1 / weight + _ROUNDING:
                yield f"of {value} gave more than a share to {step.value}"

    def forget_absent(self, step: LineStep, waiting: Collection[LineStep]) -> None:
        """Begin anew with a value of which nothing waits any more."""
        own = step.priority, step.value
        if any((each.priority, each.value) == own for each in waiting):
            return
        gone = [pair for pair in self._apart if pair[0] == step.priority and step.value in pair[1:]]
        for pair in gone:
            del self._apart[pair]
