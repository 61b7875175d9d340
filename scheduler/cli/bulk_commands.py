"""``hourhand tasks``: lists tasks, and does something to all of them once that was agreed to.

What is done is written to the audit log, as the admin API's acts are.
"""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
from typing import Annotated

import typer
from msgspec.structs import replace

from actors.model.errors import InvalidTask
from actors.model.instant import from_millis
from actors.model.key import TaskKey
from scheduler.admin.acting import Action, Filter, TasksActedOn
from scheduler.admin.answers import ShownTasks
from scheduler.admin.service import AdminService
from scheduler.cli import task_input
from scheduler.cli.operating import (
    ReasonOption,
    YesOption,
    act_on_tasks,
    agreed,
    operator_session,
)
from scheduler.cli.rendering import OutputFormat, as_json, listing_lines
from scheduler.cli.session import CommandOptions, OutputOption, say
from scheduler.reading.inspector import TaskState

_WAIT_S = 10.0
_LISTED = 100
"""Tasks listed where no limit is named."""


def tasks(
    *,
    start: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Earliest time: RFC 3339, -2h, now.")
    ] = "-1h",
    end: Annotated[
        str, typer.Option("--to", metavar="TIME", help="Time before which: RFC 3339, +7d, now.")
    ] = "+24h",
    state: Annotated[
        list[TaskState] | None, typer.Option(help="Only tasks in this state; repeatable.")
    ] = None,
    ordering_id: Annotated[str | None, typer.Option(help="Only tasks of this id.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only tasks of this one.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, max=100_000, help="The first so many; by default 100, to act all."),
    ] = None,
    after: Annotated[str | None, typer.Option(metavar="KEY", help="Go on behind this key.")] = None,
    act: Annotated[
        Action | None, typer.Option(help="Do this to every task found, once it was agreed to.")
    ] = None,
    reschedule_to: Annotated[
        str | None, typer.Option(metavar="TIME", help="Where --act reschedule moves to.")
    ] = None,
    yes: YesOption = False,
    reason: ReasonOption = "",
    common: CommandOptions,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """List tasks by their scheduled time, and do something to all of them.

    \b
    Examples:
      hourhand tasks --state blocked --from -7d --to now
      hourhand tasks --state blocked --from -7d --to now --act retry
      hourhand tasks --ordering-id customer-7 --state pending --act cancel --yes
      hourhand tasks --state pending --limit 1000 --act run-now --yes
    """
    with operator_session(common) as service:
        now_ms = service.clock.now_ms()
        from_ms = task_input.parse_moment_ms(start, now_ms)
        to_ms = task_input.parse_moment_ms(end, now_ms)
        if from_ms >= to_ms:
            raise InvalidTask(f"--from {start} must be before --to {end}")
        if (reschedule_to is None) is (act is Action.RESCHEDULE):
            raise InvalidTask("--reschedule-to belongs to --act reschedule, and only to it")
        states = frozenset(state or ())
        behind = None if after is None else TaskKey.parse(after)
        chosen = Filter(from_ms, to_ms, states, ordering_id, partition, limit, behind)
        if act is None:
            _list(service, chosen, output)
            return
        moved_to = reschedule_to
        target = None if moved_to is None else task_input.parse_moment_ms(moved_to, now_ms)
        _act_on_all(service, act, chosen, target, reason, yes=yes, output=output)


def _list(service: AdminService, chosen: Filter, output: OutputFormat) -> None:
    listing = service.inspector.list_tasks(
        from_ms=chosen.from_ms,
        to_ms=chosen.to_ms,
        limit=_LISTED if chosen.limit is None else chosen.limit,
        states=chosen.states,
        ordering_id=chosen.ordering_id,
        partition=chosen.partition,
        after=chosen.after,
    )
    if output is OutputFormat.JSON:
        typer.echo(as_json(ShownTasks.of(listing)))
        return
    typer.echo("\n".join(listing_lines(listing)))
    _say_rest(listing.next_after)


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
    report = TasksActedOn.of(act_on_tasks(service, action, keys, to, reason, wait_s=_WAIT_S))
    if output is OutputFormat.JSON:
        following = None if selection.next_after is None else str(selection.next_after)
        typer.echo(as_json(replace(report, next_after=following)))
        return
    typer.echo(report.words)
    _say_rest(selection.next_after)


def _say_rest(following: TaskKey | None) -> None:
    if following is not None:
        say(f"there are more: --after {following}")
