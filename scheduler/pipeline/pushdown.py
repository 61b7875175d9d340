"""Which rows a query can want at all, from the filters that Spark hands down.

Decides which buckets are opened and never which rows a query returns: every filter is evaluated
once more by Spark, so a selection may be too wide, and must not be too narrow.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from actors.model.bucket import HOUR_MS, hour_of
from actors.model.instant import INSTANT_MAX_MS, INSTANT_MIN_MS
from actors.model.partition import partition_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


EVER = (INSTANT_MIN_MS, INSTANT_MAX_MS + 1)
"""All scheduled times there are."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Bounds of what is wanted; None is no bound."""

    first_ms: int = EVER[0]
    end_ms: int = EVER[1]
    """Scheduled times are wanted in [first, end)."""
    partitions: frozenset[int] | None = None
    ordering_ids: frozenset[str] | None = None
    states: frozenset[str] | None = None
    """Values of ``state`` or ``result``, whichever the table has."""

    def partitions_of(self, count: int) -> frozenset[int]:
        """Return the partitions to look into, of ``count``."""
        wanted = frozenset(range(count))
        if self.partitions is not None:
            wanted &= self.partitions
        if self.ordering_ids is not None:
            wanted &= {partition_of(each, count) for each in self.ordering_ids if each}
        return wanted

    def is_whole(self) -> bool:
        """Whether a row of any bucket can be wanted."""
        unnamed = self.partitions is None and self.ordering_ids is None
        return unnamed and (self.first_ms, self.end_ms) == EVER

    def is_empty(self) -> bool:
        """Whether nothing can be wanted."""
        named = (self.partitions, self.ordering_ids, self.states)
        return self.first_ms >= self.end_ms or frozenset() in named

    def narrowed(self, wanted: Filter) -> "Selection":
        """Return the selection with one more filter; what is not understood changes nothing."""
        path: tuple[str, ...] = getattr(wanted, "attribute", ())
        if len(path) != 1:
            return self
        match path[0]:
            case "scheduled_time":
                return self._within(*_span(wanted, 1))
            case "hour":
                return self._within(*_span(wanted, HOUR_MS))
            case "partition":
                return replace(self, partitions=_both(self.partitions, _values(wanted, int)))
            case "ordering_id":
                return replace(self, ordering_ids=_both(self.ordering_ids, _values(wanted, str)))
            case "state" | "result":
                return replace(self, states=_both(self.states, _values(wanted, str)))
            case _:
                return self

    def _within(self, first_ms: int, end_ms: int) -> "Selection":
        return replace(self, first_ms=max(self.first_ms, first_ms), end_ms=min(self.end_ms, end_ms))


def selection_of(filters: Iterable[Filter]) -> Selection:
    """Return the selection of filters that must all hold."""
    selection = Selection()
    for each in filters:
        selection = selection.narrowed(each)
    return selection


def _span(wanted: Filter, step_ms: int) -> tuple[int, int]:
    """Return the scheduled times [first, end) of a bound on a column that stands for ``step_ms``
    of them: 1 for the time itself, an hour for the bucket.
    """
    if isinstance(wanted, In):
        if not wanted.value or not all(isinstance(value, datetime) for value in wanted.value):
            return EVER
        steps = [_step(value, step_ms) for value in wanted.value]
        return min(steps), max(steps) + step_ms
    value = getattr(wanted, "value", None)
    if not isinstance(value, datetime):
        return EVER
    start_ms = _step(value, step_ms)
    match wanted:
        case EqualTo() | EqualNullSafe():
            return start_ms, start_ms + step_ms
        case GreaterThan() | GreaterThanOrEqual():
            # One that is no whole step may be taken too low, never too high.
            return start_ms, EVER[1]
        case LessThan() if start_ms * 1000 == _micros(value):
            return EVER[0], start_ms
        case LessThan() | LessThanOrEqual():
            return EVER[0], start_ms + step_ms
        case _:
            return EVER


def _step(value: datetime, step_ms: int) -> int:
    """Return the start of the step that a moment lies in."""
    time_ms = _micros(value) // 1000
    return hour_of(time_ms) if step_ms == HOUR_MS else time_ms


def _micros(value: datetime) -> int:
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def _values(wanted: Filter, kind: type) -> frozenset[Any] | None:
    """Return the values a column may have by this filter; None where it does not tell."""
    match wanted:
        case EqualTo(value=value) | EqualNullSafe(value=value) if isinstance(value, kind):
            return frozenset([value])
        case In(value=values) if all(isinstance(value, kind) for value in values):
            return frozenset(values)
        case _:
            return None


def _both(known: frozenset[Any] | None, more: frozenset[Any] | None) -> frozenset[Any] | None:
    if known is None or more is None:
        return known if more is None else more
    return known & more
