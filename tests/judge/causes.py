"""Causes for which an attempt may have been repeated, or overlapped: faults of its process.

An attempt is excused only where it was running, or had ended with its completion possibly
not durable, when its node was killed, frozen, cut off or past its drain deadline, and only
towards an attempt under a higher fence: one owner never has an excuse.  The next task of an
ordering id starts when the previous completion is durable, so only the last attempt that a
process began of an id can be in doubt, and only for a short while.  Imports nothing of the
engine.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from tests.judge.history import SECOND_US, Attempt, Blow, Fault, History

NEVER_US = 2**62
_SETTLED_S = 20
"""A change of owner so long after a fault has nothing to do with it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules by which a run is judged."""

    order_lead_s: float = 30.0
    """Order is judged on pairs accepted so long before the first was due, time without a store
    not counted: it is promised of what was stored."""
    flush_s: float = 5.0
    """A completion that old is durable, time without a store not counted."""
    drain_deadline_s: float = 10.0
    limbo_s: float = 1.0
    """A frozen thread that had passed its lease check begins so soon after it goes on."""


class Causes:
    """Knows every blow, and tells which attempts it excuses."""

    def __init__(self, history: History, rules: Rules, partitions: Mapping[str, int]) -> None:
        self._rules = rules
        self._partitions = partitions
        self._faults = [fault for fault in history.faults if fault.harm in {"log", "store"}]
        self._clocks = [fault for fault in history.faults if fault.ahead_us]
        self._blows: dict[int, list[Blow]] = defaultdict(list)
        for fault in history.faults:
            for blow in fault.blows:
                self._blows[blow.pid].append(blow)
        self._starts_of_id: dict[tuple[int, str], list[int]] = defaultdict(list)
        self._starts_of_thread: dict[tuple[int, int], list[int]] = defaultdict(list)
        self._owners: dict[int, dict[int, _Owner]] = defaultdict(dict)
        for each in sorted(history.attempts, key=lambda attempt: attempt.started_us):
            self._starts_of_id[each.pid, each.ordering_id].append(each.started_us)
            self._starts_of_thread[each.pid, each.thread].append(each.started_us)
            partition = partitions.get(each.ordering_id)
            if partition is not None:
                owners = self._owners[partition]
                owner = owners.setdefault(each.fence, _Owner(each.started_us, each.started_us))
                owner.last_us = max(owner.last_us, each.ended_us or each.started_us)

    def end_us(self, attempt: Attempt) -> int:
        """Return when it ended: at the latest with its process; without any end, never."""
        if attempt.ended_us is not None:
            return attempt.ended_us
        if attempt.process:
            # It was killed soon after it was last seen at work.
            return max(attempt.started_us, attempt.alive_us)
        gone = [
            blow.to_us
            for blow in self._blows.get(attempt.pid, ())
            if blow.how != "frozen" and blow.to_us >= attempt.started_us
        ]
        return min(gone, default=NEVER_US)

    def excuse(self, attempt: Attempt, other: Attempt) -> str | None:
        """Return why ``attempt`` need not have counted when ``other`` began; None: no reason."""
        if other.fence <= attempt.fence:
            return None
        for blow in self._blows.get(attempt.pid, ()):
            if blow.from_us <= other.started_us and (why := self._struck(attempt, blow)):
                return why
        partition = self._partitions.get(attempt.ordering_id)
        return None if partition is None else self._cut_off(attempt, partition)

    def clock_of(self, attempt: Attempt) -> Fault | None:
        """Return what set the clock under which an attempt began."""
        return next((each for each in self._clocks if each.sets_clock_of(attempt)), None)

    def set_back(self, attempt: Attempt) -> str | None:
        """Name a clock that was set back between an attempt's last look at it and its start."""
        for fault in self._clocks:
            back_us = fault.back_us if fault.ahead_us > 0 else fault.from_us
            is_about_to = -SECOND_US <= attempt.started_us - back_us <= _us(self._rules.limbo_s)
            if fault.pid == attempt.pid and is_about_to:
                return f"the clock was set back as it began: {fault.kind}"
        return None

    def with_store_us(self, from_us: int, to_us: int) -> int:
        """Return how much of a time there was a store."""
        return to_us - from_us - self._without_store_us(from_us, to_us)

    def _struck(self, attempt: Attempt, blow: Blow) -> str | None:
        who = f"node {blow.node} (pid {blow.pid})"
        if blow.how == "drained":
            deadline_us = blow.from_us + _us(self._rules.drain_deadline_s)
            state = self._state(attempt, deadline_us, blow.to_us)
            return state and f"{state} when {who} was past its drain deadline"
        if state := self._state(attempt, blow.from_us, blow.struck_us):
            return f"{state} when {who} was {blow.how}"
        if blow.how == "frozen" and self._was_in_limbo(attempt, blow):
            return f"between its lease check and user code when {who} was frozen"
        return None

    def _state(self, attempt: Attempt, from_us: int, to_us: int) -> str | None:
        """Say what the attempt was doing at some moment of a time, if that can be an excuse."""
        if attempt.started_us > to_us or from_us > to_us:
            return None
        ended_us = self.end_us(attempt)
        if ended_us >= to_us:
            return "running"
        starts = self._starts_of_id[attempt.pid, attempt.ordering_id]
        if bisect_right(starts, attempt.started_us) < bisect_left(starts, to_us):
            # The next task of the id had begun: this one's completion was durable.
            return None
        waited_us = from_us - ended_us - self._without_store_us(ended_us, from_us)
        in_doubt = waited_us <= _us(self._rules.flush_s)
        return "ended, completion not yet durable" if in_doubt else None

    def _was_in_limbo(self, attempt: Attempt, blow: Blow) -> bool:
        """True if it is the first that its thread began when the process went on."""
        starts = self._starts_of_thread[attempt.pid, attempt.thread]
        place = bisect_left(starts, blow.to_us)
        late_us = attempt.started_us - blow.to_us
        first = place < len(starts) and starts[place] == attempt.started_us
        return first and 0 <= late_us <= _us(self._rules.limbo_s)

    def _cut_off(self, attempt: Attempt, partition: int) -> str | None:
        """Excuse what ran to the last under an owner that a fault of log or store replaced."""
        owners = self._owners[partition]
        mine = owners.get(attempt.fence)
        next_us = min(
            (owner.first_us for fence, owner in owners.items() if fence > attempt.fence),
            default=None,
        )
        if mine is None or next_us is None:
            return None
        for fault in self._faults:
            if not fault.from_us <= next_us <= fault.to_us + _us(_SETTLED_S):
                continue
            if self.end_us(attempt) < fault.from_us - _us(self._rules.flush_s):
                continue
            last_us = min(next_us, mine.last_us)
            state = self._state(attempt, last_us, last_us)
            if state:
                return f"{state} when its owner changed in: {fault.kind} ({fault.target})"
        return None

    def _without_store_us(self, from_us: int, to_us: int) -> int:
        """Return how much of a time there was no store."""
        return sum(
            max(0, min(to_us, fault.to_us) - max(from_us, fault.from_us))
            for fault in self._faults
            if fault.harm == "store"
        )


@dataclass(slots=True)
class _Owner:
    """Times at which a fence of a partition was first and last seen."""

    first_us: int
    last_us: int


def _us(seconds: float) -> int:
    return round(seconds * SECOND_US)
