"""``hourhand relay``: run a relay node, and list what waits."""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Annotated, Any

import msgspec
import typer

from actors.model.definition import RESERVED
from actors.model.instant import INSTANT_MAX_MS, format_instant
from scheduler import wiring
from scheduler.doors.node_commands import leave_at_once, log_to_stderr, open_telemetry
from scheduler.doors.relay_running import RelayRunning
from scheduler.doors.rendering import OutputFormat, as_json
from scheduler.doors.session import (
    ConfigOption,
    DebugOption,
    OutputOption,
    SetOption,
    command_session,
    open_inspector,
    say,
)
from scheduler.inspector import Inspector, TaskState, TaskView
from scheduler.own_tasks import NoUserTasks
from scheduler.relay.delivery import SEND, Delivery

app = typer.Typer(
    invoke_without_command=True, rich_markup_mode=None, help="Pass messages on at their deadline."
)

_OPEN = (TaskState.PENDING, TaskState.RUNNING, TaskState.RETRYING, TaskState.BLOCKED)
_PAGE_TASKS = 500


@app.callback()
def relay(
    context: typer.Context,
    *,
    executor: Annotated[
        str | None,
        typer.Option(metavar="MODULE:CLASS", help="For tasks of your own on the same topic."),
    ] = None,
    create_topics: Annotated[
        bool, typer.Option("--create-topics", help="Make in-topic and out-topic where missing.")
    ] = False,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Serve Prometheus metrics here.")
    ] = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    config: ConfigOption = None,
    assignments: SetOption = None,
    debug: DebugOption = False,
) -> None:
    """Run a relay node until it is stopped.

    A message of relay.in_topic with the headers chronosMessageId and chronosDeadline (RFC 3339
    with a zone) appears on relay.out_topic at its deadline, byte for byte, without them.

    \b
    Examples:
      hourhand relay --create-topics --set relay.in_topic=orders-in --set relay.out_topic=orders
      hourhand relay pending
    """
    if context.invoked_subcommand is not None:
        return
    with command_session(config, assignments, debug=debug) as settings, ExitStack() as closing:
        log_to_stderr(log_level)
        users = NoUserTasks if executor is None else wiring.load_executor(executor)
        if create_topics:
            for made in wiring.create_relay_topics(settings):
                say(f"made topic {made}")
        telemetry = open_telemetry(settings, metrics_port, closing)
        running = RelayRunning(settings, executor=users, telemetry=telemetry)
        try:
            with running.scheduler.stopped_by_signals():
                running.start()
                say("the relay runs; Ctrl-C stops it")
                running.wait()
        except KeyboardInterrupt:
            leave_at_once()
        say("the relay has stopped")


@app.command()
def pending(
    *,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="The first so many.")] = 100,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output: OutputOption = OutputFormat.TEXT,
    debug: DebugOption = False,
) -> None:
    """List messages that wait for their time, of the relay and of send_later, earliest first.

    \b
    Example:
      hourhand relay pending --limit 20 --output json
    """
    with (
        command_session(config, assignments, debug=debug) as settings,
        open_inspector(settings) as inspector,
    ):
        found = list(_waiting(inspector, limit))
        if output is OutputFormat.JSON:
            typer.echo(as_json({"messages": found}))
            return
        typer.echo(f"{'DUE':<24} {'TOPIC':<24} {'ID':<24} KEY OF THE TASK")
        for each in found:
            typer.echo(f"{each['due']:<24} {each['topic']:<24} {each['id']:<24} {each['key']}")


def _waiting(inspector: Inspector, limit: int) -> Iterator[dict[str, Any]]:
    after = None
    left = limit
    while True:
        page = inspector.list_tasks(
            from_ms=0, to_ms=INSTANT_MAX_MS, limit=_PAGE_TASKS, states=_OPEN, after=after
        )
        for view in page.tasks:
            if left and view.key.ordering_id.startswith(f"{RESERVED}{SEND}:"):
                yield _shown(view)
                left -= 1
        after = page.next_after
        if after is None or not left:
            return


def _shown(view: TaskView) -> dict[str, Any]:
    """Return one message; what its task's data does not tell is left empty."""
    try:
        assert view.task is not None, "an open task has a row"
        delivery = msgspec.json.decode(view.task.data, type=Delivery)
    except msgspec.MsgspecError:
        delivery = Delivery()
    topic = delivery.message.topic if delivery.message else "(beside its task)"
    return {
        "due": format_instant(view.key.scheduled_ms),
        "topic": topic,
        "id": delivery.id or "",
        "key": str(view.key),
    }
