"""The stage of limits: attempts wait here until all limits of their tasks let them through.

They wait before their starts are made durable, and take no worker.  For each limit and value of its
key they go by priority, then by fair shares if their kind has these, then in their order of
arrival: see ``limit_line``.  Never decides the node's part of a limit: see ``shares``.  Used from
any thread.
"""

import heapq
import threading
import zlib
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.flow.flow import MANY, LimitKey
from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.operations.oversight import LimitLoan, NodeReport
from hourhand.actors.model.task.task import StoredTask
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.limits.allowance import (
    NEVER_MS,
    Allowance,
    Ticket,
    first_lacking,
    reserve_all,
)
from hourhand.scheduler.node.limits.loans import LOAN_MS
from hourhand.scheduler.node.limits.node_limits import NodeLimits
from hourhand.scheduler.node.limits.shares import (
    NO_RATES,
    ChangedLimit,
    NodeRates,
    Shares,
    node_limit_of,
)
from hourhand.scheduler.node.stages import Following

VALUES_MAX = 100_000
"""Values of keys with an allowance of their own; further values share some, which limits them more
than was asked, never less."""
_SHARED = 1_000
_KEPT_MIN = 1_000
"""Up to this number of allowances, idle ones are not looked for."""

Gate = Callable[[Attempt], bool]


class Limited(NamedTuple):
    """An attempt that waits for an allowance."""

    limit: str
    """The limit's name."""
    value: str
    attempt: Attempt
    waited_ms: float


class Limiter:
    """The stage of limits, including the limits of kinds on this node."""

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
        """``following`` takes attempts that are let through, ``refuse`` those that never begin.

        ``wake_later`` calls ``look`` after some milliseconds.
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
        """The tickets of waiting attempts."""
        if self.declared and limits.owned is not None:
            limits.owned.watch(self.note_change)

    def __bool__(self) -> bool:
        """True if any kind has a limit."""
        return bool(self.declared)

    # Calls of the runner.

    def enter(self, attempts: Sequence[RunningAttempt]) -> None:
        """Hand attempts on, each as soon as its limits let it through."""
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
                    # Its partition is given up already: the drain that would remove it is over.
                    refused.append(running)
        if passed:
            self._following(passed)
        for running in refused:
            self._refuse(running)

    def use(self, running: RunningAttempt, now_ms: float) -> None:
        """Count the begin of an attempt's user code, at a monotonic time."""
        with self._lock:
            for allowance in running.allowances:
                if allowance.use(now_ms):
                    self._plan(allowance, now_ms)

    def end(self, running: RunningAttempt) -> None:
        """Count an attempt that was handed on and has ended, or never begins."""
        taken, running.limiter, running.allowances = running.allowances, None, ()
        passed: list[RunningAttempt] = []
        began = running.started_monotonic_ms is not None
        with self._lock:
            for allowance in taken:
                if allowance.release(began=began):
                    now_ms = self._monotonic_ms()
                    self._take_share(now_ms, passed)
                    self._admit(allowance, now_ms, passed)
        if passed:
            self._following(passed)

    def look(self) -> None:
        """Let attempts through whose time has come."""
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

    def withdraw(self, running: RunningAttempt) -> bool:
        """Remove a waiting attempt; return False if it does not wait here."""
        with self._lock:
            ticket = self._tickets.get(running)
            if ticket is None:
                return False
            self._step_out(ticket)
            return True

    def has_waiting(self, running: RunningAttempt) -> bool:
        """True if an attempt waits here."""
        return running in self._tickets

    def drain(self, partitions: Collection[int] | None) -> Sequence[RunningAttempt]:
        """Remove the waiting attempts of some partitions, or of all, and return them."""
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
        """Apply the operators' changes from now on; all other limits are as declared.

        Tokens beyond a lower burst are lost, running attempts continue, and attempts that a higher
        limit lets through go on at once.  Returns the limits that changed.  A change that does not
        fit this node's declaration is ignored: another version of the code may declare the limit
        differently.
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
        """Return the monotonic time of the next necessary ``look``; None for never."""
        return None if self._timer_ms == NEVER_MS else self._timer_ms

    def limited(self) -> Sequence[Limited]:
        """Return the waiting attempts in their order of arrival, for reports."""
        with self._lock:
            now_ms = self._monotonic_ms()
            return [
                Limited(*ticket.waits_for.key, ticket.running.attempt, now_ms - ticket.since_ms)
                for ticket in self._tickets.values()
                if ticket.waits_for is not None
            ]

    # Loans.

    def note_asked(self, report_number: int) -> None:
        """Note that a report with this number is made now, which lists the waiting attempts."""
        with self._lock:
            self._shares.loans.note_asked(report_number, self._monotonic_ms())

    def apply_reports(self, node: str, reports: Sequence[NodeReport]) -> None:
        """Take loans from other nodes' reports, and lend them rates that this node does not use."""
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
        """Return the loans that this node has given."""
        self.look()
        with self._lock:
            return self._shares.loans.reported()

    def rates(self) -> NodeRates:
        """Return this node's part of each rate, for reports."""
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
        """Return a new allowance, or a shared one if there are too many.

        A value with a rate of its own never shares that of others.
        """
        key = LimitKey(limit, value)
        if len(self._allowances) >= VALUES_MAX and not self._shares.is_named(key):
            value = f"{MANY}{zlib.crc32(value.encode()) % _SHARED}"
            if (found := self._allowances.get((limit, value))) is not None:
                return found
            key = LimitKey(limit, value)
        made = Allowance(key, *self._shares.of_new_value(key))
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
        task = running.attempt.task
        flow, priority, weight = "", 0, 1.0
        # Without flow control nobody looks at priorities: see ``waiting_attempts``.
        if self._rules:
            priority = self._rules.priority_of(task)
            flow = str(priority)
            kind_flow = self._rules.of_task(task)
            if kind_flow is not None and kind_flow.rule.fair is not None:
                flow = self._rules.flow_of(task)
                weight = self._rules.weight_of(flow)
        ticket = self._tickets[running] = Ticket(
            *(running, needed, next(self._numbers), now_ms),
            flow=flow,
            priority=priority,
            weight=weight,
        )
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
        """Let waiting attempts of an allowance through, while it has tokens and slots."""
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
        """Plan the next look at an allowance with waiting attempts."""
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
        """Note that the node owns other partitions from now on."""
        with self._lock:
            now_ms = self._monotonic_ms()
            self._shares.note_change(now_ms)
            # Later and not in this call: with many values it takes long.
            self._timer_ms = now_ms
            self._wake_later(0.0)

    def _take_share(self, now_ms: float, passed: list[RunningAttempt]) -> None:
        """Apply the node's present share, by its partitions and loans.

        The time between the change and now gains no tokens.
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
        """Let attempts through that new portions allow; only after all portions are set, because
        an attempt may need several.
        """
        for allowance in tuple(self._allowances.values()):
            if allowance.waiting:
                self._admit(allowance, now_ms, passed)

    def _may_lend(self, key: LimitKey, *, now_ms: float) -> bool:
        """True if the node has no work for a value, and an allowance for this value alone."""
        if key.value.startswith(MANY):
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
