"""The cells as Prometheus' metrics, collected whenever somebody scrapes.

Decides the form, never the numbers.
"""

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from scheduler.observe.meters import Family, Meters
from scheduler.observe.metric_catalogue import Kind


class MetersCollector(Collector):
    """Shows the families of one node."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters

    def collect(self) -> Iterator[Metric]:
        """Yield every family, as it is now."""
        for family in list(self._meters.values()):
            yield _shown(family)

    def describe(self) -> list[Metric]:
        """Say nothing beforehand: registering asks, and nothing is counted yet."""
        return []


def registry_of(meters: Meters) -> CollectorRegistry:
    """Return a registry that shows the cells, to which others may add their own metrics."""
    registry = CollectorRegistry()
    registry.register(MetersCollector(meters))
    return registry


def _shown(family: Family) -> Metric:
    metric = family.metric
    if metric.kind is Kind.HISTOGRAM:
        return _histogram(family)
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    shown = kind(metric.full_name, metric.text, labels=metric.labels)
    for labels, value in family.values_by_label():
        shown.add_metric(labels, value)
    return shown


def _histogram(family: Family) -> HistogramMetricFamily:
    metric = family.metric
    shown = HistogramMetricFamily(metric.full_name, metric.text, labels=metric.labels)
    bounds = [*(repr(float(bound)) for bound in metric.buckets), "+Inf"]
    for labels, counts, total in family.distributions():
        shown.add_metric(labels, list(zip(bounds, accumulate(counts), strict=True)), total)
    return shown
