"""The numbers behind the metrics: plain integers, incremented where events happen.

No lock: CPython changes threads between a call and the next, never inside ``cell.value += 1``, so
an increment by any thread counts (test_node_telemetry.py tries it). Children are looked up once and
kept. Others decide when to count, and how to show the numbers.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hourhand.actors.model.operations.oversight import LATENESS_MS
from hourhand.scheduler.observe.metric_catalogue import CATALOGUE, Kind, Metric

Labels = tuple[str, ...]
OTHER = "other"

_FINER_BOUNDS_MS = {"attempt_delay_seconds": LATENESS_MS}
"""A report's bounds in addition to those of the metric, so that one count serves both."""

OF_A_PARTITION = (
    "waiting_tasks",
    "executing_tasks",
    "busy_ids",
    "held_ids",
    "watermark_timestamp_seconds",
    "straggler_ids",
    "watermark_held_ids",
    "partition_held",
    "oldest_overdue_seconds",
    "outcomes_lag_seconds",
)
"""Gauges that end with the ownership of their partition."""


class Count:
    """A number that is incremented, or set for a gauge."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0


class Distribution:
    """The number of observations in each bucket, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total: float = 0

    def observe(self, value: float) -> None:
        """Add one observation, in the unit of the bounds."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def within(self, bounds: Sequence[float]) -> tuple[int, ...]:
        """Return the counts by wider buckets; each of their bounds must be one of the finer
        ones.
        """
        counts, begin, folded = list(self.counts), 0, []
        for bound in bounds:
            end = self.bounds.index(bound) + 1
            folded.append(sum(counts[begin:end]))
            begin = end
        return (*folded, sum(counts[begin:]))


class Family(dict[Any, Any]):
    """One metric: its cells by label value, or by a tuple of them where there are several."""

    def __init__(self, metric: Metric) -> None:
        super().__init__()
        self.metric = metric
        self.scale = 1000.0 if metric.name.endswith("_seconds") else 1.0
        """Times are counted in milliseconds and shown in seconds."""
        self._shown = tuple(round(bound * self.scale, 6) for bound in metric.buckets)
        finer = _FINER_BOUNDS_MS.get(metric.name, ())
        self._bounds = tuple(sorted({*self._shown, *finer}))
        self.derive: Callable[[], Mapping[Any, float]] | None = None
        """If set, the values are computed at each read."""
        for word in metric.words or (() if metric.labels else ("",)):
            self[word]

    def __missing__(self, label: Any) -> Any:
        made = Distribution(self._bounds) if self.metric.kind is Kind.HISTOGRAM else Count()
        return self.setdefault(label, made)

    def forget(self, label: object) -> None:
        """Drop a cell, so that a partition that was given up is not reported for ever."""
        self.pop(label, None)

    def values_by_label(self) -> Iterator[tuple[Labels, float]]:
        """Yield the cells of a counter or gauge, in the unit that is shown."""
        if self.derive is not None:
            for label, value in self.derive().items():
                yield self._labels(label), value
            return
        for label, cell in list(self.items()):
            yield self._labels(label), cell.value / self.scale

    def distributions(self) -> Iterator[tuple[Labels, tuple[int, ...], float]]:
        """Yield the cells of a histogram: counts by bucket, and the sum in the unit shown."""
        for label, cell in list(self.items()):
            yield self._labels(label), cell.within(self._shown), cell.total / self.scale

    def _labels(self, label: object) -> Labels:
        if not self.metric.labels:
            return ()
        return tuple(map(str, label)) if isinstance(label, tuple) else (str(label),)


class BoundedLabels(set[str]):
    """Label values that come from outside: the first ones up to a limit, and one for all others."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def of(self, value: str) -> str:
        """Return the label under which a value is counted."""
        if value not in self:
            if len(self) >= self._most:
                return OTHER
            self.add(value)
        return value


class Meters(dict[str, Family]):
    """Every family of the catalogue, by name."""

    def __init__(self) -> None:
        super().__init__({name: Family(metric) for name, metric in CATALOGUE.items()})

    def derive(self, name: str, read: Callable[[], Mapping[Any, float]]) -> None:
        """Compute a metric's values at each read."""
        self[name].derive = read

    def only(self, name: str) -> Any:
        """Return the one cell of a metric without labels."""
        return self[name][""]
