"""Which attempts of a node wait because of a limit, and when each may go on.

They wait here before their starts are made durable, and hold no worker; for each limit and value of
its key in the order in which they came, or by fair shares where their kind has these.  A node has
the share of a limit that it has of the partitions: what all nodes let through is the limit, and
nobody is asked.  Of rates it lends and borrows what ``loans`` says.  Decides nothing of what has no
limit.  Used from any thread.
"""

import heapq
import logging
import threading
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from actors.model.attempts import Attempt
from actors.model.errors import InvalidTask
from actors.model.flow import Limit, LimitKey
from actors.model.limit_change import LimitChange
from actors.model.oversight import LimitLoan, NodeReport, RateShare
from actors.model.task import StoredTask
from scheduler.node.allowance import (
    NEVER_MS,
    Allowance,
    Portion,
    Ticket,
    first_lacking,
    reserve_all,
)
from scheduler.node.attempts import RunningAttempt
from scheduler.node.loans import KEPT, LOAN_MS, Loans
from scheduler.node.node_limits import NodeLimits
from scheduler.node.stages import Following

logger = logging.getLogger("hourhand.runner")

VALUES_MAX = 100_000
"""Values of keys that a node keeps an allowance for; those beyond share some, which limits them
more than was asked, never less."""
FIRST_MS = 1_000.0
"""A node that has a partition anew waits no longer than this with the first start of a value, from
when its rate counts."""
_SHARED = 1_000
_MANY = "~"
"""Begins the name of an allowance that stands for many values."""
_KEPT_MIN = 1_000
"""So many allowances are kept without a look for idle ones."""

Gate = Callable[[Attempt], bool]


class ChangedLimit(NamedTuple):
    """A limit that allows another number of tasks from now on."""

    name: str
    before: Limit
    after: Limit


class NodeRates(NamedTuple):
    """What one node may start of the limits of a rate; empty where there are none."""

    rates_per_s: Mapping[str, float]
    """What each limit allows in the whole cluster, for each value of its key."""
    share: float
    """The part of it that this node may use where it lends and borrows nothing."""
    loans: Sequence[RateShare]
    """Where it does."""


NO_RATES = NodeRates({}, 0.0, ())


class Limited(NamedTuple):
    """An attempt that waits for an allowance."""

    limit: str
    """The limit's name."""
    value: str
    attempt: Attempt
    waited_ms: float


class FlowLimits:
    """The limits of one node, those of single kinds on the node among them."""

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
        self._on_node = {kind: f"{kind or ''}@node" for kind in limits.on_node}
        self.declared = _declared(limits, self._on_node)
        """All limits by name, as the code has them."""
        self._limits: Mapping[str, Limit] = self.declared
        self._whole = frozenset(self._on_node.values())
        self._gate = gate
        self._held, self._partitions = limits.held, limits.partitions
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
        self.lends = limits.lend and any(each.rate for each in self.declared.values())
        """Whether there is anything to lend or borrow."""
        self._begin_shares()

    def _begin_shares(self) -> None:
        self._changed_ms: float | None = None
        """Since when the node holds other partitions than its portions are of."""
        self._loans = Loans()
        self._shift_ms = -NEVER_MS if self.lends else NEVER_MS
        """When portions are others by the mere passing of time; the first look finds out."""
        self._rose_ms = -NEVER_MS
        """When partitions that came were counted last."""
        self._held_none = self._held is not None and not self._held.held
        """Whether it held none of them meanwhile, or ever since it began."""
        self._shared_held = self._shared_counted = 0
        self._portions: dict[str, Portion] = {}
        self._set_portions(self._partitions if self._held is None else self._held.held, 0.0)
        if self._limits and self._held is not None:
            self._held.watch(self.note_change)

    def __bool__(self) -> bool:
        """Whether any kind has a limit."""
        return bool(self._limits)

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
        limits = _changed(self.declared, changes)
        passed: list[RunningAttempt] = []
        with self._lock:
            before = self._limits
            changed = [
                ChangedLimit(name, before[name], limit)
                for name, limit in limits.items()
                if before[name] != limit
            ]
            if changed:
                now_ms = self._monotonic_ms()
                self._take_share(now_ms, passed)
                self._limits = limits
                self._set_portions(self._shared_held, now_ms)
                for allowance in self._allowances.values():
                    portion = self._portion_of(allowance.key)
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

    def note_asked(self, beat: int) -> None:
        """A report with this beat is made now, which says what waits here."""
        with self._lock:
            self._loans.note_asked(beat, self._monotonic_ms())

    def heed_reports(self, node: str, reports: Sequence[NodeReport]) -> None:
        """Take what others lend this node, and lend what they wait for and it does not use."""
        passed: list[RunningAttempt] = []
        with self._lock:
            now_ms = self._monotonic_ms()
            self._take_share(now_ms, passed)
            changed = self._loans.take(node, reports, now_ms)
            asking = self._loans.asking(node, reports)
            if asking and self._held is not None and now_ms < self._held.alone_until_ms:
                lendable = (1 - KEPT) * self._counted(now_ms) / self._partitions
                for key, askers in asking.items():
                    if self._may_lend(key, now_ms) and self._loans.give(
                        key, askers, lendable, now_ms
                    ):
                        changed.add(key)
            for key in sorted(changed):
                self._change_rate(key, now_ms, now_ms, passed)
            self._plan_shift(now_ms)
        if passed:
            self._following(passed)

    def lent(self) -> tuple[LimitLoan, ...]:
        """Return what others may use of this node's shares."""
        self.look()
        with self._lock:
            return self._loans.reported()

    def rates(self) -> NodeRates:
        """Return what this node may start of rates now, for those who look."""
        rates = {name: 1_000 / each.per_ms for name, each in self._limits.items() if each.rate}
        if not rates:
            return NO_RATES
        self.look()
        with self._lock:
            if self._held is not None and not self._held.held:
                # It may start nothing, whatever share it begins with when a partition comes.
                return NodeRates(rates, 0.0, ())
            loans = self._loans
            shares = [
                RateShare(*key, self._rate_share(lent), lent, loans.borrowed(key))
                for key in loans
                for lent in (loans.lent(key),)
            ]
            return NodeRates(rates, self._rate_share(0.0), shares)

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
        portion = self._portions[limit]
        made = Allowance(LimitKey(limit, value), portion, self._full_ms(limit, portion))
        self._allowances[made.key] = made
        return made

    def _full_ms(self, limit: str, portion: Portion) -> float:
        """Return when an allowance is full that has not been used since partitions came.

        What their last owner let through is not known: it begins without tokens then, but for one
        where the next is far away, as nobody would wait for days after a restart.
        """
        if self._held is None or not portion.interval_ms:
            return 0.0
        if self._is_slow(limit):
            first_ms = max(self._held.gained_ms + FIRST_MS, self._rose_ms)
        else:
            first_ms = max(self._held.gained_ms, self._rose_ms) + portion.interval_ms
        return first_ms + (portion.burst - 1) * portion.interval_ms

    def _is_slow(self, limit: str) -> bool:
        """Whether this node's starts of one value are over a second apart, by what it holds."""
        per_ms = self._limits[limit].per_ms
        return per_ms * self._partitions > FIRST_MS * max(1, self._shared_held)

    def _forget_idle(self, now_ms: float) -> None:
        loans = self._loans
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
        first_ms = min(self._wakes[0][0], self._shift_ms) if self._wakes else self._shift_ms
        if first_ms < self._timer_ms:
            self._timer_ms = first_ms
            self._wake_later(max(0.0, first_ms - now_ms))

    # The node's share.

    def note_change(self) -> None:
        """The node holds other partitions from now on."""
        assert self._held is not None, "somebody says how many they are"
        with self._lock:
            now_ms = self._monotonic_ms()
            if self._changed_ms is None:
                self._changed_ms = now_ms
            self._held_none = self._held_none or not self._held.held
            # Not here: it takes long where there are many values.
            self._timer_ms = now_ms
            self._wake_later(0.0)

    def _take_share(self, now_ms: float, passed: list[RunningAttempt]) -> None:
        """Have the share that the node has now, by what it holds and what is lent.

        From a change up to now nothing is gained.
        """
        if now_ms >= self._shift_ms:
            for key, ended_ms in self._loans.end(now_ms).items():
                self._change_rate(key, ended_ms, now_ms, passed)
            if self._changed_ms is None and self._counted(now_ms) != self._shared_counted:
                self._changed_ms = now_ms
            self._take_partitions(now_ms, passed)
            self._plan_shift(now_ms)
        elif self._changed_ms is not None:
            self._take_partitions(now_ms, passed)
            self._plan_shift(now_ms)

    def _take_partitions(self, now_ms: float, passed: list[RunningAttempt]) -> None:
        """Have the share of the partitions that are held now; without any, that does not matter.

        A node that held none begins as with a new value: what it did not use then, others did.
        """
        changed_ms = self._changed_ms
        if changed_ms is None:
            return
        assert self._held is not None, "somebody said that there is a change"
        held = self._held.held
        if not held:
            return
        begins_anew, self._changed_ms, self._held_none = self._held_none, None, False
        self._set_portions(held, now_ms)
        for allowance in self._allowances.values():
            name = allowance.key.limit
            if name in self._whole:
                continue
            portion = self._portion_of(allowance.key)
            tokens_max = float(self._is_slow(name)) if begins_anew else portion.burst
            allowance.change(portion, tokens_max, changed_ms, now_ms)
        self._admit_waiting(now_ms, passed)

    def _admit_waiting(self, now_ms: float, passed: list[RunningAttempt]) -> None:
        """Let through what may go on by new portions, after all have them: it may need several."""
        for allowance in tuple(self._allowances.values()):
            if allowance.waiting:
                self._admit(allowance, now_ms, passed)

    def _set_portions(self, held: int, now_ms: float) -> None:
        counted = self._counted(now_ms)
        if self._portions and counted > self._shared_counted:
            self._rose_ms = now_ms
        self._shared_held, self._shared_counted = held, counted
        part = max(1, held) / self._partitions
        self._portions = {
            name: Portion.of(limit, 1.0, 1.0)
            if name in self._whole
            else Portion.of(limit, part, self._rate_share(0.0))
            for name, limit in self._limits.items()
        }

    def _counted(self, now_ms: float) -> int:
        """Return of how many partitions the node has the rate: of what it held before any loan of
        the last owner was over, it has no more than nobody lends.
        """
        if self._held is None:
            return self._partitions
        if not self.lends:
            return max(1, self._held.held)
        return sum(each + LOAN_MS <= now_ms for each in self._held.since_ms)

    def _rate_share(self, lent: float) -> float:
        """Return the node's own part of each rate, where so much is lent."""
        held, counted = max(1, self._shared_held), self._shared_counted
        if counted == held and not lent:
            return held / self._partitions
        lendable = (1 - KEPT) * counted / self._partitions
        return KEPT * held / self._partitions + max(0.0, lendable - lent)

    # What is lent and borrowed.

    def _portion_of(self, key: LimitKey) -> Portion:
        portion = self._portions[key.limit]
        if not portion.interval_ms or key not in self._loans:
            return portion
        loans = self._loans
        share = min(1.0, self._rate_share(loans.lent(key)) + loans.borrowed(key))
        return portion._replace(interval_ms=self._limits[key.limit].per_ms / share)

    def _may_lend(self, key: LimitKey, now_ms: float) -> bool:
        """Whether the node has no work for a value, and one allowance for it and no other."""
        limit = self._limits.get(key.limit)
        if limit is None or limit.rate is None or key.value.startswith(_MANY):
            return False
        allowance = self._allowances.get(key)
        if allowance is not None:
            return allowance.is_unused(now_ms - LOAN_MS)
        return len(self._allowances) < VALUES_MAX and self._made(*key).key == key

    def _change_rate(
        self, key: LimitKey, since_ms: float, now_ms: float, passed: list[RunningAttempt]
    ) -> None:
        allowance, portion = self._allowances.get(key), self._portions.get(key.limit)
        if allowance is not None and portion is not None and portion.interval_ms:
            allowance.change_rate(self._portion_of(key).interval_ms, since_ms, now_ms)
            if allowance.waiting:
                self._admit(allowance, now_ms, passed)

    def _plan_shift(self, now_ms: float) -> None:
        """Look again when a loan ends, or when partitions that came begin to count."""
        since_ms = () if self._held is None or not self.lends else self._held.since_ms
        counts_ms = [each + LOAN_MS for each in since_ms if each + LOAN_MS > now_ms]
        self._shift_ms = min([*counts_ms, self._loans.next_end_ms()])
        self._set_timer(now_ms)


def _declared(limits: NodeLimits, on_node: Mapping[str | None, str]) -> Mapping[str, Limit]:
    there = {name: Limit(concurrency=limits.on_node[kind]) for kind, name in on_node.items()}
    return {**limits.rules.limits, **there}


def _changed(declared: Mapping[str, Limit], changes: Sequence[LimitChange]) -> Mapping[str, Limit]:
    limits = dict(declared)
    for change in changes:
        if change.limit in declared:
            try:
                limits[change.limit] = change.of(declared[change.limit])
            except InvalidTask as error:
                logger.warning("a changed limit stays as it is declared here: %s", error)
    return limits
