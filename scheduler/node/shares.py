"""The portion of each limit that one node has.

A node has the share of a limit that it has of the partitions: what all nodes let through is the
limit, and nobody is asked.  Of rates it lends and borrows what ``loans`` says.  Decides how large a
portion is and when it changes, never who may go.  Used under the lock of the limiter.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from actors.model.errors import InvalidTask
from actors.model.flow import Limit, LimitKey
from actors.model.limit_change import LimitChange
from actors.model.oversight import NodeReport, RateShare
from scheduler.node.allowance import NEVER_MS, Portion
from scheduler.node.loans import KEPT, LOAN_MS, Loans
from scheduler.node.node_limits import NodeLimits

logger = logging.getLogger("hourhand.runner")

FIRST_MS = 1_000.0
"""A node that has a partition anew waits no longer than this with the first start of a value, from
when its rate counts."""


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


class PartitionsChange(NamedTuple):
    """Portions by other partitions than before."""

    since_ms: float
    """When the node began to hold them: from then up to now nothing is gained."""
    begins_anew: bool
    """Whether it held none meanwhile: what it did not use then, others did."""


def node_limit_of(kind: str | None) -> str:
    """Name the limit of how many attempts of a kind run at once on a node, whatever others do."""
    return f"{kind or ''}@node"


class Shares:
    """What one node has of all limits."""

    def __init__(self, limits: NodeLimits) -> None:
        there = {node_limit_of(k): Limit(concurrency=n) for k, n in limits.on_node.items()}
        self.declared: Mapping[str, Limit] = {**limits.rules.limits, **there}
        """All limits by name, as the code has them."""
        self._limits: Mapping[str, Limit] = self.declared
        self._of_node = frozenset(there)
        self._held, self._partitions = limits.held, limits.partitions
        self.loans = Loans()
        self.lends = limits.lend and any(each.rate for each in self.declared.values())
        """Whether there is anything to lend or borrow."""
        self.next_change_ms = -NEVER_MS if self.lends else NEVER_MS
        """When portions change by the mere passing of time; the first look finds out."""
        self._changed_ms: float | None = None
        """Since when the node holds other partitions than its portions are of."""
        self._was_without = self._held is not None and not self._held.held
        """Whether it held none at any time since its portions were set."""
        self._rates_rose_ms = -NEVER_MS
        """When the rate of partitions that came was counted last."""
        self._slots_of = self._rates_of = 0
        """Of how many partitions the node has burst and slots, and of how many the rate."""
        self._portions: dict[str, Portion] = {}
        self._set_portions(self._partitions if self._held is None else self._held.held, 0.0)

    # What a node has.

    def of_new_value(self, limit: str) -> tuple[Portion, float]:
        """Return the portion of a value that was not used since partitions came, and when all its
        tokens are there.

        What their last owner let through is not known: it begins without tokens then, but for one
        where the next is far away, as nobody would wait for days after a restart.
        """
        portion = self._portions[limit]
        if self._held is None or not portion.interval_ms:
            return portion, 0.0
        if self._is_slow(limit):
            first_ms = max(self._held.gained_ms + FIRST_MS, self._rates_rose_ms)
        else:
            first_ms = max(self._held.gained_ms, self._rates_rose_ms) + portion.interval_ms
        return portion, first_ms + (portion.burst - 1) * portion.interval_ms

    def portion_of(self, key: LimitKey) -> Portion:
        """Return the portion of a value, with what is lent and borrowed of it."""
        portion = self._portions[key.limit]
        if not portion.interval_ms or key not in self.loans:
            return portion
        share = min(1.0, self._rate_share(self.loans.lent(key)) + self.loans.borrowed(key))
        return portion._replace(interval_ms=self._limits[key.limit].per_ms / share)

    def interval_ms(self, key: LimitKey) -> float:
        """Return the time between two starts of a value; 0 where its limit has no rate."""
        return self.portion_of(key).interval_ms if key.limit in self._portions else 0.0

    def tokens_kept(self, key: LimitKey, change: PartitionsChange) -> float:
        """Return how many tokens a value keeps at most over a change of partitions."""
        if change.begins_anew:
            return float(self._is_slow(key.limit))
        return self._portions[key.limit].burst

    def is_of_node(self, limit: str) -> bool:
        """Whether a limit is one of this node alone, of which it has the whole."""
        return limit in self._of_node

    @property
    def has_rates(self) -> bool:
        """Whether any limit has a rate."""
        return any(each.rate for each in self._limits.values())

    def rates(self) -> NodeRates:
        """Return what the node may start of rates."""
        rates = {name: 1_000 / each.per_ms for name, each in self._limits.items() if each.rate}
        if self._held is not None and not self._held.held:
            # It may start nothing, whatever share it begins with when a partition comes.
            return NodeRates(rates, 0.0, ())
        loans = self.loans
        shares = [
            RateShare(*key, self._rate_share(lent), lent, loans.borrowed(key))
            for key in loans
            for lent in (loans.lent(key),)
        ]
        return NodeRates(rates, self._rate_share(0.0), shares)

    # When that changes.

    def note_change(self, now_ms: float) -> None:
        """The node holds other partitions from now on; ``take_partitions`` says what follows."""
        assert self._held is not None, "somebody says how many they are"
        if self._changed_ms is None:
            self._changed_ms = now_ms
        self._was_without = self._was_without or not self._held.held

    def may_have_changed(self, now_ms: float) -> bool:
        """Whether portions are to be looked at."""
        return self._changed_ms is not None or now_ms >= self.next_change_ms

    def end_loans(self, now_ms: float) -> Mapping[LimitKey, float]:
        """Forget the loans that are over; return since when, by limit and value."""
        if now_ms < self.next_change_ms:
            return {}
        ended = self.loans.end(now_ms)
        if self._changed_ms is None and self._counted(now_ms) != self._rates_of:
            self._changed_ms = now_ms
        return ended

    def take_partitions(self, now_ms: float) -> PartitionsChange | None:
        """Have the share of the partitions that are held now; None where it is the same.

        Without any partition the share does not matter.
        """
        change = None
        if self._changed_ms is not None:
            assert self._held is not None, "somebody said that there is a change"
            if held := self._held.held:
                change = PartitionsChange(self._changed_ms, self._was_without)
                self._changed_ms, self._was_without = None, False
                self._set_portions(held, now_ms)
        self._plan(now_ms)
        return change

    def change(self, changes: Sequence[LimitChange], now_ms: float) -> Sequence[ChangedLimit]:
        """Go by what operators say of limits, and return what is not as before."""
        before, limits = self._limits, _changed(self.declared, changes)
        changed = [
            ChangedLimit(name, before[name], limit)
            for name, limit in limits.items()
            if before[name] != limit
        ]
        if changed:
            self._limits = limits
            self._set_portions(self._slots_of, now_ms)
        return changed

    def apply_reports(
        self,
        node: str,
        reports: Sequence[NodeReport],
        now_ms: float,
        may_lend: Callable[[LimitKey], bool],
    ) -> set[LimitKey]:
        """Take what others lend, and lend what they wait for; return what has another rate now."""
        changed = self.loans.take(node, reports, now_ms)
        asking = self.loans.asking(node, reports)
        if asking and self._held is not None and now_ms < self._held.alone_until_ms:
            lendable = (1 - KEPT) * self._counted(now_ms) / self._partitions
            for key, askers in asking.items():
                limit = self._limits.get(key.limit)
                has_rate = limit is not None and limit.rate is not None
                if has_rate and may_lend(key) and self.loans.give(key, askers, lendable, now_ms):
                    changed.add(key)
        self._plan(now_ms)
        return changed

    def _set_portions(self, held: int, now_ms: float) -> None:
        counted = self._counted(now_ms)
        if self._portions and counted > self._rates_of:
            self._rates_rose_ms = now_ms
        self._slots_of, self._rates_of = held, counted
        part = max(1, held) / self._partitions
        self._portions = {
            name: Portion.of(limit, 1.0, 1.0)
            if name in self._of_node
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
        held, counted = max(1, self._slots_of), self._rates_of
        if counted == held and not lent:
            return held / self._partitions
        lendable = (1 - KEPT) * counted / self._partitions
        return KEPT * held / self._partitions + max(0.0, lendable - lent)

    def _is_slow(self, limit: str) -> bool:
        """Whether this node's starts of one value are over a second apart, by what it holds."""
        per_ms = self._limits[limit].per_ms
        return per_ms * self._partitions > FIRST_MS * max(1, self._slots_of)

    def _plan(self, now_ms: float) -> None:
        """Look again when a loan ends, or when partitions that came begin to count."""
        since_ms = () if self._held is None or not self.lends else self._held.since_ms
        counts_ms = [each + LOAN_MS for each in since_ms if each + LOAN_MS > now_ms]
        self.next_change_ms = min([*counts_ms, self.loans.next_end_ms()])


def _changed(declared: Mapping[str, Limit], changes: Sequence[LimitChange]) -> Mapping[str, Limit]:
    limits = dict(declared)
    for change in changes:
        if change.limit in declared:
            try:
                limits[change.limit] = change.of(declared[change.limit])
            except InvalidTask as error:
                logger.warning("a changed limit stays as it is declared here: %s", error)
    return limits
