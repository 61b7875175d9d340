"""Answers as text that a person reads: words for headings, times, durations and states.

Decides only the form of values. States are coloured where standard output is a terminal and
``NO_COLOR`` is not set. Foreign text can neither move a terminal's cursor nor pass for another
line.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

import typer

from hourhand.actors.model.values.display import duration_text, printable_lines
from hourhand.scheduler.admin.answers import Answer
from hourhand.scheduler.cli.rendering import as_json, facts_of

_HEADINGS = {
    "asOf": "REPORTED",
    "executionsPerS": "RUNS/S",
    "failuresPerS": "FAILURES/S",
    "orderingId": "ORDERING ID",
    "intervalMs": "EVERY",
    "repeatForMs": "REPEATED FOR",
    "replayable": "CAN REPLAY",
    "taken": "RUNS",
}
_COLOURS = {
    "success": typer.colors.GREEN,
    "applied": typer.colors.GREEN,
    "alive": typer.colors.GREEN,
    "running": typer.colors.CYAN,
    "started": typer.colors.CYAN,
    "cancelling": typer.colors.YELLOW,
    "retrying": typer.colors.YELLOW,
    "snoozed": typer.colors.YELLOW,
    "expired": typer.colors.YELLOW,
    "limited": typer.colors.YELLOW,
    "failing": typer.colors.YELLOW,
    "paused": typer.colors.YELLOW,
    "undecided": typer.colors.YELLOW,
    "blocked": typer.colors.RED,
    "failure": typer.colors.RED,
    "silent": typer.colors.RED,
    "unknown": typer.colors.RED,
}
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?Z")
_STYLE = re.compile("(\x1b\\[(?:3[1-6]|0)m)")
"""Escape codes that ``typer.style`` puts around a word in one of these colours."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def coloured(text: str, state: str) -> str:
    """Return ``text`` in the colour of a state, if colours are on and the state has one."""
    colour = _COLOURS.get(state)
    wanted = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return text if colour is None or not wanted else typer.style(text, fg=colour)


def heading_of(name: str) -> str:
    """Return the heading for a field: ``loadedUntil`` becomes ``LOADED UNTIL``."""
    return _HEADINGS.get(name) or _words(name.removesuffix("Ms")).upper()


def cell_of(name: str, value: object) -> str:
    """Return the value of a field in one line: a dash for none, times in seconds, UTC."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and not any(isinstance(each, dict | list) for each in value):
        return one_line(", ".join(str(each) for each in value)) or "-"
    if isinstance(value, int | float) and name.endswith("Ms"):
        return duration_text(round(value))
    instant = _INSTANT.fullmatch(value) if isinstance(value, str) else None
    return one_line(value) if instant is None else f"{instant[1]} {instant[2]}Z"


def one_line(fact: object) -> str:
    """Return a value as one printable line."""
    text = fact if isinstance(fact, str) else as_json(fact)
    return text if text.isprintable() else as_json(text)


def due_text(due_ms: int, now_ms: int) -> str:
    """Return how far away a moment is: ``in 10 s``, ``2 min ago``."""
    away_ms = due_ms - now_ms
    return f"in {duration_text(away_ms)}" if away_ms >= 0 else f"{duration_text(-away_ms)} ago"


def print_text(text: str) -> None:
    """Print lines of a result; every control code but our colours is escaped."""
    pieces = _STYLE.split(text) if sys.stdout.isatty() else [text]
    # The pattern's group makes every second piece a style.
    shown = [each if n % 2 else printable_lines(each) for n, each in enumerate(pieces)]
    typer.echo("".join(shown))


def print_rows(rows: Iterable[Answer | Mapping[str, object]], columns: Sequence[str]) -> None:
    """Print fields of answers as a table."""
    for line in row_lines(rows, columns):
        print_text(line)


def row_lines(
    rows: Iterable[Answer | Mapping[str, object]], columns: Sequence[str]
) -> Iterator[str]:
    """Yield fields of answers as a table, each row in exactly one line."""
    facts = [facts_of(row) if isinstance(row, Answer) else row for row in rows]
    table = [[heading_of(name) for name in columns]]
    table += [[cell_of(name, row.get(name)) for name in columns] for row in facts]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for number, row in enumerate(table):
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        shown = "  ".join(cells).rstrip() if number == 0 else "  ".join(map(_shown, row, cells))
        yield shown.rstrip()


def fact_lines(facts: Mapping[str, object]) -> Iterator[str]:
    """Yield facts as text, one a line, names in a column of their own."""
    names = [_words(name.removesuffix("Ms")).lower() for name in facts]
    width = max(map(len, names))
    for name, (field, value) in zip(names, facts.items(), strict=True):
        cell = cell_of(field, value)
        yield f"{name:<{width}}  {_shown(cell, cell)}"


def _shown(word: str, padded: str) -> str:
    return coloured(padded, word)


def _words(name: str) -> str:
    return _HUMP.sub(" ", name)
