"""What observes a node that counts: metrics, health and self-check, and where they are served.

Decides the order of the wrappers, and that Prometheus' metrics are made of the cells whenever
somebody scrapes; never the numbers.  What is asked for and not installed is SettingsInvalid.
"""

import logging
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from itertools import accumulate

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from actors.ports.clock import Clock
from actors.ports.log import LogWriter, TaskLog
from actors.ports.store import Stores
from scheduler.adapters.observing.measured import (
    CheckedLog,
    MeasuredLog,
    checked_stores,
    measured_stores,
)
from scheduler.adapters.observing.probe_server import NodeAnswers, ProbeServer, served
from scheduler.configuration.door_settings import ObserveSettings
from scheduler.observe.health import Health, NodeProbes
from scheduler.observe.meters import Family, Meters
from scheduler.observe.metric_catalogue import Kind
from scheduler.observe.node_telemetry import NodeTelemetry
from scheduler.observe.observation import Observation
from scheduler.observe.self_check import SelfCheck

logger = logging.getLogger("hourhand.observing")


class Counted(Observation):
    """Counts what happens, and shows it."""

    def __init__(self, settings: ObserveSettings, clock: Clock, telemetry: NodeTelemetry) -> None:
        self._settings = settings
        self._clock = clock
        super().__init__(telemetry)
        self.registry = registry_of(telemetry.meters)
        self._log: MeasuredLog | None = None
        self._check: SelfCheck | None = None
        self._closing = ExitStack()

    def stores(self, stores: Stores) -> Stores:
        """Measure every request, and let the self-check see what is stored."""
        measured = measured_stores(stores, self._clock, self.telemetry)
        share = self._settings.self_check_share
        if not share:
            return measured
        self._check = check = SelfCheck(self._clock, self.telemetry.emit, measured, share)
        self.telemetry.check_with(check)
        return checked_stores(measured, check)

    def log(self, log: TaskLog) -> TaskLog:
        """Measure every request, and watch the polling."""
        self._log = MeasuredLog(log, self._clock, self.telemetry)
        return self._log if self._check is None else CheckedLog(self._log, self._check)

    def writer(self, writer: LogWriter) -> LogWriter:
        """As it is; but the self-check learns the number of partitions."""
        if self._check is not None:
            self._check.partition_count = writer.partition_count()
        return writer

    def leave_out(self, unordered: Collection[str | None]) -> None:
        """Let the self-check expect no order of them."""
        if self._check is not None:
            self._check.unordered = unordered

    def begin(self, probes: NodeProbes) -> None:
        """Serve, where the settings say so."""
        if self._log is not None:
            log = self._log
            probes = probes.watching(lambda: log.polled_ms, lambda: log.failure)
        self.health = health = Health(probes, self._clock, self._settings.hang_ms)
        self._derive(probes, health)
        if self._settings.port is not None:
            server = self._serve(self._settings.port, health)
            self.port = server.port
            self._closing.callback(server.close)
            logger.info("metrics and health on %s:%d", self._settings.host, server.port)

    def close(self) -> None:
        """Serve no more."""
        self._closing.close()

    def _derive(self, probes: NodeProbes, health: Health) -> None:
        meters, now_ms = self.telemetry.meters, self._clock.monotonic_ms
        meters.derive(
            "lease_margin_seconds", lambda: {"": (probes.lease_ends_ms() - now_ms()) / 1000}
        )
        meters.derive("poll_age_seconds", lambda: {"": (now_ms() - probes.polled_ms()) / 1000})
        meters.derive("mailbox_messages", lambda: {"": probes.dispatching().waiting})
        meters.derive("ready", lambda: {"": float(health.is_ready())})
        for name, read in probes.measures.items():
            meters.derive(name, read)

    def _serve(self, port: int, health: Health) -> ProbeServer:
        answers = NodeAnswers(self.registry, health)
        return served(self._settings.host, port, answers, self._clock)


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
