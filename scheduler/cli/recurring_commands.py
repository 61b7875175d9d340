"""``hourhand recurring``: make, change and look at recurring schedules.

Each change is written to the audit log, then appended to the task log; a node applies it.
"""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
import shlex
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import UNSET
from msgspec.structs import replace

from hourhand.actors.model.task.priority import PRIORITY_MAX
from hourhand.actors.model.values.errors import (
    InvalidInput,
    InvalidTask,
    LogUnavailable,
    NoSuchSchedule,
)
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler import wiring
from hourhand.scheduler.admin.answers import ShownReceipt
from hourhand.scheduler.admin.recurring import (
    DeclaredChanges,
    RecurringChange,
    ShownBackfill,
    ShownSchedule,
)
from hourhand.scheduler.cli import task_input
from hourhand.scheduler.cli.listings import (
    CursorOption,
    PageOption,
    print_lines,
    print_listing,
)
from hourhand.scheduler.cli.operating import (
    ActOptions,
    NamedAct,
    ReasonOption,
    agreed,
    operator_service,
    operator_session,
    whoever_runs_this,
)
from hourhand.scheduler.cli.rendering import OutputFormat, as_json, facts_of
from hourhand.scheduler.cli.schedule_file import read_schedule_file
from hourhand.scheduler.cli.session import Commands, ResultOptions, command_session
from hourhand.scheduler.cli.task_commands import WaitOption
from hourhand.scheduler.cli.text_output import fact_lines, print_text
from hourhand.scheduler.client.backfilling import Backfilled
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.services.recurring.rule import Overlap
from hourhand.scheduler.tasks.receipt import Receipt

app = Commands(
    no_args_is_help=True,
    help="Schedule tasks again and again, by cron or interval.",
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]
_ACKNOWLEDGED_S = 40.0


@dataclass(frozen=True, kw_only=True)
class RuleOptions(ResultOptions):
    """The rule of a schedule: its times, its data, and its treatment of missed runs."""

    cron: Annotated[
        str | None,
        typer.Option(metavar="EXPRESSION", help="Cron: five fields, or six with seconds first."),
    ] = None
    every: Annotated[str | None, typer.Option(metavar="DURATION", help="Interval: 90s, 2h.")] = None
    time_zone: Annotated[
        str, typer.Option(metavar="ZONE", help="Time zone of --cron, such as Europe/Berlin.")
    ] = "UTC"
    ordering_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Ordering id of the tasks; by default the schedule's name."
        ),
    ] = None
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="Kind of the tasks: chooses the executor if nodes have several."
        ),
    ] = None
    priority: Annotated[
        int | None,
        typer.Option(
            min=-PRIORITY_MAX,
            max=PRIORITY_MAX,
            metavar="N",
            help="Priority of the tasks: among due tasks the highest starts first.",
        ),
    ] = None
    expires_after: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Never start a task this long after its time."),
    ] = None
    data: Annotated[
        str,
        typer.Option(
            metavar="JSON", help="Data of the tasks: a JSON object, @file, or @- for stdin."
        ),
    ] = "{}"
    overlap: Annotated[
        str,
        typer.Option(
            metavar="POLICY",
            help="If the previous run is not done: skip, buffer_one (run after it), or allow.",
        ),
    ] = "skip"
    catch_up: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Missed runs that are later than this are skipped."),
    ] = "1h"
    jitter: Annotated[
        str, typer.Option(metavar="DURATION", help="Delay each run by a random time up to this.")
    ] = "0s"
    starts: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="No run before this time.")
    ] = None
    ends: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="No run at this time or later.")
    ] = None
    except_dates: Annotated[
        str | None,
        typer.Option(
            metavar="DATES",
            help="No run on these dates of the time zone: 2026-12-25,2027-01-01, or @file.",
        ),
    ] = None
    times: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="End after this many runs.")
    ] = None


@app.command("set")
def set_schedule(
    name: NameArgument,
    *,
    reason: ReasonOption = "",
    rule: RuleOptions,
) -> None:
    """Create a recurring schedule, or replace the one of this name.

    \b
    Examples:
      hourhand recurring set nightly --cron '30 2 * * *' --time-zone Europe/Berlin
      hourhand recurring set poll --every 90s --overlap allow --data '{"source": 7}'
    """
    with command_session(rule) as settings:
        if rule.cron is None and rule.every is None:
            raise InvalidTask("the times are missing: give one of --cron and --every")
        if rule.cron is not None and rule.every is not None:
            raise InvalidTask("--cron and --every are both given: leave out one of them")
        now_ms = wiring.open_clock().now_ms()
        bounds = [
            None if text is None else from_millis(task_input.parse_moment_ms(text, now_ms))
            for text in (rule.starts, rule.ends)
        ]
        given = {
            "cron": rule.cron,
            "every": None if rule.every is None else _duration(rule.every),
            "time_zone": rule.time_zone,
            "ordering_id": rule.ordering_id,
            "kind": rule.kind,
            "priority": rule.priority,
            "expires_after": None if rule.expires_after is None else _duration(rule.expires_after),
            "data": task_input.parse_data(rule.data),
            "overlap": _checked_overlap(rule.overlap),
            "catch_up": _duration(rule.catch_up),
            "jitter": _duration(rule.jitter),
            "starts": bounds[0],
            "ends": bounds[1],
            "except_dates": task_input.parse_dates(rule.except_dates),
            "count_max": rule.times,
        }
        _set(settings, name, given, reason, rule.output)


@app.command("apply")
def apply_file(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File of schedules in TOML.", show_default=False)
    ],
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")
    ] = False,
    wait: WaitOption = 5,
    common: ActOptions,
) -> None:
    """Create, change and remove schedules so that they are those of a file.

    Only schedules that an earlier version of the file declared are removed. Equal ones go on
    unchanged, and paused ones stay paused.

    \b
    Example:
      hourhand recurring apply schedules.toml --dry-run
    """
    with command_session(common) as settings:
        given = read_schedule_file(file)
        with operator_service(settings, may_create=not dry_run) as service:
            found = service.recurring.differences(given.owner, given.rules)
            if found.foreign:
                raise InvalidInput(
                    f"{', '.join(map(repr, found.foreign[:5]))} belong to another owner, which"
                    " `hourhand recurring list` shows: give them other names, or remove them there"
                )
            if dry_run or found.is_empty:
                _print_differences(found, common)
                return
            if found.removed:
                agreed(len(found.removed), "remove recurring schedules", yes=common.yes)
            if not common.wants_json:
                _print_differences(found, common)
            doing = NamedAct(
                "recurring apply",
                "files",
                [given.owner],
                [],
                lambda: service.recurring.declare(given.owner, given.rules, wait),
                waited=wait > 0,
            )
            doing.run(service, common)


def _print_differences(found: DeclaredChanges, common: ActOptions) -> None:
    lines = [
        f"{word:<10} {name}"
        for word in ("created", "changed", "removed")
        for name in getattr(found, word)
    ]
    print_lines(common, found, [*lines, f"unchanged  {len(found.unchanged)}"])


def _add_change(change: RecurringChange, text: str) -> None:
    """Add a command that changes schedules and needs only their names."""

    @app.command(change.value, help=text)
    def change_schedules(
        names: Annotated[list[str], typer.Argument(metavar="NAME", help="Names of the schedules.")],
        *,
        wait: WaitOption = 5,
        common: ActOptions,
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
                waited=wait > 0,
            )
            doing.run(service, common)


_add_change(RecurringChange.PAUSE, "Pause schedules until they are resumed.")
_add_change(RecurringChange.RESUME, "Resume paused schedules; runs missed meanwhile are skipped.")
_add_change(RecurringChange.TRIGGER, "Run a schedule's task now, besides its own times.")
_add_change(RecurringChange.DELETE, "Delete schedules; tasks that are already scheduled still run.")


@app.command()
def backfill(
    name: NameArgument,
    *,
    starts: Annotated[
        str, typer.Option("--from", metavar="TIME", help="First time to make a task of.")
    ],
    ends: Annotated[
        str, typer.Option("--to", metavar="TIME", help="Make no task of this time or a later one.")
    ] = "now",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be made, and make nothing.")
    ] = False,
    common: ActOptions,
) -> None:
    """Make the tasks of past times of a schedule, as if it had made them.

    Those that are there, open or done, are not made again. None is left out for the overlap policy.

    \b
    Example:
      hourhand recurring backfill nightly --from 2026-02-01T00:00:00Z --to -1d --dry-run
    """
    with operator_session(common) as service:
        now_ms = service.clock.now_ms()
        span = [from_millis(task_input.parse_moment_ms(text, now_ms)) for text in (starts, ends)]
        planned = service.client.backfill_recurring(name, span[0], span[1], dry_run=True)
        if not dry_run and planned.made:
            agreed(len(planned.made), f"make tasks of {name!r}", yes=common.yes)

            def act() -> tuple[Backfilled, str]:
                return service.client.backfill_recurring(name, span[0], span[1]), "accepted"

            told = {"from": str(span[0]), "to": str(span[1]), "reason": common.reason}
            who = whoever_runs_this()
            planned = service.audit.audited(who, "recurring backfill", name, told, act)
        shown = ShownBackfill.of(planned, dry_run=dry_run)
        made = [f"{'would make' if dry_run else 'made'}  {key}" for key in shown.made]
        print_lines(common, shown, [*made, f"there already  {len(shown.there)}"])


@app.command()
def show(
    name: NameArgument,
    *,
    next_count: Annotated[
        int,
        typer.Option("--next", min=0, max=1_000, metavar="N", help="Number of next times to show."),
    ] = 5,
    common: ResultOptions,
) -> None:
    """Show a schedule, its next times and its last runs.

    Times are in UTC and in the schedule's own zone.

    \b
    Example:
      hourhand recurring show nightly --next 10
    """
    with operator_session(common) as service:
        found = service.recurring.find(name)
        if found is None:
            raise NoSuchSchedule(f"there is no recurring schedule {name!r}, or no node has it yet")
        value = service.recurring.shown(found, next_count, data=service.settings.admin.show_data)
        if common.wants_json:
            typer.echo(as_json(value))
            return
        alone = replace(value, next_times=UNSET, last_runs=UNSET)
        facts = facts_of(alone)
        rule = {name: fact for name, fact in facts.pop("rule").items() if fact is not None}
        print_text("\n".join(fact_lines({**facts, **rule})))
        for each in value.next_times or ():
            print_text(f"next time    {each.time} {each.local}")
        for run in value.last_runs or ():
            print_text(f"last run     {run.state:<10} {run.key}")


@app.command("list")
def list_schedules(
    *,
    limit: PageOption = 100,
    after: CursorOption = None,
    common: ResultOptions,
) -> None:
    """List recurring schedules.

    The owner is the application or file that declares a schedule; an orphan's does not any more.
    """
    with operator_session(common) as service:
        data = service.settings.admin.show_data
        listing = service.recurring.page(after, limit, data=data)
        rows = [
            {
                **facts_of(each),
                "next": "paused" if each.paused else each.next,
                "owner": _owner_of(each),
            }
            for each in sorted(listing.recurring, key=lambda each: each.name)
        ]
        columns = ("next", "taken", "skipped", "missed", "owner", "name")
        following = f"--after {listing.next_after}" if listing.next_after else ""
        print_listing(common, listing, rows, columns, following=following)


def _owner_of(schedule: ShownSchedule) -> str:
    owner = schedule.owner or "-"
    return f"{owner} (orphan)" if schedule.orphaned else owner


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

    with operator_service(settings, may_create=True) as service:
        who, detail = whoever_runs_this(), {"rule": told, "reason": reason}
        receipt = service.audit.audited(who, "recurring set", name, detail, act)
    if output is OutputFormat.JSON:
        typer.echo(as_json(ShownReceipt.of(receipt)))
    else:
        print_text(
            f"accepted: a node that runs applies it ({receipt.partition}:{receipt.offset} in the"
            f" log); `hourhand recurring show {shlex.quote(name)}` shows it then"
        )


def _duration(text: str) -> timedelta:
    return timedelta(milliseconds=task_input.parse_duration_ms(text))


def _checked_overlap(policy: Any) -> Overlap:
    if policy not in ("skip", "buffer_one", "allow"):
        raise InvalidTask(f"--overlap {policy!r} is not one of skip, buffer_one, allow")
    checked: Overlap = policy
    return checked
