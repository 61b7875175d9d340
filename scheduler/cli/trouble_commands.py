"""Commands about what is in the way: who is blocked, what waits behind it, what runs, unblock."""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
from typing import Annotated

import typer

from actors.model.key import TaskKey
from scheduler.admin.acting import Action
from scheduler.admin.behind import waiting_behind
from scheduler.cli.operating import (
    ReasonOption,
    YesOption,
    act_on_tasks,
    agreed,
    operator_session,
    print_rows,
)
from scheduler.cli.rendering import OutputFormat, as_json
from scheduler.cli.session import (
    EXIT_CALLER,
    CommandOptions,
    OutputOption,
    say,
)
from scheduler.cli.task_commands import KeyArgument

_WAIT_S = 10.0


def blocked(
    *,
    failing: Annotated[
        bool, typer.Option("--failing", help="Those that are still tried, too.")
    ] = False,
    common: CommandOptions,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """List ordering ids that wait for an operator: since when, and why.

    \b
    Examples:
      hourhand blocked
      hourhand unblock customer-7 --drop
      hourhand tasks --state blocked --from -7d --to now --act retry
    """
    with operator_session(common) as service:
        service.cluster.read()
        found = {"blocked": service.cluster.troubled("blocked")}
        if failing:
            found["failing"] = service.cluster.troubled("failing")
        if output is OutputFormat.JSON:
            typer.echo(as_json(found))
            return
        rows = [{**row, "what": kind} for kind, each in found.items() for row in each[kind]]
        print_rows(rows, ("what", "since", "attempts", "error", "node", "key"))
        count = sum(each["count"] for each in found.values())
        if count > len(rows):
            say(f"{count - len(rows)} more are not listed")
        if unknown := found["blocked"]["unknownPartitions"]:
            say(f"nobody answers for {len(unknown)} partitions: what is blocked there is unknown")


def unblock(
    ordering_ids: Annotated[list[str], typer.Argument(metavar="ORDERING_ID...")],
    *,
    drop: Annotated[
        bool, typer.Option("--drop/--retry", help="Close the task in the way, or try it again.")
    ] = False,
    yes: YesOption = False,
    reason: ReasonOption = "",
    common: CommandOptions,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Retry, or drop, the task that blocks each of these ordering ids.

    \b
    Examples:
      hourhand unblock customer-7
      hourhand unblock customer-7 customer-8 --drop --reason "they closed their accounts"
    """
    with operator_session(common) as service:
        action = Action.DROP if drop else Action.RETRY
        found = {each: service.actions.blocked(each) for each in dict.fromkeys(ordering_ids)}
        keys = [key for key in found.values() if key is not None]
        free = [each for each, key in found.items() if key is None]
        if len(keys) > 1:
            agreed(len(keys), f"{action.value} the tasks that block these ordering ids", yes=yes)
        value = {"asked": 0, "outcomes": {}, "results": []}
        if keys:
            report = act_on_tasks(service, action, keys, None, reason, wait_s=_WAIT_S)
            value = report.value()
        if output is OutputFormat.JSON:
            typer.echo(as_json({**value, "notBlocked": free}))
        elif keys:
            typer.echo(report.words)
        if free:
            say(f"nothing blocks {', '.join(map(repr, free[:5]))}")
            raise typer.Exit(EXIT_CALLER)


def waiting(
    key: KeyArgument,
    *,
    common: CommandOptions,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Count the due tasks that wait behind one of their ordering id, and list the first.

    \b
    Example:
      hourhand waiting 2026-02-09T01:41:12.959Z,customer-7,invoice-42
    """
    with operator_session(common) as service:
        found = waiting_behind(service.inspector, service.clock, TaskKey.parse(key))
        if output is OutputFormat.JSON:
            typer.echo(as_json(found))
            return
        more = "or more " if found["more"] else ""
        typer.echo(f"{found['waiting']} {more}wait behind it")
        for each in found["first"]:
            typer.echo(each)


def running(
    *,
    common: CommandOptions,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """List tasks whose user code runs now, as their nodes said a second ago.

    \b
    Example:
      hourhand running -o json | jq '.running | length'
    """
    with operator_session(common) as service:
        service.cluster.read()
        rows: list[dict[str, object]] = [
            {"key": key, "attempt": attempt, "node": node}
            for key, (attempt, node) in sorted(service.cluster.running().items())
        ]
        if output is OutputFormat.JSON:
            typer.echo(as_json({"running": rows}))
        else:
            print_rows(rows, ("node", "attempt", "key"))
