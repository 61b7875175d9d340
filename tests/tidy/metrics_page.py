"""Writes docs/metrics.md from the catalogue; ``make docs`` runs it with the other pages."""

from hourhand.scheduler.observe.metric_catalogue import (
    ERROR_CLASSES_MAX,
    SECTIONS,
    SUPERVISOR,
    TIMER_TAGS_MAX,
    Metric,
)

_HEAD = f"""\
# Metrics and health

A node serves both where `observe.port` says so (`hourhand run --metrics-port 9464`), on loopback
unless `observe.host` says otherwise. By default neither is served. Whatever reads Prometheus'
format scrapes it, [an OpenTelemetry collector](observing.md#an-opentelemetry-collector) too. This
page is written by `make docs` from `scheduler/observe/metric_catalogue.py`.

| path | answer |
|---|---|
| `/metrics` | every metric below, in Prometheus' text format |
| `/livez` | 200 while the polling thread polls and the dispatcher hands out messages; 503 once \
one of them does nothing for `observe.hang_ms`: restart the process |
| `/readyz` | 200 while, besides, the node works on its partitions, may start their tasks, and \
log and store answer; 503 with the reason otherwise |
| `/healthz?full=1` | the same as JSON, with every check and the partitions held |

`hourhand health` asks a running node for the last one and shows it; its exit code is 0 where all
is well and 3 otherwise. Probes are not logged, and the store is asked once a second at most. A
node without partitions is not ready: a group with more nodes than partitions has some of these.
A relay node that keeps messages in Kafka alone serves the same; its store is the broker.
`hourhand run --processes N` serves one port for all its nodes: every sample has a `process` label,
from 1 to N, and is added to none. It lives unless a process that is up does not; it is ready when
all are.

Times are seconds. Labels are bounded: partitions this node owns, fixed words, methods of a port,
the first {ERROR_CLASSES_MAX} error classes, and the first {TIMER_TAGS_MAX} tags of timers; later \
ones are `other`. A counter is 0 from the start where its labels \
are fixed words.
Board, alert rules and an example of scraping are in `docker/prometheus/` and `docker/grafana/`,
and each alert has a [runbook](runbooks/README.md); traces, the log and the self-check are in
[observing.md](observing.md).
"""
_SEVERAL = "Of `hourhand run --processes N` alone, beside all of the above with a label `process`."
_COLUMNS = ["| metric | kind | labels | what it says | elsewhere |", "|---|---|---|---|---|"]
_TAIL = """\
## Questions

| question | query |
|---|---|
| Is it late? | `histogram_quantile(0.99, sum by (le) \
(rate(hourhand_attempt_delay_seconds_bucket[5m])))` |
| Where? | the same, `sum by (le, partition)` |
| Is user code slow? | `histogram_quantile(0.99, sum by (le) \
(rate(hourhand_attempt_seconds_bucket[5m])))` |
| What is never done? | `max(hourhand_oldest_overdue_seconds)`; `hourhand list --state pending \
--from -7d --to now` names the tasks |
| How much waits? | `sum(rate(hourhand_records_enqueued_total[5m])) - \
sum(rate(hourhand_tasks_closed_total[5m]))` |
| Are messages late? | `histogram_quantile(0.99, sum by (le) \
(rate(hourhand_relayed_late_seconds_bucket[5m])))` |
| Is the store slow? | `histogram_quantile(0.99, sum by (le, call) \
(rate(hourhand_store_call_seconds_bucket[5m])))` |

`hourhand_records_enqueued_total` counts on the process that schedules, which need not be a node.
PagerDuty's `kafka_consumer.commit_sync` has no counterpart: commits are not waited for, and what a
missing one would lead to shows in `hourhand_lease_margin_seconds` and
`hourhand_attempts_refused_total`.
"""


def metrics_page() -> str:
    """Return docs/metrics.md: every metric with its kind, labels, meaning and peers."""
    lines = [_HEAD]
    for title, metrics in SECTIONS:
        lines += [f"## {title}", "", *_COLUMNS, *map(_row, metrics), ""]
    lines += ["## Several processes", "", _SEVERAL, "", *_COLUMNS, *map(_row, SUPERVISOR), ""]
    return "\n".join(lines) + "\n" + _TAIL


def _row(metric: Metric) -> str:
    labels = ", ".join(metric.labels)
    words = f": {', '.join(metric.words)}" if metric.words else ""
    return (
        f"| `{metric.full_name}` | {metric.kind.value} | {labels}{words} | {metric.text} |"
        f" {metric.peers} |"
    )
