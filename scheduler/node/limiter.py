"""Which attempts of a node wait because of a limit, and when each may go on.

They wait here before their starts are made durable, and hold no worker; for each limit and value of
its key in the order in which they came, or by fair shares where their kind has these.  Never
decides how much of a limit the node has: see ``shares``.  Used from any thread.
"""

import heapq
import threading
import zlib
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

from actors.model.attempts import Attempt
from actors.model.flow import LimitKey
from actors.model.limit_change import LimitChange
from actors.model.oversight import LimitLoan, NodeReport
from actors.model.task import StoredTask
from scheduler.node.allowance import (
    NEVER_MS,
    Allowance,
    Ticket,
    first_lacking,
    reserve_all,
)
from scheduler.node.attempts import RunningAttempt
from scheduler.node.loans import LOAN_MS
from scheduler.node.node_limits import NodeLimits
from scheduler.node.shares import NO_RATES, ChangedLimit, NodeRates, Shares, node_limit_of
from scheduler.node.stages import Following

VALUES_MAX = 100_000
"""Values of keys that a node keeps an allowance for; those beyond share some, which limits them
more than was asked, never less."""
_SHARED = 1_000
_MANY = "~"
"""Begins the name of an allowance that stands for many values."""
_KEPT_MIN = 1_000
"""So many allowances are kept without a look for idle ones."""

Gate = Callable[[Attempt], bool]


class Limited(NamedTuple):
    """An attempt that waits for an allowance."""

    limit: str
    """The limit's name."""
    value: str
    attempt: Attempt
    waited_ms: float


class Limiter:
    """The stage of limits, those of single kinds on the node among them."""

    def __init__(
        self,
        limits: NodeLimits,
        *,
        gate: Gate,
        monotonic_ms: Callable[[], float],
        following: Following,
        refuse: Callable[[RunningAttempt], None],
        wake_later: Callable[[float], object],
    ) -> None:
        """``following`` takes what may go on, ``refuse`` what never begins.

        ``wake_later`` has ``look`` called after so many milliseconds.
        """
        self._rules = limits.rules
        self._on_node = {kind: node_limit_of(kind) for kind in limits.on_node}
        self._shares = Shares(limits)
        self.declared, self.lends = self._shares.declared, self._shares.lends
        self._gate = gate
        self._monotonic_ms = monotonic_ms
        self._following, self._refuse, self._wake_later = following, refuse, wake_later
        self._numbers = count()
        self._lock = threading.Lock()
        self._allowances: dict[tuple[str, str], Allowance] = {}
        """By the limit's name and the value of its key."""
        self._kept_max = _KEPT_MIN
        self._wakes: list[tuple[float, int, Allowance]] = []
        self._timer_ms = NEVER_MS
        self._tickets: dict[RunningAttempt, Ticket] = {}
        """Of what waits here."""
        if self.declared and limits.held is not None:
            limits.held.watch(self.note_change)

    def __bool__(self) -> bool:
        """Whether any kind has a limit."""
        return bool(self.declared)

    # What a runner tells.

    def enter(self, attempts: Sequence[RunningAttempt]) -> None:
        """Hand attempts on, each at once or when its limits let it through."""
        passed: list[RunningAttempt] = []
        refused: list[RunningAttempt] = []
        with self._lock:
            now_ms = self._monotonic_ms()
            self._take_share(now_ms, passed)
            if len(self._allowances) >= self._kept_max:
                self._forget_idle(now_ms)
            for running in attempts:
                needed = self._needed(running.attempt.task)
                if not needed:
                    passed.append(running)
                elif reserve_all(needed, now_ms):
                    running.limiter, running.allowances = self, needed
                    passed.append(running)
                elif self._gate(running.attempt):
                    self._line_up(running, needed, now_ms)
                else:
                    # Its partition is given up, which nobody will tell again.
                    refused.append(running)
        if passed:
            self._following(passed)
        for running in refused:
            self._refuse(running)

    def use(self, running: RunningAttempt, now_ms: float) -> None:
        """User code of an attempt begins now, by monotonic time."""
        with self._lock:
            for allowance in running.allowances:
                if allowance.use(now_ms):
                    self._plan(allowance, now_ms)

    def end(self, running: RunningAttempt) -> None:
        """An attempt that was handed on has ended, or never begins."""
        held, running.limiter, running.allowances = running.allowances, None, ()
        passed: list[RunningAttempt] = []
        began = running.started_monotonic_ms is not None
        with self._lock:
            for allowance in held:
                if allowance.leave(began=began):
                    now_ms = self._monotonic_ms()
                    self._take_share(now_ms, passed)
                    self._admit(allowance, now_ms, passed)
        if passed:
            self._following(passed)

    def look(self) -> None:
        """Let through what may go on by now."""
        passed: list[RunningAttempt] = []
        with self._lock:
            now_ms = self._monotonic_ms()
            self._take_share(now_ms, passed)
            self._timer_ms = NEVER_MS
            while self._wakes and self._wakes[0][0] <= now_ms:
                planned_ms, _, allowance = heapq.heappop(self._wakes)
                if planned_ms == allowance.wake_ms:
                    allowance.wake_ms = NEVER_MS
                    self._admit(allowance, now_ms, passed)
            self._set_timer(now_ms)
        if passed:
            self._following(passed)

    def leave(self, running: RunningAttempt) -> bool:
        """Let an attempt wait no longer; False where it does not wait."""
        with self._lock:
            ticket = self._tickets.get(running)
            if ticket is None:
                return False
            self._step_out(ticket)
            return True

    def holds_up(self, running: RunningAttempt) -> bool:
        """Whether an attempt waits here."""
        return running in self._tickets

    def drain(self, partitions: Collection[int] | None) -> Sequence[RunningAttempt]:
        """Let the attempts of some partitions, or of all, wait no longer; return those that did."""
        with self._lock:
            leaving = [
                ticket
                for ticket in self._tickets.values()
                if partitions is None or ticket.running.attempt.partition in partitions
            ]
            for ticket in leaving:
                self._step_out(ticket)
        return [ticket.running for ticket in leaving]

    def change(self, changes: Sequence[LimitChange]) -> Sequence[ChangedLimit]:
        """Have limits allow what operators say, and the others what is declared, from now on.

        Tokens beyond a lower burst are gone, what runs goes on, and what a higher limit lets
        through goes on at once.  Returns what is not as before.  A change that does not fit what
        this node declares, as another version of the code may, changes nothing here.
        """
        passed: list[RunningAttempt] = []
        with self._lock:
            now_ms = self._monotonic_ms()
            self._take_share(now_ms, passed)
            changed = self._shares.change(changes, now_ms)
            if changed:
                for allowance in self._allowances.values():
                    portion = self._shares.portion_of(allowance.key)
                    allowance.change(portion, portion.burst, now_ms, now_ms)
                self._admit_waiting(now_ms, passed)
        if passed:
            self._following(passed)
        return changed

    def next_ms(self) -> float | None:
        """Return the monotonic time at which ``look`` has something to do; None for never."""
        return None if self._timer_ms == NEVER_MS else self._timer_ms

    def limited(self) -> Sequence[Limited]:
        """Return what waits, for those who look, in the order in which it came."""
        with self._lock:
            now_ms = self._monotonic_ms()
            return [
                Limited(*ticket.waits_for.key, ticket.running.attempt, now_ms - ticket.since_ms)
                for ticket in self._tickets.values()
                if ticket.waits_for is not None
            ]

    # Loans.

    def note_asked(self, report_number: int) -> None:
        """A report with this number is made now, which says what waits here."""
        with self._lock:
            self._shares.loans.note_asked(report_number, self._monotonic_ms())

    def apply_reports(self, node: str, reports: Sequence[NodeReport]) -> None:
        """Take what others lend this node, and lend what they wait for and it does not use."""
        passed: list[RunningAttempt] = []
        with self._lock:
            now_ms = self._monotonic_ms()
            self._take_share(now_ms, passed)
            may_lend = partial(self._may_lend, now_ms=now_ms)
            for key in sorted(self._shares.apply_reports(node, reports, now_ms, may_lend)):
                self._change_rate(key, now_ms, now_ms, passed)
            self._set_timer(now_ms)
        if passed:
            self._following(passed)

    def lent(self) -> tuple[LimitLoan, ...]:
        """Return what others may use of this node's shares."""
        self.look()
        with self._lock:
            return self._shares.loans.reported()

    def rates(self) -> NodeRates:
        """Return what this node may start of rates now, for those who look."""
        if not self._shares.has_rates:
            return NO_RATES
        self.look()
        with self._lock:
            return self._shares.rates()

    # Under the lock.

    def _needed(self, task: StoredTask) -> Sequence[Allowance]:
        kind_flow = self._rules.of_task(task)
        if kind_flow is None and not self._on_node:
            return ()
        needed: list[Allowance] = []
        if kind_flow is not None:
            for name, value_of in kind_flow.limit_values:
                key = (name, "" if value_of is None else value_of(task.body))
                needed.append(self._allowances.get(key) or self._made(*key))
        if self._on_node and (name_on_node := self._on_node.get(task.kind)) is not None:
            key = (name_on_node, "")
            needed.append(self._allowances.get(key) or self._made(*key))
        return needed

    def _made(self, limit: str, value: str) -> Allowance:
        """Return an allowance that is new, or one that is shared where there are too many."""
        if len(self._allowances) >= VALUES_MAX:
            value = f"{_MANY}{zlib.crc32(value.encode()) % _SHARED}"
            if (found := self._allowances.get((limit, value))) is not None:
                return found
        made = Allowance(LimitKey(limit, value), *self._shares.of_new_value(limit))
        self._allowances[made.key] = made
        return made

    def _forget_idle(self, now_ms: float) -> None:
        loans = self._shares.loans
        kept = {
            key: each
            for key, each in self._allowances.items()
            if not each.is_idle(now_ms) or each.key in loans
        }
        self._allowances = kept
        self._kept_max = max(_KEPT_MIN, 2 * len(kept))

    def _line_up(self, running: RunningAttempt, needed: Sequence[Allowance], now_ms: float) -> None:
        ticket = self._tickets[running] = Ticket(running, needed, next(self._numbers), now_ms)
        kind_flow = self._rules.of_task(running.attempt.task)
        if kind_flow is not None and kind_flow.rule.fair is not None:
            ticket.flow = kind_flow.flow_of(running.attempt.task)
            ticket.weight = self._rules.weight_of(ticket.flow)
        for each in needed:
            each.wanted += 1
        lacking = first_lacking(needed, now_ms) or needed[0]
        lacking.line_up(ticket, now_ms)
        self._plan(lacking, now_ms)

    def _step_out(self, ticket: Ticket) -> None:
        assert ticket.waits_for is not None, "it waits"
        ticket.waits_for.step_out(ticket)
        for allowance in ticket.allowances:
            allowance.wanted -= 1
        del self._tickets[ticket.running]

    def _admit(self, allowance: Allowance, now_ms: float, passed: list[RunningAttempt]) -> None:
        """Let through what an allowance has for those that wait for it first."""
        while allowance.ready_ms() <= now_ms:
            ticket = allowance.next_in_line()
            if ticket is None:
                return
            lacking = first_lacking(ticket.allowances, now_ms, allowance)
            if lacking is None:
                for each in ticket.allowances:
                    each.wanted -= 1
                    each.reserve()
                del self._tickets[ticket.running]
                ticket.running.limited_ms = round(now_ms - ticket.short_since_ms)
                ticket.running.limiter = self
                ticket.running.allowances = ticket.allowances
                passed.append(ticket.running)
            else:
                lacking.line_up(ticket, now_ms)
                self._plan(lacking, now_ms)
        if allowance.waiting:
            self._plan(allowance, now_ms)

    def _plan(self, allowance: Allowance, now_ms: float) -> None:
        """Look at an allowance again when it has something for one that waits."""
        ready_ms = allowance.ready_ms()
        if ready_ms < allowance.wake_ms:
            allowance.wake_ms = ready_ms
            heapq.heappush(self._wakes, (ready_ms, next(self._numbers), allowance))
            self._set_timer(now_ms)

    def _set_timer(self, now_ms: float) -> None:
        first_ms = min([self._shares.next_change_ms, *(each[0] for each in self._wakes[:1])])
        if first_ms < self._timer_ms:
            self._timer_ms = first_ms
            self._wake_later(max(0.0, first_ms - now_ms))

    # The node's share.

    def note_change(self) -> None:
        """The node holds other partitions from now on."""
        with self._lock:
            now_ms = self._monotonic_ms()
            self._shares.note_change(now_ms)
            # Not here: it takes long where there are many values.
            self._timer_ms = now_ms
            self._wake_later(0.0)

    def _take_share(self, now_ms: float, passed: list[RunningAttempt]) -> None:
        """Have the share that the node has now, by what it holds and what is lent.

        From a change up to now nothing is gained.
        """
        if not self._shares.may_have_changed(now_ms):
            return
        for key, ended_ms in self._shares.end_loans(now_ms).items():
            self._change_rate(key, ended_ms, now_ms, passed)
        change = self._shares.take_partitions(now_ms)
        if change is not None:
            for allowance in self._allowances.values():
                if not self._shares.is_of_node(allowance.key.limit):
                    portion = self._shares.portion_of(allowance.key)
                    tokens_max = self._shares.tokens_kept(allowance.key, change)
                    allowance.change(portion, tokens_max, change.since_ms, now_ms)
            self._admit_waiting(now_ms, passed)
        self._set_timer(now_ms)

    def _admit_waiting(self, now_ms: float, passed: list[RunningAttempt]) -> None:
        """Let through what may go on by new portions, after all have them: it may need several."""
        for allowance in tuple(self._allowances.values()):
            if allowance.waiting:
                self._admit(allowance, now_ms, passed)

    def _may_lend(self, key: LimitKey, *, now_ms: float) -> bool:
        """Whether the node has no work for a value, and one allowance for it and no other."""
        if key.value.startswith(_MANY):
            return False
        allowance = self._allowances.get(key)
        if allowance is not None:
            return allowance.is_unused(now_ms - LOAN_MS)
        return len(self._allowances) < VALUES_MAX and self._made(*key).key == key

    def _change_rate(
        self, key: LimitKey, since_ms: float, now_ms: float, passed: list[RunningAttempt]
    ) -> None:
        allowance, interval_ms = self._allowances.get(key), self._shares.interval_ms(key)
        if allowance is not None and interval_ms:
            allowance.change_rate(interval_ms, since_ms, now_ms)
            if allowance.waiting:
                self._admit(allowance, now_ms, passed)
