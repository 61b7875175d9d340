"""Commands of ``hourhand`` that only read: a task, an outcome, settings, the version."""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
import re
import reprlib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import Annotated, Any

import typer

from actors.model.errors import InvalidKey
from actors.model.key import TaskKey
from scheduler.admin.answers import ShownTask, executed_task
from scheduler.admin.masking import masked
from scheduler.cli.failing import (
    EXIT_CALLER,
    EXIT_UNDECIDED,
    UNKNOWN_KEY,
    reported_errors,
    say,
    say_error,
)
from scheduler.cli.operating import operator_service
from scheduler.cli.rendering import OutputFormat, as_json
from scheduler.cli.session import (
    CommandOptions,
    DebugOption,
    OutputOption,
    command_session,
)
from scheduler.cli.task_commands import KeyArgument, print_outcome
from scheduler.cli.task_text import view_lines
from scheduler.cli.unread import no_outcome_reason
from scheduler.futures.answers import answered
from scheduler.reading.inspector import TaskState, as_executed
from scheduler.records.admission import checked_place


def show(
    key: KeyArgument,
    *,
    common: CommandOptions,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show a task: its state, data and every attempt.

    Exit code 2 if nothing is stored under the key.

    \b
    Examples:
      hourhand show 2026-02-09T01:41:12.959Z,customer-7,invoice-42
      hourhand show 2026-02-09T01:41:12.959Z,customer-7,invoice-42 -o json | jq .attempts
    """
    with command_session(common) as settings:
        parsed = TaskKey.parse(key)
        with operator_service(settings) as service:
            service.cluster.read()
            executions, now_ms = service.cluster.executions(), service.clock.now_ms()
            view = as_executed(service.inspector.show(parsed), set(map(TaskKey.parse, executions)))
        if output is OutputFormat.JSON:
            typer.echo(as_json(executed_task(ShownTask.of(view), executions)))
        else:
            running = executions.get(str(view.key))
            typer.echo("\n".join(view_lines(view, now_ms, running)))
        if view.state is TaskState.UNKNOWN:
            message = f"nothing is stored under {view.key}: never scheduled, or still in the log"
            say_error(message, UNKNOWN_KEY, EXIT_CALLER)
            raise typer.Exit(EXIT_CALLER)


def outcome(
    receipt: Annotated[
        str,
        typer.Argument(metavar="PARTITION:OFFSET", help="The command's receipt, as it printed it."),
    ],
    *,
    common: CommandOptions,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show what became of a command that was sent before.

    applied, running (an attempt ran; no further one starts), too_late, already_closed,
    unknown_key, or undecided while no node has read it (exit code 4).

    \b
    Example:
      hourhand outcome 3:1274
    """
    with command_session(common) as settings:
        place = re.fullmatch(r"(\d{1,10}):(\d{1,19})", receipt, re.ASCII)
        if place is None:
            shown = reprlib.repr(receipt)
            raise InvalidKey(f"{shown} is not a receipt: expected partition:offset, as 3:1274")
        partition, offset = checked_place(int(place[1]), int(place[2]))
        with operator_service(settings) as service:
            service.cluster.read()
            # Looked at first: what was read has its outcome by then.
            reason = no_outcome_reason(service, partition, offset)
            found = answered(service.stores.ownership.find_outcome(partition, offset))
        if found is None and reason is not None:
            raise InvalidKey(f"there is no outcome of {receipt}: {reason}")
        print_outcome(None, found, output)
        if found is None:
            say("no node has read the command yet; is one running?")
            raise typer.Exit(EXIT_UNDECIDED)


def show_settings(
    *,
    common: CommandOptions,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show the settings in effect, with secrets masked.

    Each can be given as --set group.id=blue, as HOURHAND_GROUP__ID in the environment, or in
    hourhand.toml; the first of these wins.

    \b
    Examples:
      hourhand settings
      HOURHAND_GROUP__ID=blue hourhand settings --set log=kafka
    """
    with command_session(common) as settings:
        if output is OutputFormat.JSON:
            typer.echo(as_json(masked(settings)))
            return
        for name, value in _flattened("", masked(settings)):
            typer.echo(f"{name} = {as_json(value)}")


def _flattened(prefix: str, values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every setting's dotted name, as ``--set`` takes it, and its value."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from _flattened(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", value


def version(*, debug: DebugOption = False) -> None:
    """Show the version that is installed.

    \b
    Example:
      hourhand version
    """
    with reported_errors(debug=debug):
        typer.echo(version_line())


def version_line() -> str:
    """Return name and version."""
    try:
        return f"hourhand {installed_version('hourhand')}"
    except PackageNotFoundError:
        return "hourhand, run from its sources"
