"""Shows the results: a table for people, one JSON line a comparison for programs, a page.

The page's section between two markers is replaced as a whole; nothing else of it is touched.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.catalogue import MEASURES

BEGIN = "<!-- bench:begin -->"
END = "<!-- bench:end -->"

_SURVIVES = "survives: process / machine; against"
_HEADINGS = (
    *("measure", "value", "spread", "unit", "against", "value", "ratio"),
    *(_SURVIVES, "goal"),
)

Row = dict[str, Any]
"""One line of the results, as ``Line.as_json`` writes it."""
Curves = dict[str, Any]
"""Points of the plots, by name."""


def table(rows: Sequence[Row]) -> Table:
    """Return the results as a table."""
    shown = Table(title="Hourhand beside its rivals and limits", title_justify="left")
    for heading in (*_HEADINGS, ""):
        shown.add_column(heading, justify="right" if heading in {"value", "ratio"} else "left")
    for row in rows:
        shown.add_row(*_cells(row), _verdict(row["met"]))
    return shown


def show(rows: Sequence[Row]) -> None:
    """Print the table, and then the lines."""
    # Wide enough for every column where the output is not a terminal.
    console = Console(width=None if Console().is_terminal else 160)
    console.print(table(rows))
    for line in json_lines(rows):
        print(line)


def json_lines(rows: Iterable[Row]) -> list[str]:
    """Return one JSON text a row."""
    return [json.dumps(row, ensure_ascii=False) for row in rows]


def write_results(path: Path, rows: Sequence[Row], curves: Curves) -> None:
    """Keep the lines at ``path`` and what the plots show beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in json_lines(rows)), encoding="utf-8")
    curves_path(path).write_text(json.dumps(curves), encoding="utf-8")


def read_results(path: Path) -> tuple[list[Row], Curves]:
    """Read what ``write_results`` kept."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return rows, json.loads(curves_path(path).read_text(encoding="utf-8"))


def merged(earlier: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """Return rows with those of earlier calls for what was not measured this time.

    Only rows of the same machine and version stand beside one another.
    """
    measured = {row["measure"] for row in rows}
    alike = {(row["machine"], row["version"]) for row in rows}
    kept = [
        row
        for row in earlier
        if row["measure"] not in measured and (row["machine"], row["version"]) in alike
    ]
    order = {name: number for number, name in enumerate(MEASURES)}
    return sorted([*kept, *rows], key=lambda row: order.get(row["measure"], len(order)))


def curves_path(path: Path) -> Path:
    """Return where the plots' points are kept."""
    return path.with_suffix(".curves.json")


def fill_page(page: str, rows: Sequence[Row], images: Sequence[tuple[str, str]]) -> str:
    """Return ``page`` with its generated section recreated; ValueError without the markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no section between {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{_section(rows, images)}\n{END}{after}"


def _section(rows: Sequence[Row], images: Sequence[tuple[str, str]]) -> str:
    first = rows[0]
    lines = [
        f"Machine: {first['machine']}. Version `{first['version']}`. {_commits(rows)}",
        "Client, node and servers share the machine.",
        "",
        "| measure | value | beside, and goal |",
        "|---|---|---|",
        *(f"| {' | '.join(cells)} |" for cells in _lines_of_page(rows)),
        "",
        *(f"![{title}]({path})\n" for title, path in images),
    ]
    return "\n".join(lines)


def _lines_of_page(rows: Sequence[Row]) -> Iterator[tuple[str, str, str]]:
    """Yield the cells of each line.

    A value that is compared with several systems has one line.  Neighbours that are compared with
    none share a line if they have the same goal.  A count that must be 0 and is has no line.
    """
    lines: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["met"] and row["value"] == 0:
            continue
        lines.setdefault((row["measure"], _value(row)), []).append(row)
    cells = [
        (measure, value, "; ".join(filter(None, map(_comparison, of_line))))
        for (measure, value), of_line in lines.items()
    ]
    for (measure, _, comparison), alike in groupby(cells, key=_shared):
        yield measure, "; ".join(value for _, value, _ in alike), comparison


def _shared(cells: tuple[str, str, str]) -> tuple[str, str, str]:
    """Return what is equal in neighbours that share a line."""
    measure, value, comparison = cells
    return measure, value if " x " in comparison else "", comparison


def _value(row: Row) -> str:
    low, high = row["spread"]
    spread = "" if row["rounds"] == 1 else f" ({_number(low)}-{_number(high)})"
    return f"{_number(row['value'])} {row['unit']}{spread}"


def _comparison(row: Row) -> str:
    beside = ""
    if row["ratio"] is not None:
        survives = row.get("detail", {}).get("survives", "").partition("; ")[2]
        other = _number(row["against_value"]) + (f", survives: {survives}" if survives else "")
        beside = f"{_number(row['ratio'])} x {row['against']} ({other})"
    return ", ".join(filter(None, (beside, _goal(row))))


def _goal(row: Row) -> str:
    if not row["goal"]:
        return ""
    goal = row["goal"].removeprefix("ratio ")
    return f"{goal.replace('at least', '≥').replace('at most', '≤')}: {_verdict(row['met'])}"


def _commits(rows: Sequence[Row]) -> str:
    """Return which commit was measured; where several were, what of which."""
    measures: dict[str, list[str]] = {}
    for row in rows:
        of_commit = measures.setdefault(row["commit"], [])
        if row["measure"] not in of_commit:
            of_commit.append(row["measure"])
    most = max(measures, key=lambda commit: len(measures[commit]))
    others = [f"{commit} for {', '.join(of)}" for commit, of in measures.items() if commit != most]
    return f"Commit {'; '.join([most, *others])}."


def _cells(row: Row) -> list[str]:
    low, high = row["spread"]
    return [
        row["measure"],
        _number(row["value"]),
        "" if row["rounds"] == 1 else f"{_number(low)} to {_number(high)}",
        row["unit"],
        row["against"] or "",
        _number(row["against_value"]),
        _number(row["ratio"]),
        row.get("detail", {}).get("survives", ""),
        row["goal"] or "",
    ]


def _verdict(met: bool | None) -> str:  # noqa: FBT001 - it is what it shows
    return {True: "met", False: "NOT met", None: ""}[met]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
