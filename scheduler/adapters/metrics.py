"""Events as Prometheus metrics, in a registry of their own.

Decides names, labels and buckets; ``docs/metrics.md`` lists them.  Labels are bounded:
partitions a node owns, enumerations, and a limited number of error classes.  Label children
are looked up once, because ``labels()`` costs more than counting does.  Never raises.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from actors.model import events
from actors.model.events import Event

PREFIX = "hourhand_"

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_DELAY_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 5, 10, 30, 60, 300, 3600)

_ERROR_CLASSES_MAX = 50
"""Distinct ``error_class`` labels; what comes later is counted as ``other``."""


class _Children(dict[Any, Any]):
    """The children of one labelled metric, each looked up once."""

    def __init__(self, metric: Any) -> None:
        super().__init__()
        self._metric = metric

    def __missing__(self, labels: Any) -> Any:
        values = labels if isinstance(labels, tuple) else (labels,)
        return self.setdefault(labels, self._metric.labels(*values))

    def forget(self, label: object) -> None:
        """Drop a child, so that a partition given up is not reported for ever."""
        if self.pop(label, None) is not None:
            self._metric.remove(label)


class PrometheusTelemetry:
    """Counts events; ``registry`` holds the metrics, ``serve`` shows them over HTTP."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._error_classes: set[str] = set()
        self._make_ownership_metrics()
        self._make_log_metrics()
        self._make_window_metrics()
        self._make_attempt_metrics()
        self._make_outcome_metrics()
        self._handlers: dict[type, Callable[[Any], None]] = {
            events.PartitionAssigned: self._on_assigned,
            events.PartitionRevoked: self._on_revoked,
            events.PartitionLost: self._on_lost,
            events.CatchUpEnded: self._on_catch_up,
            events.TreeRebuilt: lambda _event: self._tree_rebuilds.inc(),
            events.BatchPersisted: self._on_persisted,
            events.RecordPoisoned: lambda _event: self._poison_records.inc(),
            events.RecordMisplaced: lambda _event: self._misplaced_records.inc(),
            events.WindowLoaded: self._on_loaded,
            events.WindowShrunk: lambda event: self._dropped_tasks.inc(event.dropped),
            events.PartitionLoadReported: self._on_load,
            events.AttemptStarted: self._on_started,
            events.AttemptFinished: self._on_finished,
            events.AttemptRefused: lambda _event: self._refused.inc(),
            events.AttemptStuck: lambda _event: self._stuck.inc(),
            events.AttemptAbandoned: lambda _event: self._abandoned.inc(),
            events.RetriesExhausted: lambda event: self._exhausted[event.on_exhausted].inc(),
            events.TaskClosed: lambda event: self._closed[event.result.value].inc(),
            events.CommandDecided: self._on_command,
            events.WatermarkAdvanced: self._on_watermark,
            events.WatermarkHeld: self._on_watermark_held,
            events.RelayRecordRefused: lambda _event: self._relay_refused.inc(),
            events.MessageRelayed: lambda event: self._relayed.observe(event.late_ms / 1000),
            events.TimerPopped: lambda event: self._popped[event.result].observe(
                event.late_ms / 1e3
            ),
            events.TaskEnqueued: self._on_enqueued,
            events.BulkEnqueued: lambda event: self._enqueued.inc(event.tasks),
        }

    def emit(self, event: Event) -> None:
        """Count the event; one without a metric is ignored."""
        try:
            self._handlers[event.__class__](event)
        except Exception:
            # The contract of the port: a metric is never worth a task.
            logging.getLogger("hourhand").debug("an event could not be counted", exc_info=True)

    def serve(
        self,
        port: int,
        address: str = "0.0.0.0",  # noqa: S104 - whoever scrapes runs elsewhere
    ) -> tuple[int, Callable[[], None]]:
        """Serve the metrics over HTTP; return the port and what stops it.  Raises OSError.

        All interfaces by default, because whoever scrapes runs on another machine.
        """
        server, thread = start_http_server(port, addr=address, registry=self.registry)

        def close() -> None:
            server.shutdown()
            server.server_close()
            thread.join(timeout=5)

        return server.server_port, close

    def _counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Any:
        metric = Counter(PREFIX + name, text, labels, registry=self.registry)
        return _Children(metric) if labels else metric

    def _gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Any:
        metric = Gauge(PREFIX + name, text, labels, registry=self.registry)
        return _Children(metric) if labels else metric

    def _histogram(
        self,
        name: str,
        text: str,
        labels: Sequence[str] = (),
        buckets: Sequence[float] = _SECONDS,
    ) -> Any:
        metric = Histogram(PREFIX + name, text, labels, registry=self.registry, buckets=buckets)
        return _Children(metric) if labels else metric

    def _make_ownership_metrics(self) -> None:
        self._owned = self._gauge("owned_partitions", "Partitions this node owns")
        self._changes = self._counter(
            "partition_changes_total", "Changes of ownership seen by this node", ["change"]
        )
        self._undrained = self._counter(
            "drains_unfinished_total", "Revocations whose deadline passed with attempts running"
        )
        self._catch_up = self._histogram(
            "catch_up_seconds", "Wait of a new partition for the end of its log"
        )
        self._catch_up_cut = self._counter(
            "catch_ups_incomplete_total", "Catch-ups ended by their deadline"
        )
        self._tree_rebuilds = self._counter("tree_rebuilds_total", "Trees rebuilt after a failure")

    def _make_log_metrics(self) -> None:
        self._enqueued = self._counter(
            "records_enqueued_total", "Records of this client that the log acknowledged"
        )
        self._enqueue = self._histogram(
            "enqueue_seconds", "From schedule_task or a command to the log's acknowledgement"
        )
        self._persist = self._histogram(
            "batch_persist_seconds", "From a polled batch to its durability in the store"
        )
        self._persisted = self._counter(
            "tasks_persisted_total", "Tasks made durable in the store", ["partition"]
        )
        self._commands_read = self._counter(
            "commands_read_total", "Commands read from the log", ["partition"]
        )
        self._poison_records = self._counter(
            "poison_records_total", "Records sent to the dead-letter topic"
        )
        self._misplaced_records = self._counter(
            "misplaced_records_total", "Records found in another partition than their own"
        )

    def _make_window_metrics(self) -> None:
        self._load = self._histogram("window_load_seconds", "Duration of a load from the store")
        self._loaded = self._counter(
            "tasks_loaded_total", "Tasks loaded from the store", ["partition"]
        )
        self._dropped_tasks = self._counter(
            "window_dropped_tasks_total", "Tasks left to the store for want of memory"
        )
        self._waiting = self._gauge("waiting_tasks", "Tasks in memory not yet due", ["partition"])
        self._executing = self._gauge(
            "executing_tasks", "Due tasks with their ordering executors", ["partition"]
        )
        self._watermark = self._gauge(
            "watermark_timestamp_seconds",
            "Everything scheduled before is closed or a straggler's",
            ["partition"],
        )
        self._stragglers = self._gauge(
            "straggler_ids", "Blocked ordering ids the watermark has passed", ["partition"]
        )
        self._held = self._gauge(
            "watermark_held_ids", "Blocked ordering ids the watermark waits for", ["partition"]
        )

    def _make_attempt_metrics(self) -> None:
        self._delay = self._histogram(
            "attempt_delay_seconds",
            "From due, or the retry's time, to the call of user code",
            ["partition"],
            _DELAY_SECONDS,
        )
        self._duration = self._histogram("attempt_seconds", "Duration of user code", ["result"])
        self._attempts = self._counter(
            "attempts_total", "Attempts ended", ["result", "error_class"]
        )
        self._refused = self._counter(
            "attempts_refused_total", "Attempts not started for want of a lease"
        )
        self._stuck = self._counter(
            "attempts_stuck_total", "Blocking attempts that passed their timeout"
        )
        self._abandoned = self._counter(
            "attempts_abandoned_total", "Attempts that outlived a drain deadline"
        )

    def _make_outcome_metrics(self) -> None:
        self._exhausted = self._counter(
            "retries_exhausted_total", "Tasks that used up their attempts", ["on_exhausted"]
        )
        self._closed = self._counter("tasks_closed_total", "Keys closed", ["result"])
        self._commands = self._counter("commands_total", "Commands decided", ["kind", "outcome"])
        late = "Messages passed on, by how late"
        self._relayed = self._histogram("relayed_late_seconds", late, (), _DELAY_SECONDS)
        pops = ("timer_pop_late_seconds", "Callbacks of timers ended", ["result"])
        self._popped = self._histogram(*pops, _DELAY_SECONDS)
        refused = "Messages that cannot be relayed"
        self._relay_refused = self._counter("relay_records_refused_total", refused)

    def _on_assigned(self, event: events.PartitionAssigned) -> None:
        self._owned.inc()
        self._changes["assigned"].inc()

    def _on_revoked(self, event: events.PartitionRevoked) -> None:
        self._changes["revoked"].inc()
        if not event.drained:
            self._undrained.inc()
        self._forget(event.partition)

    def _on_lost(self, event: events.PartitionLost) -> None:
        self._changes["lost"].inc()
        self._forget(event.partition)

    def _forget(self, partition: int) -> None:
        self._owned.dec()
        for metric in (
            self._waiting,
            self._executing,
            self._watermark,
            self._stragglers,
            self._held,
        ):
            metric.forget(partition)

    def _on_catch_up(self, event: events.CatchUpEnded) -> None:
        self._catch_up.observe(event.waited_ms / 1000)
        if not event.complete:
            self._catch_up_cut.inc()

    def _on_persisted(self, event: events.BatchPersisted) -> None:
        self._persist.observe(event.duration_ms / 1000)
        self._persisted[event.partition].inc(event.tasks)
        self._commands_read[event.partition].inc(event.commands)

    def _on_loaded(self, event: events.WindowLoaded) -> None:
        self._load.observe(event.duration_ms / 1000)
        self._loaded[event.partition].inc(event.tasks)

    def _on_load(self, event: events.PartitionLoadReported) -> None:
        self._waiting[event.partition].set(event.waiting)
        self._executing[event.partition].set(event.executing)

    def _on_started(self, event: events.AttemptStarted) -> None:
        self._delay[event.partition].observe(event.delay_ms / 1000)

    def _on_finished(self, event: events.AttemptFinished) -> None:
        result = event.result.value
        self._duration[result].observe(event.duration_ms / 1000)
        self._attempts[result, self._bounded(event.error_class)].inc()

    def _bounded(self, error_class: str | None) -> str:
        if error_class is None:
            return ""
        if error_class not in self._error_classes:
            if len(self._error_classes) >= _ERROR_CLASSES_MAX:
                return "other"
            self._error_classes.add(error_class)
        return error_class

    def _on_command(self, event: events.CommandDecided) -> None:
        self._commands[event.kind.value, event.outcome.value].inc()

    def _on_watermark(self, event: events.WatermarkAdvanced) -> None:
        self._watermark[event.partition].set(event.watermark_ms / 1000)
        self._stragglers[event.partition].set(event.stragglers)
        self._held[event.partition].set(0)

    def _on_watermark_held(self, event: events.WatermarkHeld) -> None:
        self._watermark[event.partition].set(event.watermark_ms / 1000)
        self._held[event.partition].set(event.blocked)

    def _on_enqueued(self, event: events.TaskEnqueued) -> None:
        self._enqueued.inc()
        self._enqueue.observe(event.duration_ms / 1000)
