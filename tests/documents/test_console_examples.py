"""Every ``hourhand`` command that a page shows is one, with options and values it would take.

The tutorial's, the quickstart's and the README's are also typed for real: ``make test-tutorial``.
"""

from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from hourhand.scheduler.cli.cli import app
from tests.documents.blocks import commands, named_commands
from tests.tidy.source import ROOT, documents, report

_SPANS = {"store", "attempt", "batch", "complete"}
"""Names of traces' spans look like commands in prose."""
_SHOWN = [
    (page.relative_to(ROOT).as_posix(), line, words)
    for page in documents()
    for line, words in commands(page)
]


def parse(command: Any, name: str, words: list[str]) -> None:
    """Read a command's words as the command line does, and run nothing; raises where it would."""
    context = command.make_context(name, words)
    if isinstance(command, TyperGroup) and (rest := [*context._protected_args, *context.args]):
        below, found, left = command.resolve_command(context, rest)
        parse(found, str(below), left)


@pytest.mark.parametrize(
    ("name", "words"),
    [(name, words) for name, _, words in _SHOWN],
    ids=[f"{name}:{line}" for name, line, _ in _SHOWN],
)
def test_a_command_that_is_shown_can_be_typed(name: str, words: list[str]) -> None:
    """Names of commands and options, types of values, what is required."""
    if words in (["-h"], ["demo", "-h"]):
        return
    parse(typer.main.get_command(app), "hourhand", list(words))


def test_commands_that_prose_names_exist() -> None:
    """Down to the last word that is a name and not a value."""
    root = typer.main.get_command(app)
    report(
        f"{page.relative_to(ROOT)}: hourhand {' '.join(names)}"
        for page in documents()
        for names in named_commands(page)
        if not {*names[:1]} & _SPANS and not _exists(root, names)
    )


def _exists(command: Any, names: list[str]) -> bool:
    """True if the names lead to a command; what follows one without others is its argument."""
    if not names or not isinstance(command, TyperGroup):
        return True
    found = command.commands.get(names[0])
    return found is not None and _exists(found, names[1:])


def test_the_pages_show_commands() -> None:
    """Else the collector has gone blind."""
    assert len(_SHOWN) > 40
