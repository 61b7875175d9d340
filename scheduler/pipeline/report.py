"""``hourhand pipeline report``: a report on a period and the load ahead, as files.

Decides the tables of a report, and the counts: a task is executed when an attempt closed its key,
and its lateness is the time from its due time to its first attempt. Each table has as many rows as
there are hours, partitions, minutes ahead, or requested ids, and never as many as there are tasks.
Spark aggregates it, writes it as Parquet, and reads it back in that size for the page. Plotly's
script is inside the page, so it opens from a mail or a disk without a network, and no data is sent
anywhere.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import plotly.offline
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from hourhand.actors.model.values.errors import InvalidInput
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler import wiring
from hourhand.scheduler.pipeline.delta import (
    PARQUET,
    check_format,
    finish_table,
    written_as_instants,
)
from hourhand.scheduler.pipeline.job import JobOptions, Summary, only_row, read_table, spark_job
from hourhand.scheduler.pipeline.states import OPEN_STATES

TOP = 20
"""Number of listed ordering ids and causes."""
PERIOD_HOURS_MAX = 24 * 366
_AHEAD = {"minute": timedelta(hours=24), "hour": timedelta(days=30), "day": timedelta(days=366)}
KEY = ("partition", "scheduled_time", "ordering_id", "uniqueness_key")
RESULTS = ("success", "failure", "dropped")
UNITS = ("minute", "hour", "day")
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_ACCURACY = 1_000


def executions(statuses: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row for each executed task: when, where, how, how late and for how long.

    ``lateness_ms`` and ``duration_ms`` are whole milliseconds, of the first and of the last
    attempt.
    """
    tried = attempts.groupBy(*KEY).agg(
        f.min("started").alias("first_started"),
        f.max_by(f.struct("started", "finished"), "attempt").alias("last"),
    )
    closed = statuses.where(f.col("result").isin(*RESULTS)).withColumnRenamed("started", "began")
    # A key that ran out of attempts has no attempt in its completion: its history has them all.
    started = f.coalesce("began", "last.started")
    finished = f.when(f.col("began").isNotNull(), f.col("finished")).otherwise(
        f.col("last.finished")
    )
    return (
        closed.join(tried, list(KEY), "left")
        .where(started.isNotNull())
        .select(
            *KEY,
            f.date_trunc("hour", "scheduled_time").alias("hour"),
            "result",
            f.greatest(f.col("attempts"), f.lit(1)).alias("attempts"),
            (
                f.unix_millis(f.least(f.col("first_started"), started))
                - f.unix_millis("scheduled_time")
            ).alias("lateness_ms"),
            (f.unix_millis(finished) - f.unix_millis(started)).alias("duration_ms"),
        )
    )


def summarised(ran: DataFrame, *groups: str) -> DataFrame:
    """Return counts and percentiles of executions, by some columns or in all."""
    return ran.groupBy(*groups).agg(
        f.count("*").alias("executions"),
        *(f.count_if(f.col("result") == name).alias(name) for name in RESULTS),
        f.sum(f.col("attempts") - 1).alias("retries"),
        *_percentiles("lateness_ms"),
        f.max("lateness_ms").alias("lateness_ms_max"),
        *_percentiles("duration_ms"),
        f.max("duration_ms").alias("duration_ms_max"),
    )


def by_day(ran: DataFrame) -> DataFrame:
    """Return ``summarised`` by day in UTC."""
    return summarised(ran.withColumn("day", f.date_trunc("day", "scheduled_time")), "day")


def busiest(ran: DataFrame, count: int) -> DataFrame:
    """Return the ordering ids with the most executions."""
    return summarised(ran, "ordering_id").orderBy(f.desc("executions"), "ordering_id").limit(count)


def slowest(ran: DataFrame, count: int) -> DataFrame:
    """Return the ordering ids with the longest attempts, by their 95th percentile."""
    of_ids = summarised(ran, "ordering_id")
    return of_ids.orderBy(f.desc("duration_ms_p95"), "ordering_id").limit(count)


def causes(attempts: DataFrame, count: int) -> DataFrame:
    """Return the error classes of failed attempts, most frequent first, with a message."""
    failed = attempts.where(f.col("result").isin("failure", "timeout"))
    return (
        failed.groupBy(f.coalesce("error_class", f.col("result")).alias("cause"))
        .agg(
            f.count("*").alias("attempts"),
            f.approx_count_distinct("ordering_id").alias("ordering_ids"),
            f.substring(f.min("error_message"), 1, 300).alias("message"),
        )
        .orderBy(f.desc("attempts"), "cause")
        .limit(count)
    )


def ahead(states: DataFrame, unit: str) -> DataFrame:
    """Return the number of open tasks that are due in each minute, hour or day."""
    return (
        states.groupBy(f.date_trunc(unit, "scheduled_time").alias("due"))
        .agg(f.count("*").alias("tasks"), f.approx_count_distinct("ordering_id").alias("ids"))
        .orderBy("due")
    )


def _percentiles(name: str) -> list[Column]:
    return [
        f.percentile_approx(name, share, _ACCURACY).alias(f"{name}_{short}")
        for short, share in _PERCENTILES.items()
    ]


@dataclass(frozen=True, slots=True)
class ReportPlan:
    """The period and the folder of a report."""

    from_ms: int
    to_ms: int
    folder: Path
    format: str = PARQUET


def run_report(job: JobOptions, plan: ReportPlan) -> Summary:
    """Write a report into a folder: a Parquet table for each view, and ``report.html``.

    Raises InvalidInput for an empty period, or one longer than a year.
    """
    if not 0 < plan.to_ms - plan.from_ms <= PERIOD_HOURS_MAX * 3_600_000:
        raise InvalidInput("the period of a report begins before it ends, a year before at most")
    check_format(plan.format)
    now_ms = wiring.open_clock().now_ms()
    with spark_job("report", job) as spark, written_as_instants(spark):
        views = _views(spark, job, plan, now_ms)
        total = only_row(views.pop("total"))
        tables = {name: _kept(view, plan.folder / name) for name, view in views.items()}
        spark.catalog.clearCache()
        for name, rows in tables.items():
            finish_table(plan.format, str(plan.folder / name), len(rows))
    page = plan.folder / "report.html"
    period = (from_millis(plan.from_ms), from_millis(plan.to_ms))
    page.write_text(render(total, tables, period), encoding="utf-8")
    return {
        "job": "report",
        "page": str(page),
        "tables": {name: len(rows) for name, rows in tables.items()},
        **total,
        "ahead": sum(row["tasks"] for row in tables["ahead_by_day"]),
    }


def _views(
    spark: SparkSession, job: JobOptions, plan: ReportPlan, now_ms: int
) -> dict[str, DataFrame]:
    time = f.col("scheduled_time")
    within = (time >= from_millis(plan.from_ms)) & (time < from_millis(plan.to_ms))
    statuses = read_table(spark, job, "statuses").where(within)
    attempts = read_table(spark, job, "attempts").where(within).persist(StorageLevel.DISK_ONLY)
    ran = executions(statuses, attempts).persist(StorageLevel.DISK_ONLY)
    now = from_millis(now_ms)
    waiting = (
        read_table(spark, job, "states")
        .where(f.col("state").isin(*sorted(OPEN_STATES)))
        .where((time >= now) & (time < now + _AHEAD["day"]))
        .select("scheduled_time", "ordering_id")
        .persist(StorageLevel.DISK_ONLY)
    )
    return {
        "total": summarised(ran),
        "by_hour": summarised(ran, "hour").orderBy("hour"),
        "by_day": by_day(ran).orderBy("day"),
        "by_partition": summarised(ran, "partition").orderBy("partition"),
        "busiest": busiest(ran, TOP),
        "slowest": slowest(ran, TOP),
        "causes": causes(attempts, TOP),
        **{
            f"ahead_by_{unit}": ahead(waiting.where(time < now + reach), unit)
            for unit, reach in _AHEAD.items()
        },
    }


def _kept(view: DataFrame, folder: Path) -> list[Mapping[str, Any]]:
    """Write an aggregate and return its rows: hours, partitions or ids, never tasks."""
    rows: list[Mapping[str, Any]] = [row.asDict() for row in view.collect()]
    frame = view.sparkSession.createDataFrame([tuple(row.values()) for row in rows], view.schema)
    frame.coalesce(1).write.mode("overwrite").parquet(str(folder))
    return rows


Row = Mapping[str, Any]
Rows = Sequence[Row]

_COLOURS = {"success": "#2a9d8f", "failure": "#e4572e", "dropped": "#8d99ae", "ahead": "#3a6ea5"}
_LATENESS = {"p50": "#2a9d8f", "p95": "#f4a259", "p99": "#e4572e"}
_TEXT_CHARS_MAX = 200

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Hourhand report</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark;
  --ink: #1d2433; --paper: #fff; --soft: #f3f5f9; --dim: #667085; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e8ecf4; --paper: #151a24; --soft: #1f2633; --dim: #98a2b3; }} }}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  margin: 0 auto; max-width: 1180px; padding: 2rem 1.25rem 4rem; }}
h1 {{ font-size: 1.6rem; margin: 0; }} h2 {{ font-size: 1.1rem; margin: 2.5rem 0 .5rem; }}
p {{ color: var(--dim); margin: .25rem 0 1.5rem; }}
.cards {{ display: grid; gap: .75rem;
  grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); }}
.card {{ background: var(--soft); border-radius: 10px; padding: .8rem 1rem; }}
.card b {{ display: block; font-size: 1.5rem; font-variant-numeric: tabular-nums; }}
.card span {{ color: var(--dim); font-size: .85rem; }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }}
th, td {{ text-align: right; padding: .35rem .6rem; border-bottom: 1px solid var(--soft); }}
th:first-child, td:first-child {{ text-align: left; overflow-wrap: anywhere; }}
.wide {{ overflow-x: auto; }}
</style><script>{script}</script></head><body>
<h1>Hourhand report</h1><p>Tasks due from {start} to {end} (UTC), and what waits from now on.</p>
<div class="cards">{cards}</div>
{sections}
</body></html>
"""


_LISTS = (
    (
        "Busiest ordering ids",
        "busiest",
        ("ordering_id", "executions", "failure", "retries", "lateness_ms_p95", "duration_ms_p95"),
    ),
    (
        "Slowest ordering ids",
        "slowest",
        ("ordering_id", "duration_ms_p50", "duration_ms_p95", "duration_ms_max", "executions"),
    ),
    ("Why attempts failed", "causes", ("cause", "attempts", "ordering_ids", "message")),
    (
        "By day",
        "by_day",
        (
            "day",
            "executions",
            "success",
            "failure",
            "dropped",
            "retries",
            "lateness_ms_p50",
            "lateness_ms_p95",
            "lateness_ms_p99",
        ),
    ),
)
"""The lists of the page: title, view and shown columns."""


def render(total: Row, tables: Mapping[str, Rows], period: tuple[datetime, datetime]) -> str:
    """Return the page."""
    sections = [
        ("Executions by hour", _figure(_executions(tables["by_hour"]))),
        ("Lateness by hour, in ms", _figure(_lateness(tables["by_hour"]), log=True)),
        ("Load ahead", _figure(_ahead(tables), menu=_ahead_menu())),
        ("Executions by partition", _figure(_partitions(tables["by_partition"]))),
        *((title, _table(tables[name], *columns)) for title, name, columns in _LISTS),
    ]
    return _PAGE.format(
        script=plotly.offline.get_plotlyjs(),
        start=f"{period[0]:%Y-%m-%d %H:%M}",
        end=f"{period[1]:%Y-%m-%d %H:%M}",
        cards="".join(_cards(total, tables)),
        sections="\n".join(f"<h2>{title}</h2>\n{body}" for title, body in sections),
    )


def _cards(total: Row, tables: Mapping[str, Rows]) -> list[str]:
    waiting = sum(row["tasks"] for row in tables["ahead_by_day"])
    facts = [
        ("executed", total["executions"]),
        ("failed", total["failure"]),
        ("dropped", total["dropped"]),
        ("retries", total["retries"]),
        ("lateness p50, ms", total["lateness_ms_p50"]),
        ("lateness p99, ms", total["lateness_ms_p99"]),
        ("run time p95, ms", total["duration_ms_p95"]),
        ("waiting, next year", waiting),
    ]
    return [
        f'<div class="card"><b>{_shown(fact)}</b><span>{name}</span></div>' for name, fact in facts
    ]


def _executions(rows: Rows) -> list[Any]:
    return [
        go.Bar(
            name=result,
            x=[row["hour"] for row in rows],
            y=[row[result] for row in rows],
            marker_color=_COLOURS[result],
        )
        for result in ("success", "failure", "dropped")
    ]


def _lateness(rows: Rows) -> list[Any]:
    return [
        go.Scatter(
            name=short,
            x=[row["hour"] for row in rows],
            # A logarithmic axis has no 0: tasks on time are drawn at its foot.
            y=[max(row[f"lateness_ms_{short}"], 1) for row in rows],
            mode="lines+markers",
            line_color=colour,
        )
        for short, colour in _LATENESS.items()
    ]


def _ahead(tables: Mapping[str, Rows]) -> list[Any]:
    return [
        go.Bar(
            name=f"due each {unit}",
            x=[row["due"] for row in tables[f"ahead_by_{unit}"]],
            y=[row["tasks"] for row in tables[f"ahead_by_{unit}"]],
            marker_color=_COLOURS["ahead"],
            visible=unit == "hour",
        )
        for unit in ("minute", "hour", "day")
    ]


def _ahead_menu() -> list[dict[str, Any]]:
    labels = {
        "minute": "next 24 hours, by minute",
        "hour": "30 days, by hour",
        "day": "a year, by day",
    }
    buttons = [
        {
            "label": label,
            "method": "update",
            "args": [{"visible": [name == unit for name in labels]}],
        }
        for unit, label in labels.items()
    ]
    return [{"buttons": buttons, "active": 1, "x": 0, "xanchor": "left", "y": 1.2}]


def _partitions(rows: Rows) -> list[Any]:
    return [
        go.Bar(
            x=[row["partition"] for row in rows],
            y=[row["executions"] for row in rows],
            marker={
                "color": [row["lateness_ms_p95"] for row in rows],
                "colorscale": "Tealgrn",
                "colorbar": {"title": "lateness p95, ms"},
            },
        )
    ]


def _figure(traces: list[Any], *, log: bool = False, menu: list[Any] | None = None) -> str:
    figure = go.Figure(traces)
    figure.update_layout(
        barmode="stack",
        height=340,
        margin={"l": 60, "r": 20, "t": 30, "b": 40},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": "#7a8699"},
        legend={"orientation": "h", "y": 1.12},
        hovermode="x unified",
        updatemenus=menu or [],
    )
    figure.update_yaxes(gridcolor="rgba(128,138,158,.25)", type="log" if log else "linear")
    text: str = figure.to_html(full_html=False, include_plotlyjs=False, config={"responsive": True})
    return text


def _table(rows: Rows, *columns: str) -> str:
    if not rows:
        return "<p>Nothing.</p>"
    head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{_shown(row[name])}</td>' for name in columns)}</tr>" for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _shown(fact: object) -> str:
    """Return a value as escaped text, which no id or message can turn into markup."""
    if fact is None:
        return "-"
    if isinstance(fact, int):
        return f"{fact:,}"
    if isinstance(fact, datetime):
        return f"{fact:%Y-%m-%d}"
    text = str(fact)
    return html.escape(text if len(text) <= _TEXT_CHARS_MAX else f"{text[:_TEXT_CHARS_MAX]}…")
