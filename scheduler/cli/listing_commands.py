"""Commands that read tasks: list, which may act on all it lists, show one, show an outcome.

Hourhand's own tasks are hidden, and an act concerns exactly the tasks that the same options list.
Every act is written to the audit log, as the admin API's acts are. An empty listing comes with a
hint about records that no node has read yet, from the owners' reports and the store.
"""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
import re
import reprlib
from dataclasses import dataclass
from typing import Annotated

import typer
from msgspec import UNSET
from msgspec.structs import replace

from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.task.key import TaskKey, parse_name
from hourhand.actors.model.values.errors import InvalidInput, InvalidKey
from hourhand.actors.model.values.instant import from_millis
from hourhand.actors.model.values.log_offset import broker_offset
from hourhand.scheduler.admin.acting import Action, Filter, TasksActedOn
from hourhand.scheduler.admin.answers import ShownTask, ShownTasks, executed_task
from hourhand.scheduler.admin.auditing import DAY_MS
from hourhand.scheduler.admin.picture import ShownPartition
from hourhand.scheduler.admin.service import AdminService
from hourhand.scheduler.cli import task_input
from hourhand.scheduler.cli.failing import EXIT_CALLER, EXIT_UNDECIDED, UNKNOWN_KEY, say, say_error
from hourhand.scheduler.cli.operating import (
    ActOptions,
    act_on_tasks,
    agreed,
    exit_for,
    operator_service,
    operator_session,
    print_report,
)
from hourhand.scheduler.cli.rendering import OutputFormat, as_json
from hourhand.scheduler.cli.session import ResultOptions, command_session
from hourhand.scheduler.cli.task_commands import NameArgument, print_outcome
from hourhand.scheduler.cli.task_text import listing_lines, view_lines
from hourhand.scheduler.cli.text_output import print_text
from hourhand.scheduler.runtime.answers import answered
from hourhand.scheduler.runtime.steps import begun
from hourhand.scheduler.tasks.admission import checked_place
from hourhand.scheduler.tasks.inspector import TaskState, as_executed
from hourhand.scheduler.tasks.outcomes import found_outcome

_WAIT_S = 10.0
_START = "start one with `hourhand run`"
_DATA_CHARS_MAX = 2_000
_LISTED = 100
"""Number of listed tasks if no limit is given."""


@dataclass(frozen=True, kw_only=True)
class ListingOptions(ActOptions):
    """The filter for tasks that are listed, and the act on them."""

    start: Annotated[
        str,
        typer.Option("--from", metavar="TIME", help="Due at this time or later: RFC 3339, -2h."),
    ] = "-1h"
    end: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="TIME", help="Due before this time: RFC 3339, +7d; a day ahead without."
        ),
    ] = None
    state: Annotated[
        list[TaskState] | None,
        typer.Option(
            metavar="STATE",
            help="Only tasks in this state, repeatable: " + ", ".join(TaskState) + ".",
        ),
    ] = None
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="Only tasks of this kind; repeatable."),
    ] = None
    ordering_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Only tasks of this ordering id.")
    ] = None
    error_class: Annotated[
        str | None,
        typer.Option(
            "--error",
            metavar="CLASS",
            help="Only tasks whose last attempt raised this error class.",
        ),
    ] = None
    partition: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only tasks of this partition.")
    ] = None
    internal: Annotated[
        bool, typer.Option("--internal", help="Also list Hourhand's own tasks.")
    ] = False
    limit: Annotated[
        int | None,
        typer.Option(min=1, max=100_000, metavar="N", help="Most tasks: 100, or all with --act."),
    ] = None
    after: Annotated[
        str | None, typer.Option(metavar="KEY", help="Cursor from the previous page.")
    ] = None
    act: Annotated[
        Action | None,
        typer.Option(
            metavar="ACTION",
            help="Do this to all of them after a confirmation: " + ", ".join(Action) + ".",
        ),
    ] = None
    reschedule_to: Annotated[
        str | None, typer.Option(metavar="TIME", help="The new time, for --act reschedule.")
    ] = None


def list_tasks(
    *,
    chosen: ListingOptions,
) -> None:
    """List tasks by the time they are due, or act on all of them.

    Without --from and --to: from an hour ago to a day ahead.  With a --from that is later than
    now, a day from there.

    \b
    Examples:
      hourhand list --ordering-id customer-7 --to +30d
      hourhand list --state blocked --from -7d
      hourhand list --state blocked --from -7d --act retry
      hourhand list --state pending --limit 1000 --act run-now --yes
    """
    with operator_session(chosen) as service:
        moves = chosen.act is Action.RESCHEDULE
        if moves and chosen.reschedule_to is None:
            raise InvalidInput("--act reschedule needs a time: give --reschedule-to")
        if chosen.reschedule_to is not None and not moves:
            raise InvalidInput(
                "--reschedule-to is for --act reschedule: leave it out, or give that"
            )
        service.cluster.read()
        now_ms = service.clock.now_ms()
        found = _filter(service, chosen, now_ms)
        if chosen.act is None:
            _list(service, found, chosen.output)
            return
        moved_to = chosen.reschedule_to
        to_ms = None if moved_to is None else task_input.parse_moment_ms(moved_to, now_ms)
        _act_on_all(
            service, chosen.act, found, to_ms, chosen.reason, yes=chosen.yes, output=chosen.output
        )


def tasks(
    *,
    chosen: ListingOptions,
) -> None:
    """Do what `hourhand list` does, which was called so.

    \b
    Example:
      hourhand list
    """
    say("`hourhand tasks` is now `hourhand list`, with the same options")
    list_tasks(chosen=chosen)


def _filter(service: AdminService, chosen: ListingOptions, now_ms: int) -> Filter:
    from_ms = task_input.parse_moment_ms(chosen.start, now_ms)
    if chosen.end is None:
        to_ms = max(from_ms, now_ms) + DAY_MS
    else:
        to_ms = task_input.parse_moment_ms(chosen.end, now_ms)
    if from_ms >= to_ms:
        raise InvalidInput(f"--from {chosen.start} must be before --to {chosen.end}")
    return Filter(
        from_ms,
        to_ms,
        frozenset(chosen.state or ()),
        chosen.ordering_id,
        chosen.partition,
        chosen.limit,
        None if chosen.after is None else TaskKey.parse(chosen.after),
        error_class=chosen.error_class,
        system=chosen.internal or (chosen.ordering_id or "").startswith(RESERVED),
        kinds=frozenset(chosen.kind or ()),
        word=service.cluster.word(),
    )


def _list(service: AdminService, chosen: Filter, output: OutputFormat) -> None:
    listing = service.inspector.list_tasks(
        from_ms=chosen.from_ms,
        to_ms=chosen.to_ms,
        limit=_LISTED if chosen.limit is None else chosen.limit,
        states=chosen.states,
        ordering_id=chosen.ordering_id,
        partition=chosen.partition,
        after=chosen.after,
        error_class=chosen.error_class,
        system=chosen.system,
        kinds=chosen.kinds,
        word=chosen.word,
    )
    if output is OutputFormat.JSON:
        page = ShownTasks.of(listing)
        executions, limits = service.cluster.executions(), service.cluster.limits()
        shown = [executed_task(each, executions, limits) for each in page.tasks]
        typer.echo(as_json(replace(page, tasks=shown)))
        return
    if listing.tasks:
        print_text("\n".join(listing_lines(listing, service.clock.now_ms())))
    elif listing.next_after is None:
        say("no tasks found; --from and --to widen the time, --internal adds Hourhand's own")
    _say_rest(listing.next_after)
    if hint := unread_hint(service):
        say(hint)


def _act_on_all(
    service: AdminService,
    action: Action,
    chosen: Filter,
    to_ms: int | None,
    reason: str,
    *,
    yes: bool,
    output: OutputFormat,
) -> None:
    selection = service.actions.selected(chosen, service.settings.admin.bulk_keys_max)
    keys = selection.keys
    if keys:
        agreed(len(keys), f"{action.value} every task found", yes=yes)
    to = None if to_ms is None else from_millis(to_ms)
    tried = act_on_tasks(service, action, keys, to, reason, wait_s=_WAIT_S)
    report = TasksActedOn.of(tried, action.value)
    if output is OutputFormat.JSON:
        following = None if selection.next_after is None else str(selection.next_after)
        typer.echo(as_json(replace(report, next_after=following)))
    else:
        print_report(report, action.value)
        _say_rest(selection.next_after)
    exit_for(report.outcomes)


def _say_rest(following: TaskKey | None) -> None:
    if following is not None:
        say(f"there are more: --after {following}")


def show(
    task: NameArgument,
    *,
    whole: Annotated[
        bool, typer.Option("--all", help="Show all of the data, however large it is.")
    ] = False,
    common: ResultOptions,
) -> None:
    """Show a task: its state, data, attempts, and why it waits.

    Data of more than 2,000 characters is cut without --all.  Exit code 2 if nothing is stored under
    the key.

    \b
    Examples:
      hourhand show 2026-02-09T01:41:12.959Z,customer-7,invoice-42
      hourhand show customer-7,invoice-42 -o json | jq .attempts
    """
    with command_session(common) as settings:
        named = parse_name(task)
        with operator_service(settings) as service:
            parsed = named if isinstance(named, TaskKey) else service.client.find_task(named).key
            service.cluster.read()
            executions, now_ms = service.cluster.executions(), service.clock.now_ms()
            limits, found = service.cluster.limits(), service.inspector.show(parsed)
            view = as_executed(found, service.cluster.word())
            waits = service.wait_reasons.of(view, now_ms)
        if common.wants_json:
            shown = executed_task(ShownTask.of(view), executions, limits)
            typer.echo(as_json(replace(shown, waits=waits or UNSET)))
        else:
            known = executions.get(str(parsed)), limits.get(str(parsed))
            most = None if whole else _DATA_CHARS_MAX
            lines = view_lines(view, now_ms, *known, waits, data_chars_max=most)
            print_text("\n".join(lines))
        if view.state is TaskState.UNKNOWN:
            message = f"nothing is stored under {view.key}: never scheduled, or still in the log"
            say_error(message, UNKNOWN_KEY, EXIT_CALLER)
            raise typer.Exit(EXIT_CALLER)


def outcome(
    receipt: Annotated[
        str,
        typer.Argument(metavar="PARTITION:OFFSET", help="The receipt that the command printed."),
    ],
    *,
    common: ResultOptions,
) -> None:
    """Show what a command achieved that was sent before.

    With -o json in a word: applied, running (an attempt ran; no further one starts), cancelled (it
    has ended since), too_late, already_closed, unknown_key, unknown_pair, several_tasks, for a
    retry or a replay also still_open, ran_already and data_gone, or undecided while no node has
    read it (exit code 4).

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
            # Ask for the log's state before the outcome: a record that was read before has its
            # outcome by then.
            reason = no_outcome_reason(service, partition, offset)
            looked_up = found_outcome(service.stores, partition, offset, None)
            found = answered(begun(looked_up))
        if found is None and reason is not None:
            raise InvalidKey(f"there is no outcome of {receipt}: {reason}")
        print_outcome(None, found, common.output)
        if found is None:
            say("no node has read the command yet; is one running?")
            raise typer.Exit(EXIT_UNDECIDED)


def unread_hint(service: AdminService) -> str | None:
    """Return a hint about records that no node reads; None if there are none, or a node reads them.

    Call after ``service.cluster.read()``.
    """
    alone = [
        each
        for each in service.cluster.partitions().partitions
        if each.owner is None and each.end_offset
    ]
    looks = [(each, service.stores.ownership.find_watermark(each.partition)) for each in alone]
    claims = [(each, answered(look)) for each, look in looks]
    count = sum(
        _unread(each, None if claim is None else claim.watermark.next_offset)
        for each, claim in claims
    )
    if not count:
        return None
    waiting = "1 record waits" if count == 1 else f"{count} records wait"
    if all(claim is None for _, claim in claims) and len(service.cluster.nodes().nodes) == 0:
        return f"{waiting} in the log, which no node has read yet: {_START}"
    return f"{waiting} in partitions of the log that no node owns now: {_START}"


def _unread(partition: ShownPartition, next_offset: int | None) -> int:
    return max(0, (partition.end_offset or 0) - broker_offset(next_offset or 0))


def no_outcome_reason(service: AdminService, partition: int, offset: int) -> str | None:
    """Return why a place of the log will never have an outcome; None if it still may.

    Call after ``service.cluster.read()``.
    """
    partitions = service.cluster.partitions().partitions
    if partition >= len(partitions):
        return f"the log has partitions 0 to {len(partitions) - 1}"
    told = partitions[partition]
    if told.end_offset is None and service.settings.log == "kafka":
        # The broker did not answer, or a partition of the embedded log has no record yet.
        return None
    end_offset = told.end_offset or 0
    if offset >= end_offset:
        return f"partition {partition} holds {end_offset} records so far"
    claim = answered(service.stores.ownership.find_watermark(partition))
    read = 0 if claim is None else broker_offset(claim.watermark.next_offset or 0)
    if offset < max(read, told.next_offset or 0):
        return "it is not a command, or its outcome is no longer kept"
    return None
