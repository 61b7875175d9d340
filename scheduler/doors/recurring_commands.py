"""``hourhand recurring``: make, change and look at recurring schedules.

Each change appends to the log and returns when it is durable there; a node applies it.
"""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Annotated, Any

import typer

from actors.model.errors import InvalidTask, LogUnavailable
from actors.model.instant import format_instant, from_millis
from scheduler import wiring
from scheduler.client import Receipt, SchedulerClient
from scheduler.doors import task_input
from scheduler.doors.rendering import OutputFormat, as_json, receipt_value
from scheduler.doors.session import (
    ConfigOption,
    DebugOption,
    OutputOption,
    SetOption,
    command_session,
)
from scheduler.recurring.rule import Overlap, next_times
from scheduler.recurring.state import Recurring
from scheduler.settings import Settings

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Run tasks again and again, by cron or interval.",
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]
_ACKNOWLEDGED_S = 40.0


@app.command("set")
def set_schedule(
    name: NameArgument,
    *,
    cron: Annotated[
        str | None, typer.Option(metavar="EXPRESSION", help="Five fields, or six with seconds.")
    ] = None,
    every: Annotated[
        str | None, typer.Option(metavar="DURATION", help="An interval: 90s, 2h.")
    ] = None,
    time_zone: Annotated[str, typer.Option(help="Whose wall clock the expression means.")] = "UTC",
    ordering_id: Annotated[
        str | None, typer.Option(help="Of the tasks; the schedule's name by default.")
    ] = None,
    data: Annotated[
        str, typer.Option(metavar="JSON", help="Of the tasks: an object, @file, or @- for stdin.")
    ] = "{}",
    overlap: Annotated[
        str, typer.Option(help="skip, buffer_one or allow what would overlap the one before.")
    ] = "skip",
    catch_up: Annotated[
        str, typer.Option(metavar="DURATION", help="What is older than this is not made up for.")
    ] = "1h",
    jitter: Annotated[
        str, typer.Option(metavar="DURATION", help="Each is later by up to this.")
    ] = "0s",
    starts: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Not due before this time.")
    ] = None,
    ends: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Not due at this time or after.")
    ] = None,
    times: Annotated[int | None, typer.Option(min=1, help="End after so many tasks.")] = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output: OutputOption = OutputFormat.TEXT,
    debug: DebugOption = False,
) -> None:
    """Make a recurring schedule, or replace the one of this name.

    \b
    Examples:
      hourhand recurring set nightly --cron '30 2 * * *' --time-zone Europe/Berlin
      hourhand recurring set poll --every 90s --overlap allow --data '{"source": 7}'
    """
    with command_session(config, assignments, debug=debug) as settings:
        now_ms = wiring.open_clock().now_ms()
        policy: Any = overlap
        bounds = [
            None if text is None else from_millis(task_input.parse_moment_ms(text, now_ms))
            for text in (starts, ends)
        ]
        _change(
            settings,
            output,
            lambda client: client.schedule_recurring(
                name,
                cron=cron,
                every=None if every is None else _duration(every),
                time_zone=time_zone,
                ordering_id=ordering_id,
                data=task_input.parse_data(data),
                overlap=_checked_overlap(policy),
                catch_up=_duration(catch_up),
                jitter=_duration(jitter),
                starts=bounds[0],
                ends=bounds[1],
                count_max=times,
            ),
        )


@app.command()
def pause(
    name: NameArgument,
    *,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output: OutputOption = OutputFormat.TEXT,
    debug: DebugOption = False,
) -> None:
    """Let a schedule rest until it is resumed."""
    with command_session(config, assignments, debug=debug) as settings:
        _change(settings, output, lambda client: client.pause_recurring(name))


@app.command()
def resume(
    name: NameArgument,
    *,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output: OutputOption = OutputFormat.TEXT,
    debug: DebugOption = False,
) -> None:
    """Let a paused schedule go on from now."""
    with command_session(config, assignments, debug=debug) as settings:
        _change(settings, output, lambda client: client.resume_recurring(name))


@app.command()
def trigger(
    name: NameArgument,
    *,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output: OutputOption = OutputFormat.TEXT,
    debug: DebugOption = False,
) -> None:
    """Run a schedule's task now, besides its times."""
    with command_session(config, assignments, debug=debug) as settings:
        _change(settings, output, lambda client: client.trigger_recurring(name))


@app.command()
def delete(
    name: NameArgument,
    *,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output: OutputOption = OutputFormat.TEXT,
    debug: DebugOption = False,
) -> None:
    """End a schedule; a task that was made already still runs."""
    with command_session(config, assignments, debug=debug) as settings:
        _change(settings, output, lambda client: client.delete_recurring(name))


@app.command()
def show(
    name: NameArgument,
    *,
    next_count: Annotated[
        int, typer.Option("--next", min=0, max=1_000, help="So many of its next times.")
    ] = 5,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output: OutputOption = OutputFormat.TEXT,
    debug: DebugOption = False,
) -> None:
    """Show a schedule with its next times, in UTC and in its own time zone."""
    with command_session(config, assignments, debug=debug) as settings:
        with SchedulerClient(settings) as client:
            found = client.find_recurring(name)
        if found is None:
            raise InvalidTask(f"there is no recurring schedule {name!r}, or no node has it yet")
        value = _value(found)
        after_ms = wiring.open_clock().now_ms()
        if not found.state.paused:
            value["nextTimes"] = next_times(found.rule, after_ms, found.state.anchor_ms, next_count)
        if output is OutputFormat.JSON:
            typer.echo(as_json(value))
            return
        for field, fact in value.items():
            lines = fact if isinstance(fact, list) else [fact]
            for line in lines:
                shown = as_json(line) if isinstance(line, dict) else line
                typer.echo(f"{field:<10}  {shown}")


@app.command("list")
def list_schedules(
    *,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output: OutputOption = OutputFormat.TEXT,
    debug: DebugOption = False,
) -> None:
    """List all recurring schedules."""
    with command_session(config, assignments, debug=debug) as settings:
        with SchedulerClient(settings) as client:
            found = client.list_recurring()
        if output is OutputFormat.JSON:
            typer.echo(as_json({"recurring": [_value(each) for each in found]}))
            return
        typer.echo(f"{'NEXT':<24} {'TAKEN':>7} {'SKIPPED':>7} {'MISSED':>7}  NAME")
        for each in found:
            state = each.state
            due = "paused" if each.next_ms is None else format_instant(each.next_ms)
            counts = f"{state.taken:>7} {state.skipped:>7} {state.missed:>7}"
            typer.echo(f"{due:<24} {counts}  {each.name}")


def _change(
    settings: Settings,
    output: OutputFormat,
    send: "Callable[[SchedulerClient], Future[Receipt]]",
) -> None:
    with SchedulerClient(settings) as client:
        try:
            receipt = send(client).result(timeout=_ACKNOWLEDGED_S)
        except TimeoutError:
            raise LogUnavailable("the log did not acknowledge the change in time") from None
    if output is OutputFormat.JSON:
        typer.echo(as_json(receipt_value(receipt)))
    else:
        typer.echo(f"accepted at {receipt.partition}:{receipt.offset}")


def _duration(text: str) -> timedelta:
    return timedelta(milliseconds=task_input.parse_duration_ms(text))


def _checked_overlap(policy: Any) -> Overlap:
    if policy not in ("skip", "buffer_one", "allow"):
        raise InvalidTask(f"--overlap {policy!r} is none of skip, buffer_one, allow")
    checked: Overlap = policy
    return checked


def _value(found: Recurring) -> dict[str, Any]:
    state = found.state
    return {
        "name": found.name,
        "rule": state.rule,
        "paused": state.paused,
        "next": None if found.next_ms is None else format_instant(found.next_ms),
        "taken": state.taken,
        "skipped": state.skipped,
        "missed": state.missed,
    }
