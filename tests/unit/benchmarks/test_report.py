"""The table, the lines, and the section of the page."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import report
from benchmarks.figures import Figure, Goal, Line


def a_row(**where: str) -> report.Row:
    """Return one row of results."""
    line = Line(
        "drain_cluster",
        Figure.of([20_000.0, 21_000.0, 25_000.0]),
        "tasks/s",
        "awa-pg",
        Figure.of([4_200.0]),
        Goal("at least", 5),
    )
    return line.as_json(**{"machine": "a machine", "commit": "abc", "version": "quick", **where})


def test_the_table_shows_values_ratio_and_verdict() -> None:
    """What a person looks for first."""
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(report.table([a_row()]))
    shown = console.export_text()

    for expected in ("drain_cluster", "21,000", "20,000 to 25,000", "4,200", "awa-pg", "5", "met"):
        assert expected in shown
    assert "NOT" not in shown


def test_the_table_says_what_survives() -> None:
    """On the screen and on the page; a line that compares nothing says nothing of it."""
    row = {**a_row(), "detail": {"survives": "yes / no; yes / yes"}}
    console = Console(width=250, record=True, file=io.StringIO())
    console.print(report.table([row, a_row()]))
    page = report.fill_page(f"{report.BEGIN}\n{report.END}\n", [row], [])

    assert console.export_text().count("yes / no; yes / yes") == 1
    assert page.count("x awa-pg (4,200, survives: yes / yes)") == 1


def test_results_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    """One JSON text a line, the curves beside them."""
    path = tmp_path / "results" / "results.jsonl"

    report.write_results(path, [a_row()], {"lateness": [(0.5, 1.5)]})
    rows, curves = report.read_results(path)

    assert rows == [a_row()]
    assert curves == {"lateness": [[0.5, 1.5]]}
    assert [json.loads(line) for line in path.read_text().splitlines()] == rows


def test_the_page_keeps_everything_outside_its_section() -> None:
    """Filling it twice gives the same page."""
    page = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
    once = report.fill_page(page, [a_row()], [("Throughput", "images/throughput.svg")])

    assert once.startswith("before\n")
    assert once.endswith("after\n")
    assert "old" not in once
    assert "| 21,000 tasks/s (20,000-25,000) | 5 x awa-pg (4,200), ≥ 5: met |" in once
    assert "![Throughput](images/throughput.svg)" in once
    assert report.fill_page(once, [a_row()], [("Throughput", "images/throughput.svg")]) == once


def test_a_count_that_must_be_0_and_is_has_no_line_of_the_page() -> None:
    """It stays on the screen, and on the page where the goal is not met."""
    goal = Goal("at most", 0, of="value")
    where = {"machine": "a machine", "commit": "abc", "version": "quick"}
    rows = [
        Line("relay_1k", Figure.of([count]), "missing messages", goal=goal).as_json(**where)
        for count in (0.0, 3.0)
    ]

    page = report.fill_page(f"{report.BEGIN}\n{report.END}", rows, [])

    assert "| 0 missing messages" not in page
    assert "| 3 missing messages | value ≤ 0: NOT met |" in page


def test_a_page_without_the_markers_is_not_touched() -> None:
    """An error says which are missing."""
    with pytest.raises(ValueError, match="bench:begin"):
        report.fill_page("a page", [a_row()], [])


def test_what_was_not_measured_again_stays() -> None:
    """Of the same machine and version; each commit says what of it was measured."""
    again, other = a_row(commit="def"), {**a_row(), "measure": "takeover"}
    foreign = {**other, "machine": "another"}
    full = {**other, "version": "full"}

    rows = report.merged([a_row(), other, foreign, full], [again])

    assert rows == [again, other]
    page = report.fill_page(f"{report.BEGIN}\n{report.END}", rows, [])
    assert "Commit def; abc for takeover." in page


def test_nothing_measured_keeps_nothing() -> None:
    """There is nothing that would say which machine it was."""
    assert report.merged([a_row()], []) == []
