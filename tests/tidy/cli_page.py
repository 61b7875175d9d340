"""Writes docs/cli.md: every command with the help it gives itself."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from hourhand.scheduler.cli.cli import app

_COLUMNS = 96
_HEAD = """\
# Commands

`hourhand COMMAND -h` says the same as this page, which `make docs` writes from it. Every command
takes its settings from the environment and `hourhand.toml`, and `--set NAME=VALUE` for one of them:
[settings](settings.md).

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a bug in Hourhand; also a demo or an audit that found something wrong |
| 2 | the request cannot be carried out: wrong usage, refused, or an unknown name or key |
| 3 | the installation is not ready: a setting, a server, or a node that is not healthy |
| 4 | the command was sent, and no node decided it while it waited (`--wait`, if not 0) |
| 130 | interrupted |

An error is one line on standard error, with its [code](errors.md); `usage` is the code of an
option or value that the command does not take. With `-o json` that line is an object,
`{"error":{"code":"…","message":"…","exitCode":2}}`. Colours are for terminals; `NO_COLOR` turns
them off.
"""


def cli_page() -> str:
    """Return the page, commands in the order in which ``hourhand -h`` lists them."""
    sections = [_section(context) for context in _contexts(typer.main.get_command(app), "hourhand")]
    return "\n".join([_HEAD, *sections])


def _contexts(
    command: Any, name: str, parent: typer.Context | None = None
) -> Iterator[typer.Context]:
    """Yield what is below a command, each before its own; the root says no more than they do."""
    settings = {
        **command.context_settings,
        "terminal_width": _COLUMNS,
        "max_content_width": _COLUMNS,
    }
    context = typer.Context(command, info_name=name, parent=parent, **settings)
    if parent is not None:
        yield context
    if isinstance(command, TyperGroup):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None and not found.hidden:
                yield from _contexts(found, below, context)


def _section(context: typer.Context) -> str:
    text = "\n".join(line.rstrip() for line in context.get_help().splitlines())
    return f"## {context.command_path}\n\n```text\n{text}\n```\n"
