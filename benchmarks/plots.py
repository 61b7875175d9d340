"""Draws what the results say: throughput, lateness beside the rival's, and the cost curve.

Nothing is measured here, and a curve that was not measured is not drawn.
"""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import Row

_OURS, _THEIRS = "#1f5f8b", "#c0562f"
_COLOURS = {
    "hourhand": _OURS,
    "awa-pg": _THEIRS,
    "Graphile Worker": "#6b8e23",
    "PgQueuer": "#7a5195",
}
_MEASURES = ("lateness_1k", "lateness_3k")


def draw(rows: Sequence[Row], curves: dict[str, Any], folder: Path) -> list[tuple[str, str]]:
    """Write every plot there is data for; return title and path below docs of each."""
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "hourhand"
    pyplot = importlib.import_module("matplotlib.pyplot")
    folder.mkdir(parents=True, exist_ok=True)
    plots: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
        ("Tasks per second", "throughput", lambda axes: _throughput(axes, rows)),
        ("Lateness", "lateness", lambda axes: _lateness(axes, curves)),
        ("Time per task over pending tasks", "cost-curve", lambda axes: _cost(axes, curves)),
    )
    drawn = []
    for title, name, fill in plots:
        figure, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
        axes.set_title(title)
        if fill(axes):
            # Without a date two runs of the same results are the same file.
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
            drawn.append((title, f"images/{name}.svg"))
        pyplot.close(figure)
    return drawn


def _throughput(axes: Any, rows: Sequence[Row]) -> bool:
    bars: dict[str, tuple[float, list[float]]] = {}
    for row in rows:
        of_rates = row["unit"] == "tasks/s"
        if of_rates and row["measure"] in {"drain_cluster", "embedded", "bare_loop"}:
            name = {"drain_cluster": "Hourhand", "embedded": "Hourhand, embedded"}
            bars[name.get(row["measure"], "bare loop")] = (row["value"], row["spread"])
            if row["against_value"] is not None:
                bars[row["against"]] = (row["against_value"], row["against_spread"])
    names = sorted(bars, key=lambda name: bars[name][0])
    values = [bars[name][0] for name in names]
    errors = [
        [bars[name][0] - bars[name][1][0] for name in names],
        [bars[name][1][1] - bars[name][0] for name in names],
    ]
    colours = [_OURS if name.startswith("Hourhand") else _THEIRS for name in names]
    axes.barh(names, values, xerr=errors, color=colours, capsize=3)
    axes.set_xlabel("no-op tasks per second, median of the rounds, least to greatest")
    return bool(bars)


def _lateness(axes: Any, curves: dict[str, Any]) -> bool:
    found = False
    for measure, style in zip(_MEASURES, ("-", "--"), strict=True):
        for who, colour in _COLOURS.items():
            points = curves.get(f"{measure} {who}")
            if points:
                found = True
                left = [1 - share for share, _ in points]
                late = [max(0.05, value) for _, value in points]
                axes.plot(left, late, style, color=colour, label=f"{who}, {measure}")
    if found:
        axes.set_xscale("log")
        axes.invert_xaxis()
        axes.set_yscale("log")
        axes.set_xlabel("share of tasks that are later")
        axes.set_ylabel("ms late")
        axes.legend()
    return found


def _cost(axes: Any, curves: dict[str, Any]) -> bool:
    found = {
        name.partition(" ")[2]: points
        for name, points in curves.items()
        if name.startswith("cost_curve ")
    }
    for name, points in found.items():
        axes.plot([x for x, _ in points], [y * 1e6 for _, y in points], "o-", label=name)
    if found:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("pending tasks")
        axes.set_ylabel("µs a task")
        axes.legend()
    return bool(found)
