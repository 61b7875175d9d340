"""Limits at run time: the nodes' declarations, the operators' changes, and the limits in effect.

Decides which changes are valid. The declared limits are known from the nodes' reports.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from heapq import nlargest
from typing import Literal, NamedTuple, Self

from hourhand.actors.model.flow.flow import Limit
from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.oversight import NodeReport, RateShare
from hourhand.actors.model.values.display import shown, storable_text
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.admin.answers import Answer, Instant, instant_text
from hourhand.scheduler.admin.config_changes import ConfigChanges
from hourhand.scheduler.admin.problems import Problem

_REASON_CHARS_MAX = 300
_NAMED_MAX = 20
_VALUES_MAX = 200


class LimitNumbers(Answer, frozen=True):
    """The numbers of a limit; null means that there is no limit of that sort."""

    rate: float | None
    """Starts in each ``perMs`` of each value of the key that is not among ``rates``."""
    per_ms: int | None
    burst: int | None
    concurrency: int | None
    rates: Mapping[str, float] = {}
    """Starts of the values that have a rate of their own."""

    @classmethod
    def of(cls, limit: Limit) -> Self:
        """Show a limit."""
        limits_starts = limit.rate is not None
        return cls(
            rate=limit.rest_rate,
            per_ms=round(1000 * limit.per.total_seconds()) if limits_starts else None,
            burst=limit.burst_tasks if limits_starts else None,
            concurrency=limit.concurrency,
            rates=limit.named_rates,
        )


class ShownLimitChange(Answer, frozen=True):
    """An operator's change; null is as declared."""

    rate: float | None
    per_ms: int | None
    burst: int | None
    concurrency: int | None
    since: Instant | None
    who: str
    reason: str
    rates: Mapping[str, float] = {}
    """Changed rates of single values."""

    @classmethod
    def of(cls, change: LimitChange) -> Self:
        """Show a change."""
        return cls(
            rate=change.rate,
            per_ms=change.per_ms,
            burst=change.burst,
            concurrency=change.concurrency,
            since=instant_text(change.changed_ms),
            who=change.who,
            reason=change.reason,
            rates=change.rates,
        )


class NodeRate(Answer, frozen=True):
    """One node's part of a limit's rate."""

    node: str
    own: float
    """The rate from its own partitions, minus the rate that it lends."""
    lent: float
    borrowed: float
    rate: float
    """Starts in each ``perMs`` of the limit: its own and the borrowed ones."""


class ValueRate(Answer, frozen=True):
    """The nodes' parts of a limit's rate, for one value of its key."""

    value: str | None
    """Null: all values that have no rate of their own and of which no node lends a part. Empty if
    the limit has no key."""
    own: float
    lent: float
    borrowed: float
    rate: float
    """The sum of the nodes' rates."""
    nodes: list[NodeRate]
    """For a value that is lent, the nodes that lend or borrow it; all others have their own
    part."""


class LimitSetting(Answer, frozen=True):
    """One limit."""

    limit: str
    """Its name: the kind, ``#`` and its place in the declaration; or the kind and ``@node``."""
    state: Literal["declared", "changed", "unused"]
    """``unused``: changed, but no reporting node declares it, or the change does not fit."""
    key: str | None
    """The path into the data; each value there has an allowance of its own."""
    declared: LimitNumbers | None
    effective: LimitNumbers | None
    changed: ShownLimitChange | None
    rates: list[ValueRate]
    """The nodes' current rates, the values of which most is lent first; empty without a rate."""


class LimitSettings(Answer, frozen=True):
    """All declared limits, and all that operators changed."""

    version: int
    """Version of the operator config that is in force."""
    limits: list[LimitSetting]

    @classmethod
    def of(
        cls, config: OperatorConfig, declared: Mapping[str, Limit], reports: Sequence[NodeReport]
    ) -> Self:
        """Show the limits in effect, and the nodes' reported parts of rates."""
        names = sorted({*declared, *(each.limit for each in config.limits)})
        return cls(
            version=config.version,
            limits=[
                _setting(name, declared.get(name), config.change_of(name), reports)
                for name in names
            ],
        )


class ChangedLimits(NamedTuple):
    """The result of a change."""

    config: OperatorConfig
    words: str
    """The limits in effect before and after."""


class Limits:
    """Changes the limits of an installation."""

    def __init__(
        self,
        config_changes: ConfigChanges,
        declared: Callable[[], Mapping[str, Limit]],
        rates: Callable[[], Sequence[NodeReport]],
        clock: Clock,
    ) -> None:
        """``declared`` returns the limits that nodes declare, by name; ``rates`` the reports of
        nodes that have rate limits.
        """
        self._config_changes = config_changes
        self._declared = declared
        self._rates = rates
        self._clock = clock

    def settings(self, config: OperatorConfig | None = None) -> LimitSettings:
        """Return every limit, of the given operator config or of the one in force."""
        known = self._config_changes.config() if config is None else config
        return LimitSettings.of(known, self._declared(), self._rates())

    def planned(self, change: LimitChange) -> dict[str, LimitNumbers]:
        """Return the limits before and after a change; InvalidTask or Problem if it is not
        possible.
        """
        declared = self._declared_limit(change.limit)
        earlier = self._config_changes.config().change_of(change.limit)
        return {
            "before": LimitNumbers.of(_holding(declared, earlier)),
            "after": LimitNumbers.of(change.on_top_of(earlier).of(declared)),
        }

    def change(self, change: LimitChange, who: str, reason: str) -> ChangedLimits:
        """Change the numbers given, and leave the others of this limit as they are."""
        declared = self._declared_limit(change.limit)
        signed = change.signed(
            self._clock.now_ms(),
            storable_text(who)[:100],
            storable_text(reason)[:_REASON_CHARS_MAX],
        )
        words = ""

        def changed(config: OperatorConfig) -> OperatorConfig:
            nonlocal words
            earlier = config.change_of(change.limit)
            merged = signed.on_top_of(earlier)
            words = f"{_holding(declared, earlier)} -> {merged.of(declared)}"
            if earlier is not None and earlier.numbers == merged.numbers:
                return config
            return config.with_limit(merged)

        return ChangedLimits(self._config_changes.change(changed), words)

    def reset(self, names: Collection[str]) -> ChangedLimits:
        """Reset limits to their declaration; Problem for an unknown name."""
        known = {each.limit for each in self._config_changes.config().limits}
        for name in names:
            if name not in known:
                self._declared_limit(name)
        declared = self._declared()
        words = ""

        def changed(config: OperatorConfig) -> OperatorConfig:
            nonlocal words
            lifted = [each for each in config.limits if each.limit in names]
            words = "; ".join(_reset_words(each, declared.get(each.limit)) for each in lifted)
            return config.without_limits(names)

        config = self._config_changes.change(changed)
        return ChangedLimits(config, words or "nothing was changed")

    def _declared_limit(self, name: str) -> Limit:
        declared = self._declared()
        if name not in declared:
            listed = ", ".join(sorted(declared)[:_NAMED_MAX]) or "none"
            text = f"no running node declares a limit {shown(name)}; declared are: {listed}"
            raise Problem(404, "no-such-limit", text)
        return declared[name]


def _holding(declared: Limit, change: LimitChange | None) -> Limit:
    """Return the limit in effect on nodes that declare this one; they ignore a change that does not
    fit.
    """
    try:
        return declared if change is None else change.of(declared)
    except InvalidTask:
        return declared


def _setting(
    name: str,
    declared: Limit | None,
    change: LimitChange | None,
    reports: Sequence[NodeReport],
) -> LimitSetting:
    effective = None if declared is None else _holding(declared, change)
    is_used = effective is not None and (change is None or _fits(declared, change))
    state: Literal["declared", "changed", "unused"]
    state = "unused" if not is_used else "declared" if change is None else "changed"
    return LimitSetting(
        limit=name,
        state=state,
        key=None if declared is None else declared.key,
        declared=None if declared is None else LimitNumbers.of(declared),
        effective=None if effective is None else LimitNumbers.of(effective),
        changed=None if change is None else ShownLimitChange.of(change),
        rates=[] if effective is None else _rates(name, effective, reports),
    )


def _rates(name: str, limit: Limit, reports: Sequence[NodeReport]) -> list[ValueRate]:
    """Return the nodes' rates of a limit: first for values that nobody lends, then for the
    others.
    """
    reports = [each for each in reports if any(known.limit == name for known in each.limits)]
    lent: defaultdict[str, dict[str, RateShare]] = defaultdict(dict)
    for report in reports:
        for share in report.rate_shares:
            if share.limit == name:
                lent[share.value][report.node] = share
    rest = limit.rest_rate
    if rest is None or not reports:
        return []
    if limit.key is None:
        return [_rate_of("", rest, reports, lent[""], lists_all=True)]
    named = limit.named_rates
    rates = [
        _rate_of(value, named.get(value, rest), reports, lent.get(value, {}))
        for value in {**lent, **named}
    ]
    largest = nlargest(_VALUES_MAX, rates, key=lambda each: each.lent + each.borrowed)
    return [_rate_of(None, rest, reports, {}, lists_all=True), *largest]


def _rate_of(
    value: str | None,
    rate: float,
    reports: Sequence[NodeReport],
    shares: Mapping[str, RateShare],
    *,
    lists_all: bool = False,
) -> ValueRate:
    nodes = [_node_rate(each, rate, shares.get(each.node)) for each in reports]
    return ValueRate(
        value=value,
        own=_short(sum(each.own for each in nodes)),
        lent=_short(sum(each.lent for each in nodes)),
        borrowed=_short(sum(each.borrowed for each in nodes)),
        rate=_short(sum(each.rate for each in nodes)),
        nodes=[each for each in nodes if lists_all or each.node in shares],
    )


def _node_rate(report: NodeReport, rate: float, share: RateShare | None) -> NodeRate:
    own = (report.rate_share or 0.0) if share is None else share.own
    lent, borrowed = (0.0, 0.0) if share is None else (share.lent, share.borrowed)
    return NodeRate(
        node=report.node,
        own=_short(own),
        lent=_short(lent),
        borrowed=_short(borrowed),
        rate=_short(rate * min(1.0, own + borrowed)),
    )


def _short(number: float) -> float:
    return round(number, 4)


def _fits(declared: Limit | None, change: LimitChange) -> bool:
    if declared is None:
        return False
    try:
        change.of(declared)
    except InvalidTask:
        return False
    return True


def _reset_words(change: LimitChange, declared: Limit | None) -> str:
    if declared is None:
        return f"{change.limit}: no longer changed"
    return f"{change.limit}: {_holding(declared, change)} -> {declared}"


def limit_words(names: Sequence[str]) -> str:
    """Return limits in words: one by name, several by number."""
    return names[0] if len(names) == 1 else f"{len(names)} limits"
