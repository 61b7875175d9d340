"""Writes docs/metrics.md from the catalogue; ``make docs`` runs it with the other pages."""

from hourhand.scheduler.observe.metric_catalogue import (
    ERROR_CLASSES_MAX,
    SECTIONS,
    SUPERVISOR,
    TIMER_TAGS_MAX,
    Kind,
    Metric,
)

_HEAD = f"""\
# Metrics and health

`observe.port` serves both (`hourhand run --metrics-port 9464`), on loopback unless `observe.host`
says otherwise, for Prometheus or [an OpenTelemetry
collector](observing.md#an-opentelemetry-collector).

| path | answer |
|---|---|
| `/metrics` | every metric below, in Prometheus' text format |
| `/livez` | 200 while the polling thread polls and the dispatcher hands out messages; 503 once \
one of them does nothing for `observe.hang_ms`: restart the process |
| `/readyz` | 200 while the node also has partitions, may start their tasks, and log and store \
answer; 503 with the reason otherwise |
| `/healthz?full=1` | the same as JSON, with every check and the partitions held |

`hourhand health` shows the last one; its exit code is 0 where all is well and 3 otherwise. The
port of `hourhand run --processes N` is for all its nodes, with a label `process`: it is ready when
all are.

Times are seconds. A name that ends in `_total` is a counter, any other is a gauge unless it says
histogram. The first {ERROR_CLASSES_MAX} error classes and {TIMER_TAGS_MAX} tags of timers have
labels of their own, later ones are `other`. Boards and alert rules are in `docker/grafana/` and
`docker/prometheus/`; each alert has a [runbook](runbooks/README.md). `make docs` writes this page.
"""
_SEVERAL = "Of `hourhand run --processes N` alone."
_TAIL = """\
## Questions

| question | query |
|---|---|
| Is it late, and where (`sum by (le, partition)`)? | `histogram_quantile(0.99, sum by (le) \
(rate(hourhand_attempt_delay_seconds_bucket[5m])))` |
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

`hourhand_records_enqueued_total` counts where tasks are scheduled, which need not be a node.
"""


def metrics_page() -> str:
    """Return docs/metrics.md: every metric with its kind, labels, and meaning."""
    lines = [_HEAD]
    for title, metrics in SECTIONS:
        lines += [f"## {title}", "", *map(_row, metrics), ""]
    lines += ["## Several processes", "", _SEVERAL, "", *map(_row, SUPERVISOR), ""]
    return "\n".join(lines) + "\n" + _TAIL


def _row(metric: Metric) -> str:
    words = f": {', '.join(metric.words)}" if metric.words else ""
    labels = f"by {', '.join(metric.labels)}{words}" if metric.labels else ""
    kind = "histogram" if metric.kind is Kind.HISTOGRAM else ""
    shown = " ".join(filter(None, (kind, labels)))
    return f"- `{metric.full_name}`{f' ({shown})' if shown else ''}: {metric.text}."
