"""The allowance of one node: its part of one limit, for one value of the limit's key.

It consists of a token bucket, kept as the time at which it is full (the generic cell rate
algorithm), and of slots for running attempts.  An attempt reserves a token when it is let through,
and uses it when it begins, so that attempts which wait for a worker do not begin in one burst
beyond the limit's.  Decides when the next attempt may be let through, never which one.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from hourhand.actors.model.flow.flow import Limit, LimitKey
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.limits.limit_line import LimitLine, LinePlace

NEVER_MS = math.inf
"""The time of an event that only another event can cause."""


class Portion(NamedTuple):
    """A node's part of a limit: a rate as the time between two starts, a burst, and slots."""

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
        assert not limit.named_rates, "it is the limit of one value"
        return cls(limit.per_ms / rate_share, max(1.0, limit.burst_tasks * share), slots)


class Ticket(LinePlace):
    """One attempt that waits for the limits of its task."""

    __slots__ = ("allowances", "running", "short_since_ms", "since_ms", "waits_for")

    def __init__(
        self,
        running: RunningAttempt,
        allowances: "Sequence[Allowance]",
        number: int,
        now_ms: float,
        *,
        flow: str,
        priority: int,
        weight: float,
    ) -> None:
        super().__init__(number, flow, priority, weight)
        self.running = running
        self.allowances = allowances
        self.since_ms = now_ms
        """Monotonic time of its arrival."""
        self.short_since_ms = now_ms
        """Monotonic time since which the allowance has been exhausted: its tasks were delayed by
        the limit, even before they arrived here."""
        self.waits_for: Allowance | None = None


class Allowance:
    """The tokens and slots that one node has now.  Used under one lock."""

    __slots__ = (
        "_full_ms",
        "_in_use",
        "_line",
        "_portion",
        "_reserved",
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
        """Attempts that were let through and have not begun."""
        self._in_use = 0
        """Attempts that were let through and have not ended."""
        self._line: LimitLine[Ticket] | None = None
        """The attempts that wait for it; None while nobody does, as of most values."""
        self.wanted = 0
        """Waiting attempts that need this allowance, whichever one they wait for."""
        self.short_since_ms: float | None = None
        """Monotonic time since which every attempt had to wait; None if the last one did not."""
        self.used_ms = -NEVER_MS
        """Monotonic time at which the last attempt began."""
        self.wake_ms = NEVER_MS
        """Monotonic time of the planned look for the next attempt."""

    def ready_ms(self) -> float:
        """Return the monotonic time from which one more attempt may be let through."""
        interval_ms, burst, slots = self._portion
        if self._in_use >= slots or self._reserved + 1 > burst:
            return NEVER_MS
        return self._full_ms + (self._reserved + 1 - burst) * interval_ms if interval_ms else 0.0

    def try_reserve(self, now_ms: float) -> bool:
        """Let one more attempt through; return False if it has to wait."""
        # Each attempt with one limit comes here: no further call.
        interval_ms, burst, slots = self._portion
        reserved = self._reserved + 1
        if self._in_use >= slots or reserved > burst or self._line is not None:
            return False
        if interval_ms and self._full_ms + (reserved - burst) * interval_ms > now_ms:
            return False
        self._reserved = reserved
        self._in_use += 1
        self.short_since_ms = None
        return True

    def reserve(self) -> None:
        """Count an attempt that is let through."""
        self._reserved += 1
        self._in_use += 1

    def use(self, now_ms: float) -> bool:
        """Count the begin of an attempt that was let through; return True if others wait."""
        self._reserved -= 1
        assert self._reserved >= 0, "more begin than were let through"
        full_ms = self._full_ms
        self._full_ms = (max(now_ms, full_ms)) + self._portion[0]
        self.used_ms = now_ms
        return self._line is not None

    def release(self, *, began: bool) -> bool:
        """Count an attempt that has ended, or that never begins; return True if others wait."""
        self._in_use -= 1
        if not began:
            self._reserved -= 1
        assert self._in_use >= self._reserved >= 0, "more end than were let through"
        return self._line is not None

    def change(self, portion: Portion, tokens_max: float, since_ms: float, now_ms: float) -> None:
        """Replace the portion, and keep the tokens of ``since_ms``, but at most ``tokens_max``."""
        before, self._portion = self._portion, portion
        if not portion.interval_ms:
            return
        assert before.interval_ms, "a share of a rate is a rate"
        tokens = before.burst - max(0.0, self._full_ms - since_ms) / before.interval_ms
        self._full_ms = now_ms + (portion.burst - min(tokens, tokens_max)) * portion.interval_ms

    def change_rate(self, interval_ms: float, since_ms: float, now_ms: float) -> None:
        """Replace the rate, and keep the tokens of ``since_ms``."""
        before_ms = self._portion.interval_ms
        assert before_ms, "a share of a rate is a rate"
        assert interval_ms, "and stays one"
        self._portion = self._portion._replace(interval_ms=interval_ms)
        if self._full_ms > since_ms:
            self._full_ms = now_ms + (self._full_ms - since_ms) * interval_ms / before_ms

    def is_unused(self, since_ms: float) -> bool:
        """True if no attempt has begun since a time, and none waits or is about to begin."""
        return not self._reserved and not self.wanted and self.used_ms <= since_ms

    def is_idle(self, now_ms: float) -> bool:
        """True if a new allowance would be the same as this one."""
        return not self._in_use and not self.wanted and self._full_ms <= now_ms

    # Waiting attempts.

    @property
    def waiting(self) -> int:
        """Attempts that wait for this allowance."""
        return 0 if self._line is None else len(self._line)

    def line_up(self, ticket: Ticket, now_ms: float) -> None:
        """Add a waiting attempt."""
        ticket.waits_for = self
        if self.short_since_ms is None:
            self.short_since_ms = now_ms
        ticket.short_since_ms = min(ticket.short_since_ms, self.short_since_ms)
        if self._line is None:
            self._line = LimitLine()
        self._line.add(ticket)

    def next_in_line(self) -> Ticket | None:
        """Remove the attempt whose turn it is and return it; None if none waits."""
        if self._line is None:
            return None
        found = self._line.pop()
        found.waits_for = None
        self._let_go_of_empty_line()
        return found

    def step_out(self, ticket: Ticket) -> None:
        """Remove a waiting attempt that will never begin."""
        assert self._line is not None, "it waits in one line"
        ticket.waits_for = None
        self._line.remove(ticket)
        self._let_go_of_empty_line()

    def _let_go_of_empty_line(self) -> None:
        # A flow that returns later owes no turns.
        if not self._line:
            self._line = None


def reserve_all(needed: Sequence[Allowance], now_ms: float) -> bool:
    """Let one attempt through all of these allowances; change none and return False if one of them
    is exhausted or has a queue.
    """
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
    """Return the first allowance that is exhausted; without ``line``, also one that has a queue."""
    for each in needed:
        if each.ready_ms() > now_ms or (line is None and each.waiting):
            return each
    return None
