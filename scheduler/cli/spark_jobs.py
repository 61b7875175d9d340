"""What all commands of ``hourhand pipeline`` share: where a job runs, and its summary.

Decides how that is typed and shown.  Spark is loaded when a job is run and not before.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from actors.model.errors import InvalidInput
from scheduler.cli.rendering import OutputFormat, as_json
from scheduler.cli.session import CommandOptions, reported_errors, say
from scheduler.configuration.optional_dependencies import required_by

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Do all but write, and tell what would be written.")
]


@dataclass(frozen=True, kw_only=True)
class JobOptionsGiven(CommandOptions):
    """The options of every job: where it runs, besides the settings."""

    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Spark's master; this machine by default."),
    ] = None
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; repeatable."),
    ] = None


@contextmanager
def opened_job(common: JobOptionsGiven, *, dry_run: bool = False) -> Iterator[Any]:
    """Hand a job its options, and end the program as its errors demand."""
    with reported_errors(debug=common.debug):
        with required_by("`hourhand pipeline`"):
            from scheduler.pipeline.job import JobOptions
            from scheduler.pipeline.options import parse_options

        named = dict(pair_of("--set", each) for each in common.overrides or ())
        if common.config is not None:
            named["config"] = str(common.config)
        yield JobOptions(
            source=parse_options(named),
            master=common.master,
            dry_run=dry_run,
            say=say,
            conf=dict(pair_of("--conf", each) for each in common.conf or ()),
        )


def pair_of(option: str, text: str) -> tuple[str, str]:
    """Return name and value of a repeatable option; raises InvalidInput."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidInput(f"{option} takes NAME=VALUE, such as {option} group.id=blue")
    return name.strip(), value


def show_summary(summary: dict[str, Any], output: OutputFormat) -> None:
    """Print what a job has to say at its end."""
    if output is OutputFormat.JSON:
        typer.echo(as_json(summary))
        return
    width = max(map(len, summary))
    for name, fact in summary.items():
        if isinstance(fact, list):
            typer.echo(f"{name}:")
            for row in fact:
                typer.echo("  " + "  ".join(_one_line(value) for value in row.values()))
        elif isinstance(fact, dict):
            typer.echo(f"{name}:")
            for part, value in fact.items():
                typer.echo(f"  {part}: {_one_line(value)}")
        else:
            typer.echo(f"{name:<{width}}  {_one_line(fact)}")


def _one_line(fact: object) -> str:
    """Return text that cannot pass for another line."""
    text = str(fact)
    return text if text.isprintable() else as_json(text)
