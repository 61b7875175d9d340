"""Runs ``hourhand`` in this process, as a person would type it.

The commands are made once: to make all of them takes longer than most of them do.
"""

from functools import cache

from typer import main, testing
from typer.testing import CliRunner, Result

from hourhand.scheduler.cli.cli import app


def run(*arguments: str, stdin: str | None = None) -> Result:
    """Return how the command ended and what it showed."""
    return CliRunner().invoke(app, list(arguments), input=stdin)


setattr(testing, "_get_command", cache(main.get_command))  # noqa: B010 - private to Typer
