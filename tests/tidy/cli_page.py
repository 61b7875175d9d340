"""Writes docs/cli.md: every command with its purpose, arguments and options."""

import re
from collections.abc import Iterator
from textwrap import fill, indent
from typing import Any

import typer
from typer.core import TyperGroup

from hourhand.scheduler.cli.cli import app

_COLUMNS = 96
_UNWRAPPED = 1_000
"""Columns in which each option has one line, from which words can be left out."""
_HEAD = """\
# Commands

Every command of `hourhand` with its arguments and options; `hourhand COMMAND -h` adds examples.
[Which command when](operations/commands.md) goes by the situation. `make docs` writes this page.

Many commands share these options, which are left out below:

| option | meaning |
|---|---|
| `--config FILE` | settings file in TOML, instead of `hourhand.toml` |
| `--set NAME=VALUE` | one [setting](settings.md), such as `group.id=blue`; repeatable |
| `-o json` | results and errors for programs |
| `--debug` | show a trace with every error |
| `-y`, `--yes` | do not ask for confirmation |
| `--reason TEXT` | reason for the audit log |
| `--wait SECONDS` | time to wait for the outcome; 5 by default |
| `--dry-run` | show the effect, and change nothing |
| `--limit N` | the most to list |
| `--kind`, `--error CLASS`, `--partition` | only tasks of this kind, last error, or partition |
| `--url`, `--port` | address to ask, or to listen on |
| `--after`, `--before` | cursor from the previous page |
| `--log-level LEVEL` | `debug`, `info`, `warning` or `error` |
| `--master URL`, `--conf NAME=VALUE` | of `pipeline`: Spark's master, a setting of Spark |

Times are RFC 3339 with a zone, or relative to now: `-2h`, `+7d`. `KEY` is a task's key,
`TIME,ORDERING_ID,UNIQUENESS_KEY`, as `schedule` and `list` print it. `TASK` is a key, or
`ORDERING_ID,UNIQUENESS_KEY` for the one open task that has both.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a bug in Hourhand; a demo or an audit found something wrong |
| 2 | refused: wrong usage, or an unknown name or key |
| 3 | the installation is not ready: a setting, a server, a node |
| 4 | no node decided the command within `--wait` |
| 130 | interrupted |

An error is one line on standard error with its [code](errors.md), or `usage` for a wrong option.
With `-o json` it is `{"error":{"code":"…","message":"…","exitCode":2}}`. `NO_COLOR` turns colours
off.
"""
_SHARED = re.compile(
    r"  (?:--config|--set|--debug|-o, --output FORMAT +text|-h, --help|-y, --yes|--reason"
    r"|--wait SECONDS|--master|--conf NAME|--dry-run|--limit N|--after |--before |--log-level"
    r"|--url URL|--port PORT|--kind KIND +Only|--error CLASS|--partition N"
    r"|(?:KEY|TASK|NAME|ID|LIMIT|ORDERING_ID|FOLDER|FILE|PARTITION:OFFSET)  )"
)
"""Begins of the lines that the head of the page, or the name of an argument, explains."""


_ELSEWHERE = {"recurring set": "[The rule](recurring.md#the-rule)"}
"""Commands whose options another page explains."""
_HELP_ALONE = re.compile(
    r"  \[required\]| *\[(?:-?[\d.]+<=)?x[<>]=-?[\d.]+\]|; (?:-?[\d.]+<=)?x[<>]=-?[\d.]+(?=\])"
    r"|: RFC 3339(?: with a zone)?(?:, [+-]\w+)?(?:, or now)?(?=[.;])|, in RFC 3339 with a zone"
)
"""Bounds, marks and forms that only ``-h`` shows, or that the head explains."""


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
        "terminal_width": _UNWRAPPED,
        "max_content_width": _UNWRAPPED,
    }
    context = typer.Context(command, info_name=name, parent=parent, **settings)
    if parent is not None and getattr(command, "invoke_without_command", True):
        yield context
    if isinstance(command, TyperGroup):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None and not found.hidden:
                yield from _contexts(found, below, context)


def _section(context: typer.Context) -> str:
    usage, _, text = context.get_help().removeprefix("Usage: ").partition("\n\n")
    words = usage.replace("[OPTIONS]", "").replace("COMMAND [ARGS]...", "").split()
    title = " ".join(words[1:])
    purpose, _, rest = text.partition("\n\n")
    rows = [
        own
        for heading in ("Arguments:", "Options:")
        if (own := "\n".join(_own(rest.partition(f"\n{heading}\n")[2].partition("\n\n")[0])))
    ]
    shown = f"\n{indent(chr(10).join(rows), '    ')}\n" if rows else ""
    if (page := _ELSEWHERE.get(title.partition(" {")[0])) is not None:
        shown = f"\n{page} explains its options.\n"
    return f"## {title}\n\n{' '.join(purpose.split())}\n{shown}"


def _own(rows: str) -> Iterator[str]:
    """Yield the rows of arguments or options, without those that the head explains once."""
    for line in rows.splitlines():
        if _SHARED.match(line):
            continue
        row = _HELP_ALONE.sub("", line).removeprefix("  ").rstrip()
        column = re.match(r"(\S+(?: \S+)* +)?", row)
        yield fill(
            row,
            _COLUMNS - 4,
            subsequent_indent=" " * (column.end() if column else 0),
            break_on_hyphens=False,
        )
