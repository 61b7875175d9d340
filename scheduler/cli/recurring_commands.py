"""``hourhand recurring``: make, change and look at recurring schedules.

Each change is written to the audit log, then appended to the task log; a node applies it.
"""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
from datetime import timedelta
from typing import Annotated, Any

import typer
from msgspec import UNSET
from msgspec.structs import replace

from actors.model.errors import InvalidTask, LogUnavailable, NoSuchSchedule
from actors.model.instant import from_millis
from scheduler import wiring
from scheduler.admin.answers import ShownReceipt
from scheduler.admin.recurring import RecurringChange, ScheduleListing
from scheduler.cli import task_input
from scheduler.cli.operating import (
    NamedAct,
    ReasonOption,
    YesOption,
    operator_service,
    operator_session,
    print_rows,
    whoever_runs_this,
)
from scheduler.cli.rendering import OutputFormat, as_json, fact_lines, facts_of
from scheduler.cli.session import (
    CommandOptions,
    Commands,
    OutputOption,
    command_session,
    say,
)
from scheduler.cli.task_commands import WaitOption
from scheduler.configuration.settings import Settings
from scheduler.records.receipt import Receipt
from scheduler.services.recurring.rule import Overlap

app = Commands(
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
    reason: ReasonOption = "",
    common: CommandOptions,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Make a recurring schedule, or replace the one of this name.

    \b
    Examples:
      hourhand recurring set nightly --cron '30 2 * * *' --time-zone Europe/Berlin
      hourhand recurring set poll --every 90s --overlap allow --data '{"source": 7}'
    """
    with command_session(common) as settings:
        now_ms = wiring.open_clock().now_ms()
        bounds = [
            None if text is None else from_millis(task_input.parse_moment_ms(text, now_ms))
            for text in (starts, ends)
        ]
        given = {
            "cron": cron,
            "every": None if every is None else _duration(every),
            "time_zone": time_zone,
            "ordering_id": ordering_id,
            "data": task_input.parse_data(data),
            "overlap": _checked_overlap(overlap),
            "catch_up": _duration(catch_up),
            "jitter": _duration(jitter),
            "starts": bounds[0],
            "ends": bounds[1],
            "count_max": times,
        }
        _set(settings, name, given, reason, output)


def _add_change(change: RecurringChange, text: str) -> None:
    """Add a command that changes schedules and needs nothing but their names."""

    @app.command(change.value, help=text)
    def change_schedules(
        names: Annotated[list[str], typer.Argument(metavar="NAME...")],
        *,
        wait: WaitOption = 5,
        yes: YesOption = False,
        reason: ReasonOption = "",
        common: CommandOptions,
        output: OutputOption = OutputFormat.TEXT,
    ) -> None:
        with operator_session(common) as service:
            known = list(service.recurring.known(names))
            unknown = [each for each in dict.fromkeys(names) if each not in known]
            doing = NamedAct(
                f"recurring {change.value}",
                "schedules",
                known,
                unknown,
                lambda: service.recurring.change(change, known, wait),
            )
            doing.run(service, reason, yes=yes, output=output)


_add_change(RecurringChange.PAUSE, "Let schedules rest until they are resumed.")
_add_change(RecurringChange.RESUME, "Let paused schedules go on from now.")
_add_change(RecurringChange.TRIGGER, "Run schedules' tasks now, besides their times.")
_add_change(RecurringChange.DELETE, "End schedules; a task that was made already still runs.")


@app.command()
def show(
    name: NameArgument,
    *,
    next_count: Annotated[
        int, typer.Option("--next", min=0, max=1_000, help="So many of its next times.")
    ] = 5,
    common: CommandOptions,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show a schedule with its next times, in UTC and in its own zone, and its last runs."""
    with operator_session(common) as service:
        found = service.recurring.find(name)
        if found is None:
            raise NoSuchSchedule(f"there is no recurring schedule {name!r}, or no node has it yet")
        value = service.recurring.shown(found, next_count, data=service.settings.admin.show_data)
        if output is OutputFormat.JSON:
            typer.echo(as_json(value))
            return
        alone = replace(value, next_times=UNSET, last_runs=UNSET)
        typer.echo("\n".join(fact_lines(facts_of(alone))))
        for each in value.next_times or ():
            typer.echo(f"next time    {each.time} {each.local}")
        for run in value.last_runs or ():
            typer.echo(f"last run     {run.state:<10} {run.key}")


@app.command("list")
def list_schedules(
    *,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="About so many.")] = 100,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on behind it.")] = None,
    common: CommandOptions,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """List recurring schedules."""
    with operator_session(common) as service:
        data = service.settings.admin.show_data
        listing = ScheduleListing.of(service.recurring.page(after, limit), data=data)
        if output is OutputFormat.JSON:
            typer.echo(as_json(listing))
            return
        rows = [
            {**facts_of(each), "next": "paused" if each.paused else each.next}
            for each in sorted(listing.recurring, key=lambda each: each.name)
        ]
        print_rows(rows, ("next", "taken", "skipped", "missed", "name"))
        if listing.next_after is not None:
            say(f"there are more: --after {listing.next_after}")


def _set(
    settings: Settings, name: str, given: dict[str, Any], reason: str, output: OutputFormat
) -> None:
    told = {field: str(each) for field, each in given.items() if each and field != "data"}

    def act() -> tuple[Receipt, str]:
        try:
            receipt = service.client.schedule_recurring(name, **given).result(_ACKNOWLEDGED_S)
        except TimeoutError:
            raise LogUnavailable("the log did not acknowledge the schedule in time") from None
        return receipt, "accepted"

    with operator_service(settings) as service:
        who, detail = whoever_runs_this(), {"rule": told, "reason": reason}
        receipt = service.audit.audited(who, "recurring set", name, detail, act)
    if output is OutputFormat.JSON:
        typer.echo(as_json(ShownReceipt.of(receipt)))
    else:
        typer.echo(f"accepted at {receipt.partition}:{receipt.offset}")


def _duration(text: str) -> timedelta:
    return timedelta(milliseconds=task_input.parse_duration_ms(text))


def _checked_overlap(policy: Any) -> Overlap:
    if policy not in ("skip", "buffer_one", "allow"):
        raise InvalidTask(f"--overlap {policy!r} is none of skip, buffer_one, allow")
    checked: Overlap = policy
    return checked
