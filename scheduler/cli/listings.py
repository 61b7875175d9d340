"""Answers of commands that read: whole as JSON for a program, or as lines for a person."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import typer

from hourhand.scheduler.admin.answers import Answer
from hourhand.scheduler.cli.failing import say
from hourhand.scheduler.cli.rendering import as_json, facts_of
from hourhand.scheduler.cli.session import ResultOptions
from hourhand.scheduler.cli.text_output import fact_lines, print_rows, print_text

PageOption = Annotated[
    int,
    typer.Option(min=1, max=1_000, metavar="N", help="Approximate number of entries to list."),
]
CursorOption = Annotated[
    str | None, typer.Option(metavar="CURSOR", help="Cursor from the previous page.")
]


def print_listing(
    common: ResultOptions,
    answer: object,
    rows: Sequence[Answer | Mapping[str, object]],
    columns: Sequence[str],
    *,
    none: str = "",
    following: str = "",
) -> None:
    """Print an answer: as JSON, or its rows as a table.

    ``none`` is said instead of a table without rows; ``following`` is the option for the next page.
    """
    if common.wants_json:
        typer.echo(as_json(answer))
        return
    if rows or not none:
        print_rows(rows, columns)
    else:
        say(none)
    if following:
        say(f"there are more: {following}")


def print_facts(common: ResultOptions, answer: Answer | Mapping[str, object]) -> None:
    """Print an answer: as JSON, or one fact a line."""
    facts = facts_of(answer) if isinstance(answer, Answer) else answer
    print_lines(common, answer, fact_lines(facts))


def print_lines(common: ResultOptions, answer: object, lines: Iterable[str]) -> None:
    """Print an answer: as JSON, or as these lines."""
    if common.wants_json:
        typer.echo(as_json(answer))
    else:
        for line in lines:
            print_text(line)


def print_done(common: ResultOptions, done: Sequence[str]) -> None:
    """Print what a command has created."""
    print_lines(common, {"done": done}, done or ["everything exists already: nothing to do"])
