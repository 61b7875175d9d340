"""The cells as OpenTelemetry metrics, pushed to a collector every few seconds.

Decides the form and when it is sent.  The numbers are those of ``/metrics``: the exporter is
handed finished points, so that counting a task costs the same with it and without.  Where to, and
how, is the exporter's: ``OTEL_EXPORTER_OTLP_ENDPOINT`` and its companions.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Protocol

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from actors.ports.clock import Clock
from scheduler.adapters.observing.cells import Family, Labels, Meters
from scheduler.observe.metric_catalogue import Kind

logger = logging.getLogger("hourhand.observing")

_CUMULATIVE = AggregationTemporality.CUMULATIVE


class MetricsExporter(Protocol):
    """The part of OpenTelemetry's exporter that is needed."""

    def export(self, metrics_data: MetricsData) -> object:
        """Send the metrics."""

    def shutdown(self) -> None:
        """Let go of connections."""


class MetricsPush:
    """Sends the cells until closed, and once more then."""

    def __init__(
        self,
        meters: Meters,
        clock: Clock,
        interval_ms: int,
        exporter: MetricsExporter | None = None,
    ) -> None:
        self._meters = meters
        self._clock = clock
        self._interval_s = interval_ms / 1000
        self._began_ms = clock.now_ms()
        self._resource = Resource.create({"service.name": "hourhand"})
        self._exporter = OTLPMetricExporter() if exporter is None else exporter
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hourhand-otlp", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send what there is, and no more."""
        self._closed.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._closed.wait(self._interval_s):
            self._push()
        self._push()
        self._exporter.shutdown()

    def _push(self) -> None:
        try:
            self._exporter.export(self.metrics())
        except Exception as error:  # noqa: BLE001 - the exporter's transport may raise anything
            logger.warning("metrics were not pushed, and are pushed again: %s", error)

    def metrics(self) -> MetricsData:
        """Return every family as it is now."""
        now_ns = self._clock.now_ms() * 1_000_000
        shown = [self._shown(family, now_ns) for family in list(self._meters.values())]
        scope = InstrumentationScope("hourhand")
        in_scope = ScopeMetrics(scope, shown, schema_url="")
        return MetricsData([ResourceMetrics(self._resource, [in_scope], schema_url="")])

    def _shown(self, family: Family, now_ns: int) -> Metric:
        metric = family.metric
        began_ns = self._began_ms * 1_000_000
        data: Sum | Gauge | Histogram
        match metric.kind:
            case Kind.COUNTER:
                data = Sum(_numbers(family, began_ns, now_ns), _CUMULATIVE, is_monotonic=True)
            case Kind.GAUGE:
                data = Gauge(_numbers(family, began_ns, now_ns))
            case Kind.HISTOGRAM:
                data = Histogram(list(_distributions(family, began_ns, now_ns)), _CUMULATIVE)
        unit = "s" if metric.name.endswith("_seconds") else "1"
        return Metric(metric.full_name, metric.text, unit, data)


def _numbers(family: Family, began_ns: int, now_ns: int) -> Sequence[NumberDataPoint]:
    return [
        NumberDataPoint(_attributes(family, labels), began_ns, now_ns, float(value))
        for labels, value in family.values_by_label()
    ]


def _distributions(family: Family, began_ns: int, now_ns: int) -> Iterator[HistogramDataPoint]:
    for labels, counts, total in family.distributions():
        yield HistogramDataPoint(
            attributes=_attributes(family, labels),
            start_time_unix_nano=began_ns,
            time_unix_nano=now_ns,
            count=sum(counts),
            sum=total,
            bucket_counts=counts,
            explicit_bounds=list(family.metric.buckets),
            # The cells do not keep extremes; equal ones that are no number say nothing.
            min=float("nan"),
            max=float("nan"),
        )


def _attributes(family: Family, labels: Labels) -> dict[str, str]:
    return dict(zip(family.metric.labels, labels, strict=True))
