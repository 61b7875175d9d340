"""What every command shares: its options, its settings, and how it fails.

Decides exit codes: 2 where the caller is at fault, 3 where the installation is, 1 for a bug.
An error on purpose is one line on standard error with its code; a trace is shown under
``--debug`` only.
"""

import functools
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from actors.model.errors import CallerError, HourhandError, OperatorError
from scheduler import wiring
from scheduler.cli.rendering import OutputFormat
from scheduler.configuration.overrides import load_settings
from scheduler.configuration.settings import Settings
from scheduler.reading.inspector import Inspector

EXIT_BUG = 1
EXIT_CALLER = 2
EXIT_OPERATOR = 3

OutputOption = Annotated[OutputFormat, typer.Option("--output", "-o", help="For eyes or pipes.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show a trace with every error.")]


@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """The options of every command that has settings; a parameter of this type stands for them."""

    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Settings file in TOML, for hourhand.toml."),
    ] = None
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="One setting, such as group.id=blue; repeatable."
        ),
    ] = None
    debug: DebugOption = False


class Commands(typer.Typer):
    """Commands whose parameters may be ``CommandOptions`` or a subclass."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Return what registers a command."""
        register = super().command(name, **settings)
        return lambda function: register(_with_options(function))

    def callback(self, **settings: Any) -> Callable[[Any], Any]:
        """Return what registers the function that runs before a command, or without one."""
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
            for each in fields(group)
        ]

    @functools.wraps(function)
    def typed(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        function(**given)

    typed.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return typed


@contextmanager
def command_session(common: CommandOptions, chosen: Sequence[str] = ()) -> Iterator[Settings]:
    """Hand the effective settings to a command, and end the program as its errors demand.

    ``chosen`` is what the command's own options set, as ``--set`` would.
    """
    with reported_errors(debug=common.debug):
        yield load_settings(common.config, [*(common.overrides or ()), *chosen])


@contextmanager
def reported_errors(*, debug: bool) -> Iterator[None]:
    """Turn errors into one line on standard error and an exit code."""
    try:
        yield
    except (typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except HourhandError as error:
        _fail(error, f"{error} [{error.code}]", _exit_code(error), debug=debug)
    except Exception as error:  # noqa: BLE001 - the last handler before the user
        hint = "" if debug else "; run it again with --debug and report the trace"
        line = f"unexpected {type(error).__name__}: {error} [bug]{hint}"
        _fail(error, line, EXIT_BUG, debug=debug)


def _exit_code(error: HourhandError) -> int:
    if isinstance(error, CallerError):
        return EXIT_CALLER
    return EXIT_OPERATOR if isinstance(error, OperatorError) else EXIT_BUG


def _fail(error: Exception, line: str, code: int, *, debug: bool) -> None:
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    # Messages quote what was typed, and one error is one line whatever that held.
    say(" ".join(line.splitlines()))
    raise typer.Exit(code) from error


def say(line: str) -> None:
    """Tell the person something that is not a result: on standard error, after the name."""
    typer.echo(f"hourhand: {line}", err=True)


@contextmanager
def open_inspector(settings: Settings) -> Iterator[Inspector]:
    """Open the stores for reading, under the log's number of partitions."""
    writer = wiring.open_writer(settings)
    try:
        partition_count = writer.partition_count()
    finally:
        writer.close()
    stores = wiring.open_stores(settings)
    try:
        yield Inspector(stores, partition_count)
    finally:
        stores.close()
