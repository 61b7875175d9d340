"""The report as one page that needs nothing beside it: charts, and the figures behind them.

Decides what is drawn.  Plotly's script is inside the page, so it opens from a mail or a disk
without a network; nothing of the data is sent anywhere.
"""

import html
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import plotly.graph_objects as go
import plotly.offline

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
            *("day", "executions", "success", "failure", "dropped", "retries"),
            *("lateness_ms_p50", "lateness_ms_p95", "lateness_ms_p99"),
        ),
    ),
)
"""What is listed: its title, its view and the columns shown."""


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
            # A logarithmic axis has no 0: what is on time is drawn at its foot.
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
    """Return a fact as text that no id or message can turn into markup."""
    if fact is None:
        return "-"
    if isinstance(fact, int):
        return f"{fact:,}"
    if isinstance(fact, datetime):
        return f"{fact:%Y-%m-%d}"
    text = str(fact)
    return html.escape(text if len(text) <= _TEXT_CHARS_MAX else f"{text[:_TEXT_CHARS_MAX]}…")
