"""The observation of a node with metrics: counts, health and self-check, and their server.

Decides the order of the wrappers; Prometheus' metrics are made of the cells at each scrape. A
feature that is requested but not installed is SettingsInvalid. The stores are wrapped method by
method, so a new method is measured too; arguments, answers and failures pass unchanged. The
self-check is told which rows are durable and which offsets committed.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import accumulate
from typing import Any, cast

import msgspec
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from hourhand.actors.model.operations.events import AssignmentReceived, LogCalled, StoreCalled
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import AssignmentListener, LogWriter, Polled, StartPosition, TaskLog
from hourhand.actors.ports.store import Stores
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.adapters.observing.probe_server import NodeAnswers, ProbeServer, served
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.observe.health import Health, NodeProbes
from hourhand.scheduler.observe.meters import Family, Meters
from hourhand.scheduler.observe.metric_catalogue import Kind
from hourhand.scheduler.observe.node_telemetry import NodeTelemetry
from hourhand.scheduler.observe.observation import Observation
from hourhand.scheduler.observe.self_check import SHARE_MASK, SelfCheck

_OF_THE_WHOLE = frozenset({"close", "installation_id"})
"""Methods of ``Stores`` that are not stores."""
_GROUPED = frozenset(
    {
        *("insert_tasks", "insert_completions", "insert_attempts", "insert_checkpoints"),
        "insert_results",
    }
)
"""Writes that take many rows at a time: (partition, rows, write time)."""


def error_code(error: BaseException) -> str:
    """Return the label for a failure: its code, or its class."""
    return error.code if isinstance(error, HourhandError) else type(error).__name__


class MeasuredStore:
    """Wraps one store; attributes that are not methods are passed on unchanged."""

    def __init__(self, store: object, clock: Clock, telemetry: Telemetry) -> None:
        self._store = store
        self._now_ms = clock.monotonic_ms
        self._emit = telemetry.emit
        for name in dir(store):
            call = getattr(store, name)
            if not name.startswith("_") and callable(call):
                setattr(self, name, partial(self._measure, name, call))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _measure(self, name: str, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        rows = len(args[1]) if name in _GROUPED else 0
        started_ms = self._now_ms()
        try:
            answer = call(*args, **named)
        except Exception as error:
            self._emit(StoreCalled(name, rows, self._now_ms() - started_ms, error_code(error)))
            raise
        if isinstance(answer, Future):
            answer.add_done_callback(partial(self._answered, name, rows, started_ms))
        return answer

    def _answered(self, name: str, rows: int, started_ms: float, answer: "Future[Any]") -> None:
        took_ms = self._now_ms() - started_ms
        error = None if answer.cancelled() else answer.exception()
        self._emit(StoreCalled(name, rows, took_ms, None if error is None else error_code(error)))


def measured_stores(stores: Stores, clock: Clock, telemetry: Telemetry) -> Stores:
    """Return the stores, each of them measured."""
    wrapped = {
        name: cast("Any", MeasuredStore(getattr(stores, name), clock, telemetry))
        for name in stores.__struct_fields__
        if name not in _OF_THE_WHOLE
    }
    return msgspec.structs.replace(stores, **wrapped)


class MeasuredLog:
    """``TaskLog``, with the figures for the health of its polling thread."""

    def __init__(self, log: TaskLog, clock: Clock, telemetry: Telemetry) -> None:
        self._log = log
        self._now_ms = clock.monotonic_ms
        self._emit = telemetry.emit
        # Called before every attempt, so it is not wrapped.
        self.lease_ends_ms = log.lease_ends_ms
        self.polled_ms = clock.monotonic_ms()
        """Monotonic time of the last poll."""
        self.failure: str | None = None
        """The error of the last poll."""
        self.waiting: Mapping[int, str] = {}
        """By partition, the reason from the last poll why nothing more of it can be read."""

    def subscribe(self, listener: AssignmentListener) -> None:
        """Join the group; assignments are reported before the listener gets them."""
        self._log.subscribe(_TellingListener(listener, self._emit))

    def start(
        self, partition: int, stored_next_offset: int | None, stored_topic_id: str = ""
    ) -> StartPosition:
        """Begin to deliver a partition."""
        with self._timed("start"):
            return self._log.start(partition, stored_next_offset, stored_topic_id)

    def seek(self, partition: int, next_offset: int | None) -> None:
        """Deliver a partition once more."""
        with self._timed("seek"):
            self._log.seek(partition, next_offset)

    def poll(self, records_max: int, timeout_ms: int) -> Polled:
        """Poll; only failures are measured, because most of the time is waiting."""
        self.polled_ms = started_ms = self._now_ms()
        try:
            polled = self._log.poll(records_max, timeout_ms)
        except Exception as error:
            self.failure = str(error)
            self._emit(LogCalled("poll", self._now_ms() - started_ms, error_code(error)))
            raise
        self.failure, self.waiting = None, polled.waiting
        return polled

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        """Ask to store offsets."""
        with self._timed("commit"):
            self._log.commit(next_offsets)

    def close(self) -> None:
        """Leave the group."""
        with self._timed("close"):
            self._log.close()

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        started_ms = self._now_ms()
        failed: str | None = None
        try:
            yield
        except Exception as error:
            failed = error_code(error)
            raise
        finally:
            self._emit(LogCalled(name, self._now_ms() - started_ms, failed))


class _TellingListener:
    """An ``AssignmentListener`` in front of the node's own."""

    def __init__(self, listener: AssignmentListener, emit: Callable[[Any], None]) -> None:
        self._emit = emit
        self._listener = listener
        self.revoking = listener.revoking
        self.lost = listener.lost

    def assigned(self, partitions: Sequence[int]) -> None:
        """Report each partition, then pass them on."""
        for partition in partitions:
            self._emit(AssignmentReceived(partition))
        self._listener.assigned(partitions)


class _CheckedSchedule:
    """``ScheduleStore``; reports its rows once they are durable."""

    def __init__(self, schedule: object, check: SelfCheck) -> None:
        self._schedule: Any = schedule
        self._check = check

    def __getattr__(self, name: str) -> Any:
        return getattr(self._schedule, name)

    def insert_tasks(
        self, partition: int, tasks: Sequence[StoredTask], write_time: int
    ) -> "Future[None]":
        """Write rows."""
        written: Future[None] = self._schedule.insert_tasks(partition, tasks, write_time)
        shares = self._check.watched_shares
        unordered = self._check.unordered
        keys = [
            task.key
            for task in tasks
            if hash(task.key.ordering_id) & SHARE_MASK < shares and task.kind not in unordered
        ]
        if keys:

            def told(answer: "Future[None]") -> None:
                if not answer.cancelled() and answer.exception() is None:
                    self._check.note_stored(partition, keys)

            written.add_done_callback(told)
        return written


def checked_stores(stores: Stores, check: SelfCheck) -> Stores:
    """Return the stores; the schedule's writes are reported to the self-check."""
    schedule: Any = _CheckedSchedule(stores.schedule, check)
    return msgspec.structs.replace(stores, schedule=schedule)


class CheckedLog:
    """``TaskLog``; one record of each poll is remembered until it is committed."""

    def __init__(self, log: TaskLog, check: SelfCheck) -> None:
        self._log = log
        self._check = check
        self.subscribe = log.subscribe
        self.start = log.start
        self.seek = log.seek
        self.lease_ends_ms = log.lease_ends_ms
        self.close = log.close

    def poll(self, records_max: int, timeout_ms: int) -> Polled:
        """Poll."""
        polled = self._log.poll(records_max, timeout_ms)
        if polled.records:
            self._check.note_polled(polled.records[-1])
        return polled

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        """Ask to store offsets."""
        self._log.commit(next_offsets)
        self._check.note_committed(next_offsets)


logger = logging.getLogger("hourhand.observing")


class Counted(Observation):
    """Counts what happens, and shows it."""

    def __init__(self, settings: Settings, clock: Clock, telemetry: NodeTelemetry) -> None:
        self._settings = settings.observe
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
        """Return the writer unchanged; the self-check learns the number of partitions."""
        if self._check is not None:
            self._check.partition_count = writer.partition_count()
        return writer

    def leave_out(self, unordered: Collection[str | None]) -> None:
        """Exclude kinds without order from the self-check."""
        if self._check is not None:
            self._check.unordered = unordered

    def begin(self, probes: NodeProbes) -> None:
        """Serve metrics and health, if the settings say so."""
        if self._log is not None:
            log = self._log
            asked = (lambda: log.polled_ms), (lambda: log.failure), (lambda: log.waiting)
            probes = probes.watching(*asked)
        self.health = health = Health(probes, self._clock, self._settings.hang_ms)
        self._derive(probes, health)
        if self._settings.port is not None:
            server = self._serve(self._settings.port, health)
            self.port = server.port
            self._closing.callback(server.close)
            logger.info("metrics and health on %s:%d", self._settings.host, server.port)

    def close(self) -> None:
        """Stop serving."""
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
        """Yield every family with its current values."""
        for family in list(self._meters.values()):
            yield _shown(family)

    def describe(self) -> list[Metric]:
        """Return no description: registering asks for one, and nothing is counted yet."""
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
