"""``hourhand timers``: a node with the HTTP timer service; list, show and end timers."""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
from typing import Annotated

import typer

from hourhand.actors.model.values.errors import InvalidInput
from hourhand.scheduler.cli.failing import leave_at_once, say
from hourhand.scheduler.cli.listings import CursorOption, PageOption, print_listing
from hourhand.scheduler.cli.log_lines import log_to_stderr
from hourhand.scheduler.cli.operating import ActOptions, NamedAct, operator_session
from hourhand.scheduler.cli.rendering import as_json, facts_of
from hourhand.scheduler.cli.session import (
    CommandOptions,
    Commands,
    LogLevelOption,
    PortOption,
    ResultOptions,
    command_session,
)
from hourhand.scheduler.cli.task_text import view_lines
from hourhand.scheduler.cli.text_output import fact_lines, print_text
from hourhand.scheduler.configuration.optional_dependencies import required_by
from hourhand.scheduler.executors.loading import load_executors

app = Commands(
    invoke_without_command=True,
    help="Serve timers over HTTP, which call a URL when they are due.",
)

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The timer, as in its Location header.")
]


@app.callback()
def timers(
    context: typer.Context,
    *,
    host: Annotated[
        str | None, typer.Option(metavar="HOST", help="Address to listen on: timers.host.")
    ] = None,
    port: PortOption = None,
    executor: Annotated[
        list[str] | None,
        typer.Option(metavar="[KIND=]MODULE:NAME", help="Runs your own tasks on the same topic."),
    ] = None,
    log_level: LogLevelOption = "info",
    common: CommandOptions,
) -> None:
    """Run a node that serves timers over HTTP, until stopped.

    Needs hourhand[http].  The requests are those of Metaswitch's Chronos; /openapi.json
    describes them, /metrics counts them.

    \b
    Examples:
      hourhand timers --port 7253
      hourhand timers --set timers.host=0.0.0.0 --config production.toml
      hourhand timers list
    """
    if context.invoked_subcommand is not None:
        return
    chosen = [
        f"timers.{name}={value}"
        for name, value in (("host", host), ("port", port))
        if value is not None
    ]
    with command_session(common, chosen) as settings:
        log_to_stderr(log_level, settings)
        with required_by("`hourhand timers`"):
            from hourhand.scheduler.cli.http_running import TimersRunning
        users = load_executors(executor or ())
        running = TimersRunning(settings, executor=users.executor, executors=users.executors)
        try:
            with running.scheduler.stopped_by_signals():
                running.start()
                say(f"timers are served on {settings.timers.host}:{running.port}; Ctrl-C stops it")
                running.wait()
        except KeyboardInterrupt:
            leave_at_once()
        say("the timer service has stopped")


@app.command("list")
def list_timers(
    *,
    tag: Annotated[
        str | None, typer.Option(metavar="TAG", help="Only timers with this tag.")
    ] = None,
    limit: PageOption = 100,
    after: CursorOption = None,
    common: ResultOptions,
) -> None:
    """List timers, in no particular order.

    \b
    Example:
      hourhand timers list --tag CALL -o json
    """
    with operator_session(common) as service:
        data = service.settings.admin.show_data
        listing = service.timers.page(tag, after, limit, data=data)
        rows = [{**facts_of(each), **facts_of(each.next_pop)} for each in listing.timers]
        columns = ("time", "number", "intervalMs", "repeatForMs", "id", "uri")
        following = f"--after {listing.next_after}" if listing.next_after else ""
        print_listing(common, listing, rows, columns, following=following)


@app.command()
def show(
    timer_id: IdArgument,
    *,
    common: ResultOptions,
) -> None:
    """Show a timer, and its next or failing pop.

    \b
    Example:
      hourhand timers show 0123456789abcdef-2
    """
    with operator_session(common) as service:
        found = service.timers.find(timer_id)
        if found is None:
            raise InvalidInput(f"there is no timer {timer_id!r} in this installation")
        if common.wants_json:
            value = service.timers.shown(found, data=service.settings.admin.show_data)
            typer.echo(as_json(value))
            return
        value = service.timers.listed(found, data=service.settings.admin.show_data)
        print_text("\n".join(fact_lines(facts_of(value))))
        for view in service.timers.open_tasks(found):
            typer.echo()
            print_text("\n".join(view_lines(view, service.clock.now_ms())))


@app.command()
def delete(
    timer_ids: Annotated[
        list[str], typer.Argument(metavar="ID", help="The timers, as in their Location headers.")
    ],
    *,
    common: ActOptions,
) -> None:
    """Delete timers.

    Returns when that is durable; none of their pops starts after that.

    \b
    Example:
      hourhand timers delete 0123456789abcdef-2 --reason "customer left"
    """
    with operator_session(common) as service:
        known = service.timers.known(timer_ids)
        unknown = [each for each in dict.fromkeys(timer_ids) if each not in known]
        doing = NamedAct(
            "timer delete",
            "timers",
            list(known),
            unknown,
            lambda: service.timers.delete(known.values()),
        )
        doing.run(service, common)
