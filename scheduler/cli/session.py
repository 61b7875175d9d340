"""Parts that all commands share: options and their settings, the form of help, suggestions for
typos.

Help names commands in groups, each with its whole first sentence. A wrong option, value or name is
one line, as every other error is.
"""

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import Field, dataclass, fields
from difflib import get_close_matches
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo

from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.scheduler.cli.failing import (
    EXIT_CALLER,
    choose_error_format,
    reported_errors,
    say,
    say_error,
)
from hourhand.scheduler.cli.rendering import OutputFormat
from hourhand.scheduler.configuration.overrides import load_settings
from hourhand.scheduler.configuration.settings import Settings

_SENTENCE_CHARS_MAX = 1_000
_TYPE = re.compile(r" <[^>]*>$")
_NO_OPTION = re.compile(r"no such option: (\S+) \(Possible options: ([^)]+)\)")
_NO_CHOICE = re.compile(r"'([^']*)' is not one of ((?:'[^']*'(?:, )?)+)")
_MEANT = {"done": "success", "succeeded": "success", "failed": "failure", "waiting": "pending"}
"""Words that people use for a state, and the name of the state."""
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""The error that the parser raises; the place of its class depends on Typer's version."""


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
        """Show the help if the command needs arguments and none were typed."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit(EXIT_CALLER)
        return super().parse_args(ctx, args)

    def main(self, *given: Any, **extra: Any) -> Any:
        """Run the command, and end the program with its exit code."""
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


def _with_suggestion(message: str) -> str:
    """Add the known value or option that is closest to the typed one, if any is close."""
    if option := _NO_OPTION.fullmatch(message):
        close = get_close_matches(option[1], option[2].split(", "), n=1, cutoff=0.0)
        return f"no such option: {option[1]}; did you mean {close[0]}?"
    if value := _NO_CHOICE.search(message):
        choices = re.findall("'([^']*)'", value[2])
        meant = _MEANT.get(value[1].lower(), value[1].lower())
        close = get_close_matches(meant, choices, n=1)
        return f"{message}; did you mean {close[0]}?" if close else message
    return message


def _message_of(error: Any) -> str:
    # Typer validates values with pydantic, which puts this before the message.
    message = str(error.format_message()).replace("Value error, ", "").rstrip(".")
    message = _with_suggestion(message[:1].lower() + message[1:])
    if error.ctx is None:
        return message
    return f"{message}{'' if message.endswith('?') else ';'} see `{error.ctx.command_path} -h`"


OutputOption = Annotated[
    OutputFormat,
    typer.Option(
        "--output",
        "-o",
        metavar="FORMAT",
        help="text, or json: results and errors for programs.",
    ),
]
LogLevelOption = Annotated[
    str, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")
]
PortOption = Annotated[
    int | None,
    typer.Option(min=0, max=65_535, metavar="PORT", help="Port to listen on; 0: any free one."),
]
MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        min=0, max=65_535, metavar="PORT", help="Port for metrics and health: observe.port."
    ),
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show a trace with every error.")]


@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """The options of every command that has settings; a parameter of this type stands for them."""

    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="Settings file in TOML, instead of hourhand.toml."
        ),
    ] = None
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="One setting, such as group.id=blue; repeatable."
        ),
    ] = None
    debug: DebugOption = False


@dataclass(frozen=True, kw_only=True)
class ResultOptions(CommandOptions):
    """The options of a command whose result a program may read."""

    output: OutputOption = OutputFormat.TEXT

    @property
    def wants_json(self) -> bool:
        """True if the result is for a program."""
        return self.output is OutputFormat.JSON


class Commands(typer.Typer):
    """Commands whose parameters may be ``CommandOptions`` or a subclass."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            cls=CommandGroup, rich_markup_mode=None, pretty_exceptions_enable=False, **settings
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Return a decorator that registers a command."""
        register = super().command(name, cls=PlainCommand, **settings)
        return lambda function: register(_with_options(function))

    def callback(self, **settings: Any) -> Callable[[Any], Any]:
        """Return a decorator that registers the function that runs before each command of the
        group.
        """
        register = super().callback(**settings)
        return lambda function: register(_with_options(function))


def _with_options(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function that takes each option where ``function`` takes a group of them."""
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, type[CommandOptions]] = {}
    parameters: list[Parameter] = []
    for parameter in signature.parameters.values():
        group = parameter.annotation
        if not (inspect.isclass(group) and issubclass(group, CommandOptions)):
            parameters.append(parameter)
            continue
        groups[parameter.name] = group
        hints = get_type_hints(group, include_extras=True)
        parameters += [
            Parameter(
                each.name,
                Parameter.KEYWORD_ONLY,
                default=each.default,
                annotation=hints[each.name],
            )
            for each in _own_first(group)
        ]

    for parameter in parameters:
        for each in get_args(parameter.annotation):
            if isinstance(each, OptionInfo):
                # Values of an enum are matched without regard to case.
                each.case_sensitive = False

    @functools.wraps(function)
    def typed(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        function(**given)

    typed.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return typed


def _own_first(group: type[CommandOptions]) -> "list[Field[Any]]":
    """Return a group's fields, those of every command last, as help lists them."""
    shared = {each.name for each in fields(ResultOptions)}
    return sorted(fields(group), key=lambda each: each.name in shared)


@contextmanager
def command_session(common: CommandOptions, chosen: Sequence[str] = ()) -> Iterator[Settings]:
    """Hand the effective settings to a command, and end the program with the exit code of its
    errors.

    ``chosen`` holds settings from the command's own options, in the form of ``--set``.
    """
    with reported_errors(debug=common.debug):
        yield load_settings(common.config, [*(common.overrides or ()), *chosen])


def require_installation(settings: Settings) -> None:
    """Raise SettingsInvalid if the embedded folder is missing, so that reading creates none."""
    folder = settings.embedded.folder
    if "embedded" in (settings.log, settings.store) and not folder.is_dir():
        raise SettingsInvalid(
            f"there is no installation here: no folder {str(folder)!r} (embedded.folder). `hourhand"
            " run` and `hourhand schedule` create it; --set embedded.folder=FOLDER names another"
        )
