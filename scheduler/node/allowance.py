"""The allowance that one node has of one limit and one value of its key.

A token bucket, kept as the time at which it is full (the generic cell rate algorithm), and slots
for what runs.  An attempt reserves a token when it is let through, and uses it when it begins, so
that attempts which wait for a worker do not begin in one burst beyond the limit's.  Decides when
the next one may be let through; never which one.
"""

import heapq
import math
from collections.abc import Sequence
from typing import NamedTuple

from actors.model.flow import Limit, LimitKey
from scheduler.node.attempts import RunningAttempt

NEVER_MS = math.inf
"""Not before something else happens."""


class Portion(NamedTuple):
    """What a node has of a limit: a rate as the time between two starts, a burst, and slots."""

    interval_ms: float
    burst: float
    slots: float

    @classmethod
    def of(cls, limit: Limit, share: float, rate_share: float) -> "Portion":
        """Return a share, above 0 and up to 1, of a limit; one task at a time may always start."""
        assert 0 < share <= 1, "a node has a part of a limit"
        assert rate_share > 0, "some of a rate stays"
        concurrency = limit.concurrency
        slots = math.inf if concurrency is None else max(1, math.floor(concurrency * share))
        if limit.rate is None:
            return cls(0.0, math.inf, slots)
        return cls(limit.per_ms / rate_share, max(1.0, limit.burst_tasks * share), slots)


class Ticket:
    """One attempt at the limits of its task."""

    __slots__ = (
        "allowances",
        "flow",
        "number",
        "running",
        "short_since_ms",
        "since_ms",
        "waits_for",
        "weight",
    )

    def __init__(
        self, running: RunningAttempt, allowances: "Sequence[Allowance]", number: int, now_ms: float
    ) -> None:
        self.running = running
        self.allowances = allowances
        self.number = number
        """Its place among all that came."""
        self.flow: str | None = None
        """Whose turns are shared out by weight; None where the first to come goes first."""
        self.weight = 1.0
        self.since_ms = now_ms
        """Monotonic time of its arrival."""
        self.short_since_ms = now_ms
        """Since when what it waits for is short; what came late because of that is not late."""
        self.waits_for: Allowance | None = None


class Allowance:
    """What one node may let through now.  Used under one lock."""

    __slots__ = (
        "_full_ms",
        "_held",
        "_left",
        "_next_turns",
        "_portion",
        "_reserved",
        "_turn",
        "_waiting",
        "key",
        "short_since_ms",
        "used_ms",
        "wake_ms",
        "wanted",
    )

    def __init__(self, key: LimitKey, portion: Portion, full_ms: float) -> None:
        """``full_ms`` is the monotonic time at which all tokens are there."""
        self.key = key
        self._portion = portion
        self._full_ms = full_ms
        self._reserved = 0
        """Let through and not begun."""
        self._held = 0
        """Let through and not ended."""
        self._waiting: list[tuple[float, int, Ticket]] = []
        """By the turn of each, and its place among all that came."""
        self._turn = 0.0
        self._next_turns: dict[str, float] = {}
        """Of flows that share the allowance: start-time fair queueing."""
        self._left = 0
        """So many of those went away, and are still in the list."""
        self.wanted = 0
        """How many wait for this one or another, and need this one too."""
        self.short_since_ms: float | None = None
        """Since when each one that came had to wait; None where the last one did not."""
        self.used_ms = -NEVER_MS
        """When the last one began."""
        self.wake_ms = NEVER_MS
        """When somebody will look whether the next one may be let through."""

    def ready_ms(self) -> float:
        """Return the time from which one more may be let through."""
        interval_ms, burst, slots = self._portion
        if self._held >= slots or self._reserved + 1 > burst:
            return NEVER_MS
        return self._full_ms + (self._reserved + 1 - burst) * interval_ms if interval_ms else 0.0

    def try_reserve(self, now_ms: float) -> bool:
        """Let one more through; False where it has to wait."""
        # Each attempt with one limit comes here: no further call.
        interval_ms, burst, slots = self._portion
        reserved = self._reserved + 1
        if self._held >= slots or reserved > burst or len(self._waiting) > self._left:
            return False
        if interval_ms and self._full_ms + (reserved - burst) * interval_ms > now_ms:
            return False
        self._reserved = reserved
        self._held += 1
        self.short_since_ms = None
        return True

    def reserve(self) -> None:
        """One is let through."""
        self._reserved += 1
        self._held += 1

    def use(self, now_ms: float) -> bool:
        """One that was let through begins; return whether others wait."""
        self._reserved -= 1
        assert self._reserved >= 0, "more begin than were let through"
        full_ms = self._full_ms
        self._full_ms = (max(now_ms, full_ms)) + self._portion[0]
        self.used_ms = now_ms
        return len(self._waiting) > self._left

    def leave(self, *, began: bool) -> bool:
        """One that was let through has ended, or never begins; return whether others wait."""
        self._held -= 1
        if not began:
            self._reserved -= 1
        assert self._held >= self._reserved >= 0, "more end than were let through"
        return len(self._waiting) > self._left

    def change(self, portion: Portion, tokens_max: float, since_ms: float, now_ms: float) -> None:
        """Have another portion from now on, with the tokens there were at ``since_ms`` and no more
        than ``tokens_max``.
        """
        before, self._portion = self._portion, portion
        if not portion.interval_ms:
            return
        assert before.interval_ms, "a share of a rate is a rate"
        tokens = before.burst - max(0.0, self._full_ms - since_ms) / before.interval_ms
        self._full_ms = now_ms + (portion.burst - min(tokens, tokens_max)) * portion.interval_ms

    def change_rate(self, interval_ms: float, since_ms: float, now_ms: float) -> None:
        """Have another rate from now on, with the tokens there were at ``since_ms``."""
        before_ms = self._portion.interval_ms
        assert before_ms, "a share of a rate is a rate"
        assert interval_ms, "and stays one"
        self._portion = self._portion._replace(interval_ms=interval_ms)
        if self._full_ms > since_ms:
            self._full_ms = now_ms + (self._full_ms - since_ms) * interval_ms / before_ms

    def is_unused(self, since_ms: float) -> bool:
        """Whether nothing began since a time, and nothing is about to."""
        return not self._reserved and not self.wanted and self.used_ms <= since_ms

    def is_idle(self, now_ms: float) -> bool:
        """Whether one that is made anew would be the same."""
        return not self._held and not self.wanted and self._full_ms <= now_ms

    # What waits.

    @property
    def waiting(self) -> int:
        """How many wait for this one first."""
        return len(self._waiting) - self._left

    def line_up(self, ticket: Ticket, now_ms: float) -> None:
        """Let one wait, in the place that its flow's turn and its number give it."""
        ticket.waits_for = self
        if self.short_since_ms is None:
            self.short_since_ms = now_ms
        ticket.short_since_ms = min(ticket.short_since_ms, self.short_since_ms)
        turn = 0.0
        if ticket.flow is not None:
            turn = max(self._turn, self._next_turns.get(ticket.flow, 0.0))
            self._next_turns[ticket.flow] = turn + 1 / ticket.weight
        heapq.heappush(self._waiting, (turn, ticket.number, ticket))

    def next_in_line(self) -> Ticket | None:
        """Take the one whose turn it is, of its flow the first to come; None where nobody waits."""
        while self._waiting:
            turn, _, found = heapq.heappop(self._waiting)
            if found.waits_for is self:
                found.waits_for = None
                self._turn = turn
                return found
            self._left -= 1
        # Flows that come back have no turns to make up for.
        self._turn = 0.0
        self._next_turns.clear()
        return None

    def step_out(self, ticket: Ticket) -> None:
        """Let one wait no longer that will never begin."""
        assert ticket.waits_for is self, "it waits in one line"
        ticket.waits_for = None
        self._left += 1
        if self._left > len(self._waiting) // 2:
            self._waiting = [each for each in self._waiting if each[2].waits_for is self]
            heapq.heapify(self._waiting)
            self._left = 0


def reserve_all(needed: Sequence[Allowance], now_ms: float) -> bool:
    """Let one more through all of these, or none where one has nothing or others wait for it."""
    if len(needed) == 1:
        return needed[0].try_reserve(now_ms)
    for each in needed:
        if each.waiting or each.ready_ms() > now_ms:
            return False
    for each in needed:
        each.reserve()
        each.short_since_ms = None
    return True


def first_lacking(
    needed: Sequence[Allowance], now_ms: float, line: Allowance | None = None
) -> Allowance | None:
    """Return the first that has nothing now; for one at the head of no line, or has a line."""
    for each in needed:
        if each.ready_ms() > now_ms or (line is None and each.waiting):
            return each
    return None
