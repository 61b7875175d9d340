"""Figures of a chaos run: how late tasks were, and how long each fault kept work waiting.

Imports nothing of the engine, and judges nothing: ``verdict`` does.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from tests.judge.history import SECOND_US, Attempt, Blow, Fault, History
from tests.judge.view import Finding, told

_LATE_US = SECOND_US
"""A task later than this is overdue: the system has not caught up."""
_AFTERMATH_S = 10
"""Time after a fault that is counted to it in any case."""
_MADE_LATE_US = 2 * SECOND_US
"""The next fault is longer away than this after a clock: it makes nothing late that is due then."""
_OWNED_WITHIN_S = 10
"""A partition belongs to the process that began an attempt of it last, this recently."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """Lateness of plain tasks, in milliseconds."""

    count: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class Recovery:
    """Time for which one fault kept work waiting, in seconds."""

    fault: Fault
    waited_s: Mapping[str, float]
    """What was struck, and the longest wait of any of its partitions for an execution: from the
    blow, from when the last attempt of a process asked to stop had ended, or, where no node
    was left, from when nodes were started again; but never from before anything was due."""
    idle_s: float
    """The longest time in which any partition began nothing, counted from attempt to attempt."""
    caught_up_s: float
    """From when it was back until nothing was overdue any more; 0 where nothing was."""

    @property
    def longest_s(self) -> float:
        """The longest wait of all."""
        return max(self.waited_s.values(), default=0.0)


@dataclass(frozen=True, slots=True)
class Measures:
    """All figures of a run."""

    quiet: Lateness | None
    disturbed: Lateness | None
    recoveries: Sequence[Recovery]


def measure(history: History) -> Measures:
    """Work the figures out."""
    plain = {offer.task_id for offer in history.offers if offer.work == "plain"}
    firsts = [
        each for task_id, each in _first_attempts(history.attempts).items() if task_id in plain
    ]
    starts = _Starts(history)
    recoveries = []
    for place, fault in enumerate(history.faults):
        later = history.faults[place + 1 :]
        until_us = later[0].from_us if later else 2**62
        recoveries.append(_recovery(fault, until_us, firsts, starts, history))
    windows = [_window(each) for each in recoveries]
    quiet: list[float] = []
    disturbed: list[float] = []
    for each in firsts:
        due_us = each.due_wall_us - history.wall_minus_boot_us
        # Under a clock that is ahead tasks begin long before a window in which they are due.
        hit = any(
            min(due_us, each.started_us) <= to_us and each.started_us >= from_us
            for from_us, to_us in windows
        )
        late_ms = (each.started_us - due_us) / 1_000
        (disturbed if hit else quiet).append(late_ms)
    return Measures(_lateness(quiet), _lateness(disturbed), recoveries)


def _window(recovery: Recovery) -> tuple[int, int]:
    fault = recovery.fault
    caught_up_us = fault.back_us + round(recovery.caught_up_s * SECOND_US)
    return fault.from_us, max(fault.to_us + _AFTERMATH_S * SECOND_US, caught_up_us)


def _lateness(late_ms: list[float]) -> Lateness | None:
    if not late_ms:
        return None
    late_ms.sort()
    p50, p99, p999 = (percentile(late_ms, percent) for percent in (50, 99, 99.9))
    return Lateness(len(late_ms), p50, p99, p999, late_ms[-1])


def percentile(ascending: Sequence[float], percent: float) -> float:
    """Return the smallest value that ``percent`` % of the values do not exceed."""
    rank = -(-len(ascending) * percent // 100)
    return ascending[max(0, int(rank) - 1)]


class _Starts:
    """When attempts of each partition began, and by which process."""

    def __init__(self, history: History) -> None:
        partitions = history.partitions()
        self.moments: dict[int, list[int]] = defaultdict(list)
        self.due_us: dict[int, list[int]] = defaultdict(list)
        """Due time of the first task that had not begun before each moment."""
        self.pids: dict[int, list[int]] = defaultdict(list)
        self.last_end_us: dict[int, int] = defaultdict(int)
        for each in sorted(history.attempts, key=lambda attempt: attempt.started_us):
            partition = partitions.get(each.ordering_id)
            end_us = each.ended_us or each.alive_us
            self.last_end_us[each.pid] = max(self.last_end_us[each.pid], end_us)
            if partition is not None:
                self.moments[partition].append(each.started_us)
                self.pids[partition].append(each.pid)
                # Nobody but the engine knows when a repetition was due.
                due_us = each.due_wall_us - history.wall_minus_boot_us
                self.due_us[partition].append(due_us if each.number == 1 else each.started_us)
        for partition, dues_us in self.due_us.items():
            self.due_us[partition] = list(accumulate(dues_us[::-1], min))[::-1]

    def owned_by(self, pid: int, at_us: int) -> list[int]:
        """Return the partitions that a process had begun the last attempt of."""
        owned = []
        for partition, moments in self.moments.items():
            place = bisect_right(moments, at_us) - 1
            recent = place >= 0 and moments[place] >= at_us - _OWNED_WITHIN_S * SECOND_US
            if recent and self.pids[partition][place] == pid:
                owned.append(partition)
        return owned

    def wait_us(self, partition: int, blow: Blow) -> int:
        """Return how long a struck process's partition waited for an attempt to begin.

        A process asked to stop may let its attempts end first, and keeps all partitions so long.
        """
        moments, pids = self.moments[partition], self.pids[partition]
        from_us = blow.from_us
        if blow.how == "drained":
            from_us = max(from_us, self.last_end_us[blow.pid])
        place = bisect_right(moments, blow.from_us)
        while place < len(moments) and pids[place] == blow.pid and moments[place] < blow.to_us:
            place += 1
        if place == len(moments):
            return 0
        return max(0, moments[place] - max(from_us, self.due_us[partition][place]))

    def longest_gap_us(self, from_us: int, to_us: int) -> int:
        """Return the longest time in which some partition began nothing."""
        longest = 0
        for moments in self.moments.values():
            before = moments[max(0, bisect_right(moments, from_us) - 1)]
            inside = [before, *_between(moments, from_us, to_us)]
            gaps = [later - earlier for earlier, later in pairwise(inside)]
            longest = max(longest, *gaps, 0)
        return longest


def _recovery(
    fault: Fault, until_us: int, firsts: Sequence[Attempt], starts: _Starts, history: History
) -> Recovery:
    offset_us = history.wall_minus_boot_us
    overdue = [
        each.started_us
        for each in firsts
        if fault.from_us <= each.due_wall_us - offset_us < until_us
        and each.started_us - (each.due_wall_us - offset_us) > _LATE_US
    ]
    caught_up_us = max(overdue, default=fault.back_us) - fault.back_us
    reach_us = min(until_us, fault.to_us + 3 * _AFTERMATH_S * SECOND_US)
    idle_s = starts.longest_gap_us(fault.from_us, reach_us) / SECOND_US
    waits = _waits(fault, idle_s, starts)
    return Recovery(fault, waits, idle_s, max(0, caught_up_us) / SECOND_US)


def _waits(fault: Fault, idle_s: float, starts: _Starts) -> dict[str, float]:
    if fault.harm != "nodes":
        return {fault.target: idle_s}
    if len({blow.node for blow in fault.blows}) > 1 and fault.blows[0].how == "killed":
        # Nobody was left: counted from when nodes were started again.
        waits_us = [
            next((moment for moment in moments if moment > fault.back_us), fault.back_us)
            - fault.back_us
            for moments in starts.moments.values()
        ]
        return {fault.target: max(waits_us, default=0) / SECOND_US}
    waits = {}
    for blow in fault.blows:
        owned = starts.owned_by(blow.pid, blow.from_us)
        longest_us = max((starts.wait_us(each, blow) for each in owned), default=0)
        waits[f"node {blow.node}"] = longest_us / SECOND_US
    return waits


def frozen_at_work(history: History) -> list[Attempt]:
    """Return the attempts that were at work in a process when their node was frozen."""
    blows = [blow for fault in history.faults for blow in fault.blows if blow.how == "frozen"]
    return [
        each
        for each in history.attempts
        for blow in blows
        if each.process and each.pid == blow.pid
        if each.started_us < blow.from_us
        and max(each.alive_us, each.ended_us or 0) > blow.struck_us
    ]


def kept_waiting(history: History, limit_s: float) -> list[Finding]:
    """Return the plain tasks that waited longer than the limit beside a clock that was set.

    A node takes tasks for due by its own clock: while that is behind they wait, and when it is
    right again they begin.  While it is ahead none waits longer than without it.
    """
    firsts = _first_attempts(history.attempts)
    clocks = [fault for fault in history.faults if fault.ahead_us]
    return [each for fault in clocks for each in _beside_clock(history, fault, firsts, limit_s)]


def _beside_clock(
    history: History, fault: Fault, firsts: Mapping[str, Attempt], limit_s: float
) -> Iterator[Finding]:
    for offer in history.offers:
        due_us = offer.due_wall_us - history.wall_minus_boot_us
        if offer.work != "plain" or not fault.from_us <= due_us <= fault.to_us + _MADE_LATE_US:
            continue
        from_us = max(due_us, fault.back_us) if fault.ahead_us < 0 else due_us
        first = firsts.get(offer.task_id)
        # A task that never began is lost: another check says so.
        if first is not None and first.started_us - from_us > limit_s * SECOND_US:
            waited_s = (first.started_us - from_us) / SECOND_US
            yield Finding(f"{told(first)} waited {waited_s:.1f} s: {fault.kind}")


def _first_attempts(attempts: Iterable[Attempt]) -> dict[str, Attempt]:
    first: dict[str, Attempt] = {}
    for each in sorted(attempts, key=lambda attempt: attempt.started_us):
        first.setdefault(each.task_id, each)
    return first


def _between(ascending: Sequence[int], from_us: int, to_us: int) -> Sequence[int]:
    """Return the moments of a time, its end left out."""
    return ascending[bisect_left(ascending, from_us) : bisect_left(ascending, to_us)]
