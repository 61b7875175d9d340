"""Commands about tasks that are stuck: blocked ids, tasks that wait, tasks that run, unblock."""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
from typing import Annotated

import typer
from msgspec.structs import replace

from hourhand.actors.model.task.key import TaskKey
from hourhand.scheduler.admin.acting import Action, TasksActedOn
from hourhand.scheduler.admin.blocking import blocking_task, waiting_behind
from hourhand.scheduler.admin.picture import ExecutedTask, ShownTrouble
from hourhand.scheduler.admin.service import AdminService
from hourhand.scheduler.cli.failing import EXIT_CALLER, say
from hourhand.scheduler.cli.listings import print_lines, print_listing
from hourhand.scheduler.cli.operating import (
    ActOptions,
    act_on_tasks,
    agreed,
    exit_for,
    operator_session,
    print_report,
)
from hourhand.scheduler.cli.rendering import as_json, facts_of
from hourhand.scheduler.cli.session import ResultOptions
from hourhand.scheduler.cli.task_commands import KeyArgument
from hourhand.scheduler.cli.task_text import checkpoint_text, last_error, run_ms
from hourhand.scheduler.cli.text_output import print_rows
from hourhand.scheduler.tasks.inspector import TaskState

_WAIT_S = 10.0
_TOLD_MAX = 100
"""Rows that are shown with the error's message; each costs one read of the store."""


def blocked(
    *,
    failing: Annotated[
        bool,
        typer.Option("--failing", help="Also list tasks that failed and will be tried again."),
    ] = False,
    common: ResultOptions,
) -> None:
    """List ordering ids that wait for an operator, and why.

    \b
    Examples:
      hourhand blocked
      hourhand unblock customer-7 --drop
      hourhand list --state blocked --from -7d --act retry
    """
    with operator_session(common) as service:
        service.cluster.read()
        stuck = service.cluster.blocked()
        tried = service.cluster.failing() if failing else None
        if common.wants_json:
            found = {"blocked": stuck} if tried is None else {"blocked": stuck, "failing": tried}
            typer.echo(as_json(found))
            return
        rows = [(TaskState.BLOCKED, each) for each in stuck.blocked]
        count = stuck.count
        if tried is not None:
            rows += [(TaskState.RETRYING, each) for each in tried.failing]
            count += tried.count
        if rows:
            print_rows(
                [_shown(service, *row, told=at < _TOLD_MAX) for at, row in enumerate(rows)],
                ("state", "since", "attempts", "node", "key", "error"),
            )
        elif not stuck.unknown_partitions:
            say("no ordering id is blocked")
        if count > len(rows):
            say(f"{count - len(rows)} more are not listed")
        if unknown := stuck.unknown_partitions:
            say(f"{len(unknown)} partitions do not answer: blocked ids there are unknown")


def _shown(
    service: AdminService, state: TaskState, trouble: ShownTrouble, *, told: bool
) -> dict[str, object]:
    """Return a row; if ``told``, with the error's message from the store."""
    error = last_error(service.inspector.show(TaskKey.parse(trouble.key))) if told else None
    return {**facts_of(trouble), "state": state.value, "error": error or trouble.error}


def unblock(
    ordering_ids: Annotated[
        list[str], typer.Argument(metavar="ORDERING_ID", help="The blocked ids.")
    ],
    *,
    drop: Annotated[
        bool,
        typer.Option(
            "--drop/--retry", help="Close the task that blocks for good, or run it again."
        ),
    ] = False,
    common: ActOptions,
) -> None:
    """Retry or drop the tasks that block ordering ids.

    \b
    Examples:
      hourhand unblock customer-7
      hourhand unblock customer-7 customer-8 --drop --reason "they closed their accounts"
    """
    with operator_session(common) as service:
        action = Action.DROP if drop else Action.RETRY
        found = {
            each: blocking_task(service.inspector, service.clock, each)
            for each in dict.fromkeys(ordering_ids)
        }
        keys = [key for key in found.values() if key is not None]
        free = [each for each, key in found.items() if key is None]
        if len(keys) > 1:
            agreed(
                len(keys), f"{action.value} the tasks that block these ordering ids", yes=common.yes
            )
        tried = []
        if keys:
            tried = act_on_tasks(service, action, keys, None, common.reason, wait_s=_WAIT_S)
        report = TasksActedOn.of(tried, action.value)
        if common.wants_json:
            typer.echo(as_json(replace(report, not_blocked=free)))
        elif keys:
            print_report(report, action.value)
        if free:
            say(f"nothing blocks {', '.join(map(repr, free[:5]))}")
            raise typer.Exit(EXIT_CALLER)
        exit_for(report.outcomes)


def waiting(
    key: KeyArgument,
    *,
    common: ResultOptions,
) -> None:
    """Count and list the due tasks that wait behind a task.

    \b
    Example:
      hourhand waiting 2026-02-09T01:41:12.959Z,customer-7,invoice-42
    """
    with operator_session(common) as service:
        found = waiting_behind(service.inspector, service.clock, TaskKey.parse(key))
        more = "or more " if found.more else ""
        verb = "waits" if found.waiting == 1 else "wait"
        print_lines(common, found, [f"{found.waiting} {more}{verb} behind it", *found.first])


def limited(
    *,
    common: ResultOptions,
) -> None:
    """List what waits because of a limit, by limit and value.

    As nodes reported up to a second ago.

    \b
    Example:
      hourhand limited -o json | jq .count
    """
    with operator_session(common) as service:
        service.cluster.read()
        found = service.cluster.limited()
        none = "no task waits because of a limit, as far as nodes reported"
        columns = ("limit", "value", "waiting", "since")
        print_listing(common, found, found.flows, columns, none=none)


def running(
    *,
    common: ResultOptions,
) -> None:
    """List tasks whose code runs: for how long, and how far.

    The longest first, as nodes reported up to a second ago. A checkpoint shows
    its progress and its age; stuck is what makes none for too long.

    \b
    Example:
      hourhand running -o json | jq .count
    """
    with operator_session(common) as service:
        service.cluster.read()
        found = service.cluster.running()
        now_ms = service.clock.now_ms()
        rows = [_executed(each, now_ms) for each in found.running]
        columns = ["started", "forMs", "kind", "node", "where", "attempt", "checkpoint", "key"]
        if not any(row["checkpoint"] for row in rows):
            columns.remove("checkpoint")
        none = "no task runs right now, as far as nodes reported"
        print_listing(common, found, rows, columns, none=none)
        if found.count > len(rows) and not common.wants_json:
            say(f"{found.count - len(rows)} more are not listed")


def _executed(task: ExecutedTask, now_ms: int) -> dict[str, object]:
    facts = facts_of(task)
    said = checkpoint_text(facts.get("checkpoint"), now_ms, is_stuck=task.stuck)
    return {**facts, "forMs": run_ms(task.started, now_ms), "checkpoint": said}
