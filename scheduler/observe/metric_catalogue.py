"""Every metric of a node, as data: name, kind, labels, buckets and meaning.

Prometheus' and OpenTelemetry's instruments and docs/metrics.md are all made from this table. It
decides names and bounds, and never when an event is counted.
"""

from enum import StrEnum
from typing import NamedTuple

PREFIX = "hourhand_"

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
LATENESS_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 5, 10, 30, 60, 300, 3600)
ROWS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500)


class Kind(StrEnum):
    """The behaviour of a metric: only up, both ways, or a distribution."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One metric; ``words`` are the values of its only label, if they are fixed."""

    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def full_name(self) -> str:
        """The name that a query uses."""
        return PREFIX + self.name


def _counter(name: str, text: str, *labels: str, words: tuple[str, ...] = ()) -> Metric:
    return Metric(f"{name}_total", Kind.COUNTER, text, labels, words)


def _gauge(name: str, text: str, *labels: str, words: tuple[str, ...] = ()) -> Metric:
    return Metric(name, Kind.GAUGE, text, labels, words)


def _histogram(
    name: str,
    text: str,
    *labels: str,
    words: tuple[str, ...] = (),
    buckets: tuple[float, ...] = SECONDS,
) -> Metric:
    return Metric(name, Kind.HISTOGRAM, text, labels, words, buckets)


PROCESS_DEATHS = (
    "signal",
    "exit",
    "memory",
    "tasks",
    "deadline",
    "stuck",
    "cancelled",
    "lease",
    "pipe",
    "start",
    "guardian",
)
"""Reasons for which a process of user code ended, except for those of a node that stops."""

_ACCEPTING = (
    _counter(
        "records_enqueued",
        "Accepted: records of this client that the log acknowledged",
    ),
    _histogram(
        "enqueue_seconds",
        "From schedule_task or a command to its acknowledgement",
    ),
    _histogram(
        "batch_persist_seconds",
        "From a polled batch to its durability in the store",
    ),
    _counter(
        "tasks_persisted",
        "Tasks made durable in the store",
        "partition",
    ),
    _counter("commands_read", "Commands read from the log", "partition"),
    _counter("poison_records", "Records that cannot be decoded or stored, put aside"),
    _counter("misplaced_records", "Records found in another partition than their own"),
    _counter(
        "dead_letters",
        "Records and tasks that went to the dead-letter topic",
        "reason",
        words=("poison", "exhausted", "relay"),
    ),
)
_CALLS = (
    _histogram("log_call_seconds", "Answers of the log, polls left out", "call"),
    _counter("log_errors", "Requests that the log failed", "call", "error"),
    _histogram("store_call_seconds", "Answers of the store", "call"),
    _counter("store_errors", "Requests that the store failed", "call", "error"),
    _histogram(
        "store_group_rows",
        "Group commit: rows that one write to the store holds",
        "call",
        buckets=ROWS,
    ),
)
_WINDOW = (
    _histogram(
        "window_load_seconds",
        "Duration of a load from the store",
    ),
    _counter(
        "tasks_loaded",
        "Open tasks loaded from the store",
        "partition",
    ),
    _counter("window_dropped_tasks", "Tasks left to the store because memory was full"),
    _gauge(
        "waiting_tasks",
        "Tasks in memory not yet due",
        "partition",
    ),
    _gauge(
        "executing_tasks",
        "Due tasks with their ordering executors",
        "partition",
    ),
    _gauge("busy_ids", "Ordering ids with tasks in hand", "partition"),
    _gauge(
        "held_ids",
        "Blocked: ordering ids that wait for a retry, an operator or slow code",
        "partition",
    ),
    _gauge(
        "watermark_timestamp_seconds",
        "Everything scheduled before is closed or a straggler's",
        "partition",
    ),
    _gauge("watermark_age_seconds", "Age of the oldest watermark of this node"),
    _gauge("straggler_ids", "Held ordering ids the watermark has passed", "partition"),
    _gauge("watermark_held_ids", "Held ordering ids the watermark waits for", "partition"),
    _gauge(
        "oldest_overdue_seconds",
        "Time since the oldest open task, or message with Kafka alone, was due",
        "partition",
    ),
)
WORKER_POOLS = ("threads", "async", "processes")
ATTEMPT_RESULTS = ("success", "failure", "retry", "snoozed", "dropped", "timeout")
_ATTEMPTS = (
    _counter("attempts_started", "Calls of user code", "partition"),
    _histogram(
        "attempt_delay_seconds",
        "Lateness: from due, or the retry's time, to the call of user code",
        "partition",
        buckets=LATENESS_SECONDS,
    ),
    _histogram(
        "attempt_limited_seconds",
        "Wait for a limit of attempts that waited; not a part of lateness",
        buckets=LATENESS_SECONDS,
    ),
    _gauge("limited_tasks", "Tasks that wait because of a limit", "limit"),
    _gauge(
        "limit_rate_own",
        "Starts a second for each value that this node's own share allows",
        "limit",
    ),
    _gauge("limit_rate_lent", "Starts a second that this node lends, of all values", "limit"),
    _gauge(
        "limit_rate_borrowed",
        "Starts a second that this node borrows, of all values",
        "limit",
    ),
    _counter("limit_changes", "Changes of a limit by operators", "limit"),
    _histogram(
        "attempt_seconds",
        "Duration of user code",
        "result",
        words=ATTEMPT_RESULTS,
    ),
    _counter(
        "attempts",
        "Attempts ended",
        "result",
        "error_class",
    ),
    _counter("attempt_retries", "Attempts started that were not a task's first"),
    _counter("attempts_refused", "Attempts not started because lease or time was missing"),
    _counter(
        "attempts_stuck",
        "Blocking attempts past their timeout; attempts without a checkpoint for too long",
        "limit",
        words=("timeout", "stuck_after"),
    ),
    _counter("attempts_abandoned", "Attempts that outlived a drain deadline"),
    _gauge(
        "workers_exhausted",
        "1 while an attempt has waited for a worker for a second",
        "pool",
        words=WORKER_POOLS,
    ),
    _counter(
        "worker_shortages",
        "Times that an attempt waited for a worker for a second",
        "pool",
        words=WORKER_POOLS,
    ),
    _gauge("pool_processes", "Processes for user code that can run attempts"),
    _gauge("pool_processes_busy", "Processes for user code that run an attempt or a batch"),
    _gauge("pool_process_resident_bytes", "Resident memory of a process for user code", "place"),
    _counter("pool_process_attempts", "Attempts that ended in a process", "place"),
    _counter(
        "pool_process_deaths",
        "Processes for user code that ended and were replaced",
        "reason",
        words=PROCESS_DEATHS,
    ),
    _gauge("loop_blocked", "1 while one coroutine has kept the event loop for a second"),
    _counter("loop_blocks", "Times that one coroutine kept the event loop for a second"),
    _counter(
        "retries_exhausted",
        "Tasks that used up their attempts",
        "on_exhausted",
        words=("skip", "block", "dead_letter"),
    ),
    _counter("kind_attempts", "Attempts of tasks that have a kind", "kind", "result"),
    _counter("tasks_held", "Tasks of a kind that this node has no executor for", "kind"),
    _counter(
        "tasks_closed",
        "Keys closed, by outcome",
        "result",
        words=("success", "failure", "dropped", "expired", "cancelled", "moved", "reopened"),
    ),
    _counter("commands", "Commands decided", "kind", "outcome"),
)
_OUTCOMES = (
    _counter("outcomes_told", "Outcomes that the stream has"),
    _counter("outcomes_failures", "Times that the stream took nothing"),
    _counter("outcomes_refused", "Closed tasks whose ids alone are too long for the stream"),
    _gauge(
        "outcomes_lag_seconds",
        "Age of the oldest outcome that the stream does not have",
        "partition",
    ),
)
_DOORS = (
    _histogram("relayed_late_seconds", "Messages passed on, by how late", buckets=LATENESS_SECONDS),
    _counter("relay_records_refused", "Messages that cannot be relayed"),
    _histogram(
        "timer_pop_late_seconds",
        "Callbacks of timers ended, by how late",
        "result",
        words=("popped", "failed", "given_up"),
        buckets=LATENESS_SECONDS,
    ),
    _counter(
        "timer_tags",
        "Tags that timers gained through this process",
        "tag",
    ),
    _counter(
        "timer_tags_removed",
        "Tags that timers lost",
        "tag",
    ),
)
_BUCKETS = (
    _gauge(
        "held_messages",
        "Messages in the memory of their partition's owner",
        "partition",
    ),
    _histogram("transaction_records", "Records that one transaction holds", buckets=ROWS),
    _counter("messages_moved", "Messages moved to a nearer bucket"),
    _counter("bucket_splits", "Buckets that this node split"),
)
_OUTBOX = (
    _gauge(
        "outbox_rows_waiting",
        "Committed rows that wait in the outbox, counted to 100,000",
    ),
    _gauge("outbox_oldest_age_seconds", "Age of the oldest row of the outbox"),
    _counter("outbox_rows_moved", "Rows that were moved to the log"),
    _counter("outbox_rows_refused", "Rows that became dead letters"),
)
_NODE = (
    _counter("tree_rebuilds", "Trees rebuilt after a failure"),
    _gauge("owned_partitions", "Partitions this node owns"),
    _gauge(
        "partition_held",
        "1 while a partition is not read, after a failure or for a foreign transaction",
        "partition",
    ),
    _counter(
        "partition_changes",
        "Changes of ownership",
        "change",
        words=("assigned", "revoked", "lost"),
    ),
    _counter("drains_unfinished", "Revocations whose deadline passed with attempts running"),
    _histogram("catch_up_seconds", "Wait of a new partition for the end of its log"),
    _counter("catch_ups_incomplete", "Catch-ups ended by their deadline"),
    _histogram(
        "rebalance_gap_seconds",
        "From a partition's assignment until its tasks may start",
    ),
    _gauge(
        "lease_margin_seconds",
        "Time for which this node may still start tasks",
    ),
    _gauge("poll_age_seconds", "Time since the polling thread last asked the log"),
    _gauge("mailbox_messages", "Messages that wait in the actors' mailboxes"),
    _gauge("memory_held_bytes", "Bytes of tasks and records in memory"),
    _gauge("memory_limit_bytes", "Most bytes of tasks and records in memory"),
    _gauge("ready", "1 if the node works and log and store answer, else 0"),
)
_SELF_CHECK = (
    _counter("self_checked_tasks", "Sampled tasks compared with the store"),
    _counter(
        "promise_doubts",
        "Broken promises that the self-check suspects",
        "promise",
        words=("P2", "P3", "P4", "P5", "P8", "P9"),
    ),
)

SECTIONS: tuple[tuple[str, tuple[Metric, ...]], ...] = (
    ("Accepting and storing", _ACCEPTING),
    ("Calls of log and store", _CALLS),
    ("What waits", _WINDOW),
    ("What runs", _ATTEMPTS),
    ("The stream of outcomes", _OUTCOMES),
    ("Relay and timers", _DOORS),
    ("Kafka alone", _BUCKETS),
    ("The outbox's mover", _OUTBOX),
    ("The node", _NODE),
    ("The self-check", _SELF_CHECK),
)
"""All metrics, in the order in which a task meets them."""
PROCESS_UP = _gauge("process_up", "1 while a child process is up, else 0", "process")
PROCESS_RESTARTS = _counter(
    "process_restarts", "Child processes started in the place of one that ended", "process"
)
SUPERVISOR: tuple[Metric, ...] = (PROCESS_UP, PROCESS_RESTARTS)
"""Metrics of ``hourhand run --processes`` only; nodes do not count them."""
CATALOGUE: dict[str, Metric] = {
    metric.name: metric for _, section in SECTIONS for metric in section
}
"""All metrics by their names without the prefix."""

ERROR_CLASSES_MAX = 50
"""Distinct ``error_class`` labels; later ones are counted as ``other``."""
KINDS_MAX = 100
"""Distinct ``kind`` labels; later ones are counted as ``other``."""
TIMER_TAGS_MAX = 200
"""Distinct ``tag`` labels; later ones are counted as ``other``, which is not a valid tag."""
