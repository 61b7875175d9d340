"""Commands of ``hourhand`` that only read: tasks, outcomes, settings, the version."""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
import re
import reprlib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import Annotated, Any

import typer

from actors.model.errors import InvalidKey, InvalidTask
from actors.model.key import TaskKey
from scheduler import wiring
from scheduler.admin.answers import ShownTask, ShownTasks
from scheduler.admin.masking import masked
from scheduler.cli import rendering, task_input
from scheduler.cli.rendering import OutputFormat, as_json
from scheduler.cli.session import (
    EXIT_CALLER,
    CommandOptions,
    DebugOption,
    OutputOption,
    command_session,
    open_inspector,
    reported_errors,
    say,
)
from scheduler.cli.task_commands import KeyArgument, print_outcome
from scheduler.futures.answers import answered
from scheduler.reading.inspector import TaskState
from scheduler.records.admission import checked_place

_LIST_TASKS_MAX = 100_000


def show(
    key: KeyArgument,
    *,
    common: CommandOptions,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show one task: its state, data, completion and every attempt, with errors.

    A first attempt that runs right now still shows as pending.  Exit code 2 where nothing is
    stored under the key.

    \b
    Examples:
      hourhand show 2026-02-09T01:41:12.959Z,customer-7,invoice-42
      hourhand show 2026-02-09T01:41:12.959Z,customer-7,invoice-42 -o json | jq .attempts
    """
    with command_session(common) as settings:
        parsed = TaskKey.parse(key)
        with open_inspector(settings) as inspector:
            view = inspector.show(parsed)
        if output is OutputFormat.JSON:
            typer.echo(as_json(ShownTask.of(view)))
        else:
            typer.echo("\n".join(rendering.view_lines(view)))
        if view.state is TaskState.UNKNOWN:
            say(f"nothing is stored under {view.key}: never scheduled, or still in the log")
            raise typer.Exit(EXIT_CALLER)


def list_tasks(
    *,
    start: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Earliest time: RFC 3339, -2h, now.")
    ] = "-1h",
    end: Annotated[
        str, typer.Option("--to", metavar="TIME", help="Time before which: RFC 3339, +7d, now.")
    ] = "+24h",
    limit: Annotated[
        int, typer.Option(min=1, max=_LIST_TASKS_MAX, help="Most tasks to print.")
    ] = 100,
    state: Annotated[
        list[TaskState] | None, typer.Option(help="Only tasks in this state; repeatable.")
    ] = None,
    ordering_id: Annotated[str | None, typer.Option(help="Only tasks of this id.")] = None,
    after: Annotated[str | None, typer.Option(metavar="KEY", help="Go on behind this key.")] = None,
    common: CommandOptions,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """List tasks by their scheduled time, in key order, from an hour ago to a day ahead.

    \b
    Examples:
      hourhand list --state blocked --from -7d --to now
      hourhand list --ordering-id customer-7 --to +30d
      hourhand list --from 2026-02-09T00:00:00Z --to 2026-02-10T00:00:00Z -o json
    """
    with command_session(common) as settings:
        now_ms = wiring.open_clock().now_ms()
        from_ms = task_input.parse_moment_ms(start, now_ms)
        to_ms = task_input.parse_moment_ms(end, now_ms)
        if from_ms >= to_ms:
            raise InvalidTask(f"--from {start} must be before --to {end}")
        with open_inspector(settings) as inspector:
            listing = inspector.list_tasks(
                from_ms=from_ms,
                to_ms=to_ms,
                limit=limit,
                states=frozenset(state or ()),
                ordering_id=ordering_id,
                after=None if after is None else TaskKey.parse(after),
            )
        if output is OutputFormat.JSON:
            typer.echo(as_json(ShownTasks.of(listing)))
            return
        typer.echo("\n".join(rendering.listing_lines(listing)))
        if listing.next_after is not None:
            say(f"there are more: --after {listing.next_after}")


def outcome(
    receipt: Annotated[
        str, typer.Argument(metavar="PARTITION:OFFSET", help="The command's receipt.")
    ],
    *,
    common: CommandOptions,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show what a command achieved that was sent before.

    applied, running (an attempt ran, no further one starts), too_late, already_closed,
    unknown_key, or undecided while no node has read it.

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
        stores = wiring.open_stores(settings)
        try:
            found = answered(stores.ownership.find_outcome(partition, offset))
        finally:
            stores.close()
        print_outcome(None, found, output)


def show_settings(
    *,
    common: CommandOptions,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show the settings in effect, secrets masked.

    Every one can be given as --set name=value, as HOURHAND_GROUP__ID in the environment,
    or in hourhand.toml; the first of these wins.

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
        try:
            typer.echo(f"hourhand {installed_version('hourhand')}")
        except PackageNotFoundError:
            typer.echo("hourhand, run from its sources")
