"""The node's portion of each limit.

A node's share of a limit is its share of the partitions, so that all nodes together let through the
limit without asking each other.  ``loans`` adds and removes parts of rates.  Decides the size of
a portion and the time of a change, never which attempt may go.  Used under the limiter's lock.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from hourhand.actors.model.flow.flow import REST, Limit, LimitKey
from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.operations.oversight import NodeReport, RateShare
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.scheduler.node.limits.allowance import NEVER_MS, Portion
from hourhand.scheduler.node.limits.loans import KEPT, LOAN_MS, Loans
from hourhand.scheduler.node.limits.node_limits import NodeLimits

logger = logging.getLogger("hourhand.runner")

FIRST_MS = 1_000.0
"""Longest wait before the first start of a value on a node with a new partition, from the time its
rate counts."""


class ChangedLimit(NamedTuple):
    """A limit with new numbers from now on."""

    name: str
    before: Limit
    after: Limit


class NodeRates(NamedTuple):
    """One node's part of the limits with a rate; empty if there are none."""

    rates_per_s: Mapping[LimitKey, float]
    """The rate of each limit in the whole cluster: of values with a rate of their own, and, as
    ``REST``, of each other value."""
    share: float
    """The node's part of each rate without loans."""
    loans: Sequence[RateShare]
    """The parts of rates with loans."""


NO_RATES = NodeRates({}, 0.0, ())


class PartitionsChange(NamedTuple):
    """A change of portions, because the node owns other partitions."""

    since_ms: float
    """Monotonic time of the change: no tokens are gained from then until now."""
    begins_anew: bool
    """True if the node owned none meanwhile: other nodes have used its tokens."""


def node_limit_of(kind: str | None) -> str:
    """Return the name of the limit for a kind's attempts on one node."""
    return f"{kind or ''}@node"


class Shares:
    """The node's portions of all limits."""

    def __init__(self, limits: NodeLimits) -> None:
        there = {node_limit_of(k): Limit(concurrency=n) for k, n in limits.on_node.items()}
        self.declared: Mapping[str, Limit] = {**limits.rules.limits, **there}
        """All limits by name, as the code has them."""
        self._limits: Mapping[str, Limit] = self.declared
        self._of_values = _of_values(self._limits)
        self._of_node = frozenset(there)
        self._owned, self._partitions = limits.owned, limits.partitions
        self.loans = Loans()
        self.lends = limits.lend and any(each.rate for each in self.declared.values())
        """True if there are rates to lend or borrow."""
        self.next_change_ms = -NEVER_MS if self.lends else NEVER_MS
        """Monotonic time at which portions change by the passage of time; the first look computes
        it."""
        self._changed_ms: float | None = None
        """Monotonic time since which the node's portions do not fit its partitions; None if they
        do."""
        self._was_without = self._owned is not None and not self._owned.count
        """True if the node owned no partition at some time since its portions were set."""
        self._rates_rose_ms = -NEVER_MS
        """Monotonic time at which the rate of new partitions was last counted."""
        self._slots_of = self._rates_of = 0
        """Numbers of partitions whose burst and slots, and whose rate, the node has."""
        self._portions: dict[LimitKey, Portion] = {}
        """By limit and named value, or ``REST``; without loans."""
        self._set_portions(self._partitions if self._owned is None else self._owned.count, 0.0)

    # Portions.

    def is_named(self, key: LimitKey) -> bool:
        """True if a value has a rate of its own."""
        return key.value != REST and key in self._of_values

    def of_new_value(self, key: LimitKey) -> tuple[Portion, float]:
        """Return the portion of a value that was not used since partitions came, and the monotonic
        time at which its bucket is full.

        The starts of their last owner are not known, so the bucket begins empty.  A slow rate
        begins with one token: otherwise a value might wait for days after a restart.
        """
        portion = self._own_portion(key)
        if self._owned is None or not portion.interval_ms:
            return portion, 0.0
        if self._is_slow(key):
            first_ms = max(self._owned.gained_ms + FIRST_MS, self._rates_rose_ms)
        else:
            first_ms = max(self._owned.gained_ms, self._rates_rose_ms) + portion.interval_ms
        return portion, first_ms + (portion.burst - 1) * portion.interval_ms

    def portion_of(self, key: LimitKey) -> Portion:
        """Return the portion of a value, with its loans."""
        portion = self._own_portion(key)
        if not portion.interval_ms or key not in self.loans:
            return portion
        share = min(1.0, self._rate_share(self.loans.lent(key)) + self.loans.borrowed(key))
        return portion._replace(interval_ms=self._of_value(key).per_ms / share)

    def interval_ms(self, key: LimitKey) -> float:
        """Return the time between two starts of a value; 0 if its limit has no rate."""
        return self.portion_of(key).interval_ms if key.limit in self._limits else 0.0

    def tokens_kept(self, key: LimitKey, change: PartitionsChange) -> float:
        """Return the most tokens that a value keeps over a change of partitions."""
        if change.begins_anew:
            return float(self._is_slow(key))
        return self._own_portion(key).burst

    def is_of_node(self, limit: str) -> bool:
        """True if a limit is of this node alone, which has the whole of it."""
        return limit in self._of_node

    @property
    def has_rates(self) -> bool:
        """True if any limit has a rate."""
        return any(each.rate for each in self._limits.values())

    def rates(self) -> NodeRates:
        """Return the node's part of each rate."""
        rates = {key: 1_000 / each.per_ms for key, each in self._of_values.items() if each.rate}
        if self._owned is not None and not self._owned.count:
            # A node without partitions starts no task, whatever its first share will be.
            return NodeRates(rates, 0.0, ())
        loans = self.loans
        shares = [
            RateShare(*key, self._rate_share(lent), lent, loans.borrowed(key))
            for key in loans
            for lent in (loans.lent(key),)
        ]
        return NodeRates(rates, self._rate_share(0.0), shares)

    # Changes of portions.

    def note_change(self, now_ms: float) -> None:
        """Note that the node owns other partitions; ``take_partitions`` applies that."""
        assert self._owned is not None, "somebody says how many they are"
        if self._changed_ms is None:
            self._changed_ms = now_ms
        self._was_without = self._was_without or not self._owned.count

    def may_have_changed(self, now_ms: float) -> bool:
        """True if portions may have to change."""
        return self._changed_ms is not None or now_ms >= self.next_change_ms

    def end_loans(self, now_ms: float) -> Mapping[LimitKey, float]:
        """Remove loans that are over; return the time of the end, by limit and value."""
        if now_ms < self.next_change_ms:
            return {}
        ended = self.loans.end(now_ms)
        if self._changed_ms is None and self._counted(now_ms) != self._rates_of:
            self._changed_ms = now_ms
        return ended

    def take_partitions(self, now_ms: float) -> PartitionsChange | None:
        """Set the portions by the partitions owned now; return the change, None if there is none.

        Without a partition the portions stay: they do not matter.
        """
        change = None
        if self._changed_ms is not None:
            assert self._owned is not None, "somebody said that there is a change"
            if owned := self._owned.count:
                change = PartitionsChange(self._changed_ms, self._was_without)
                self._changed_ms, self._was_without = None, False
                self._set_portions(owned, now_ms)
        self._plan(now_ms)
        return change

    def change(self, changes: Sequence[LimitChange], now_ms: float) -> Sequence[ChangedLimit]:
        """Apply the operators' changes of limits; return the limits that changed."""
        before, limits = self._limits, _changed(self.declared, changes)
        changed = [
            ChangedLimit(name, before[name], limit)
            for name, limit in limits.items()
            if before[name] != limit
        ]
        if changed:
            self._limits, self._of_values = limits, _of_values(limits)
            self._set_portions(self._slots_of, now_ms)
        return changed

    def apply_reports(
        self,
        node: str,
        reports: Sequence[NodeReport],
        now_ms: float,
        may_lend: Callable[[LimitKey], bool],
    ) -> set[LimitKey]:
        """Take and give loans by other nodes' reports; return the limits and values whose rate
        changed.
        """
        changed = self.loans.take(node, reports, now_ms)
        asking = self.loans.asking(node, reports)
        if asking and self._owned is not None and now_ms < self._owned.alone_until_ms:
            lendable = (1 - KEPT) * self._counted(now_ms) / self._partitions
            for key, askers in asking.items():
                limit = self._limits.get(key.limit)
                has_rate = limit is not None and limit.rate is not None
                if has_rate and may_lend(key) and self.loans.give(key, askers, lendable, now_ms):
                    changed.add(key)
        self._plan(now_ms)
        return changed

    def _set_portions(self, owned: int, now_ms: float) -> None:
        counted = self._counted(now_ms)
        if self._portions and counted > self._rates_of:
            self._rates_rose_ms = now_ms
        self._slots_of, self._rates_of = owned, counted
        part = max(1, owned) / self._partitions
        self._portions = {
            key: Portion.of(limit, 1.0, 1.0)
            if key.limit in self._of_node
            else Portion.of(limit, part, self._rate_share(0.0))
            for key, limit in self._of_values.items()
        }

    def _own_portion(self, key: LimitKey) -> Portion:
        """Return the portion of a value without its loans."""
        return self._portions.get(key) or self._portions[LimitKey(key.limit, REST)]

    def _of_value(self, key: LimitKey) -> Limit:
        return self._of_values.get(key) or self._of_values[LimitKey(key.limit, REST)]

    def _counted(self, now_ms: float) -> int:
        """Return the number of partitions whose whole rate the node has.  A new partition gives it
        only the part that is never lent, until any loan of the last owner is over.
        """
        if self._owned is None:
            return self._partitions
        if not self.lends:
            return max(1, self._owned.count)
        return sum(each + LOAN_MS <= now_ms for each in self._owned.since_ms)

    def _rate_share(self, lent: float) -> float:
        """Return the node's own part of each rate, minus a lent part."""
        owned, counted = max(1, self._slots_of), self._rates_of
        if counted == owned and not lent:
            return owned / self._partitions
        lendable = (1 - KEPT) * counted / self._partitions
        return KEPT * owned / self._partitions + max(0.0, lendable - lent)

    def _is_slow(self, key: LimitKey) -> bool:
        """True if this node's starts of a value are over a second apart."""
        per_ms = self._of_value(key).per_ms
        return per_ms * self._partitions > FIRST_MS * max(1, self._slots_of)

    def _plan(self, now_ms: float) -> None:
        """Plan a look for the next end of a loan, or the time when a new partition counts."""
        since_ms = () if self._owned is None or not self.lends else self._owned.since_ms
        counts_ms = [each + LOAN_MS for each in since_ms if each + LOAN_MS > now_ms]
        self.next_change_ms = min([*counts_ms, self.loans.next_end_ms()])


def _of_values(limits: Mapping[str, Limit]) -> Mapping[LimitKey, Limit]:
    """Return the limit of each value with a rate of its own, and of the rest."""
    return {
        LimitKey(name, value): limit.of_value(value)
        for name, limit in limits.items()
        for value in (REST, *limit.named_rates)
    }


def _changed(declared: Mapping[str, Limit], changes: Sequence[LimitChange]) -> Mapping[str, Limit]:
    limits = dict(declared)
    for change in changes:
        if change.limit in declared:
            try:
                limits[change.limit] = change.of(declared[change.limit])
            except InvalidTask as error:
                logger.warning("a changed limit stays as it is declared here: %s", error)
    return limits
