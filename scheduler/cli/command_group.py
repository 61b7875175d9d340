"""A command with commands below it: how its help lists them, and how it refuses what was typed.

Decides that help names commands in groups, each with its whole first sentence, and that a wrong
option, value or name is one line as every other error is.
"""

import re
import sys
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from scheduler.cli.failing import EXIT_CALLER, choose_error_format, say, say_error

_SENTENCE_CHARS_MAX = 1_000
_TYPE = re.compile(r" <[^>]*>$")
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""What the parser raises; where the class is imported from depends on the version of Typer."""


class PlainCommand(TyperCommand):
    """A command whose help names arguments by what a person types, without Python's types."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for arguments, and one for options."""
        _write_parameters(self, ctx, formatter)


class CommandGroup(TyperGroup):
    """Commands in the groups that ``rich_help_panel`` names, as plain text."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for options, then the commands."""
        _write_parameters(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group, in the order in which the commands were added."""
        named = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        groups: dict[str, list[tuple[str, str]]] = {}
        for name, command in named:
            if command is not None and not command.hidden:
                sentence = command.get_short_help_str(_SENTENCE_CHARS_MAX)
                groups.setdefault(_title(command), []).append((name, sentence))
        for title, rows in groups.items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show the help where nothing was typed that needs something."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit(EXIT_CALLER)
        return super().parse_args(ctx, args)

    def main(self, *given: Any, **extra: Any) -> Any:
        """Run the command, and end the program as it demands."""
        typed = given[0] if given else extra.get("args")
        choose_error_format(sys.argv[1:] if typed is None else typed)
        ends_program = extra.get("standalone_mode", True)
        extra["standalone_mode"] = False
        if not ends_program:
            return super().main(*given, **extra)
        try:
            sys.exit(super().main(*given, **extra))
        except _UsageError as error:
            say_error(_message_of(error), "usage", EXIT_CALLER)
        except typer.Abort:
            say("nothing was done")
        sys.exit(EXIT_CALLER)


def _write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    arguments, options = [], []
    for each in command.get_params(ctx):
        record = each.get_help_record(ctx)
        if record is not None and each.param_type_name == "argument":
            arguments.append((_TYPE.sub("", record[0]), record[1]))
        elif record is not None:
            options.append(record)
    for title, rows in (("Arguments", arguments), ("Options", options)):
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def _title(command: Any) -> str:
    panel = getattr(command, "rich_help_panel", None)
    return panel if isinstance(panel, str) else "Commands"


def _message_of(error: Any) -> str:
    message = str(error.format_message()).rstrip(".")
    message = message[:1].lower() + message[1:]
    if error.ctx is None:
        return message
    return f"{message}{'' if message.endswith('?') else ';'} see `{error.ctx.command_path} -h`"
