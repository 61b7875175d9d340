"""What every command shares: its options, and the settings that follow from them."""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import Field, dataclass, fields
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from actors.model.errors import SettingsInvalid
from scheduler.cli.command_group import CommandGroup, PlainCommand
from scheduler.cli.failing import reported_errors
from scheduler.cli.rendering import OutputFormat
from scheduler.configuration.overrides import load_settings
from scheduler.configuration.settings import Settings

OutputOption = Annotated[
    OutputFormat,
    typer.Option(
        "--output", "-o", metavar="FORMAT", help="text, or json: results and errors for programs."
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


class Commands(typer.Typer):
    """Commands whose parameters may be ``CommandOptions`` or a subclass."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            cls=CommandGroup, rich_markup_mode=None, pretty_exceptions_enable=False, **settings
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Return what registers a command."""
        register = super().command(name, cls=PlainCommand, **settings)
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
            for each in _own_first(group)
        ]

    @functools.wraps(function)
    def typed(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        function(**given)

    typed.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return typed


def _own_first(group: type[CommandOptions]) -> "list[Field[Any]]":
    """Return a group's fields, those of every command last, as help lists them."""
    shared = {each.name for each in fields(CommandOptions)}
    return sorted(fields(group), key=lambda each: each.name in shared)


@contextmanager
def command_session(common: CommandOptions, chosen: Sequence[str] = ()) -> Iterator[Settings]:
    """Hand the effective settings to a command, and end the program as its errors demand.

    ``chosen`` is what the command's own options set, as ``--set`` would.
    """
    with reported_errors(debug=common.debug):
        yield load_settings(common.config, [*(common.overrides or ()), *chosen])


def require_installation(settings: Settings) -> None:
    """Raise SettingsInvalid where there is no folder to look into, rather than create one."""
    folder = settings.embedded.folder
    if "embedded" in (settings.log, settings.store) and not folder.is_dir():
        raise SettingsInvalid(
            f"there is no installation here: no folder {str(folder)!r} (embedded.folder). `hourhand"
            " run` and `hourhand schedule` create it; --set embedded.folder=FOLDER names another"
        )
