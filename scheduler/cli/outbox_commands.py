"""``hourhand outbox``: move rows from a database to the log, make the table, look at the lag."""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
from contextlib import closing
from typing import Annotated

import typer

from hourhand.scheduler import wiring
from hourhand.scheduler.cli.failing import leave_at_once, say
from hourhand.scheduler.cli.listings import print_done, print_facts, print_lines
from hourhand.scheduler.cli.log_lines import log_to_stderr
from hourhand.scheduler.cli.node_commands import observed
from hourhand.scheduler.cli.session import (
    CommandOptions,
    Commands,
    LogLevelOption,
    MetricsPortOption,
    ResultOptions,
    command_session,
)
from hourhand.scheduler.outbox.mover import OutboxMover
from hourhand.scheduler.outbox.opening import migrate_outbox, open_outbox
from hourhand.scheduler.outbox.table import dialect_of, migration_statements

app = Commands(
    invoke_without_command=True,
    help="Move tasks from the outbox in your database to the log.",
)

UrlOption = Annotated[
    str | None,
    typer.Option(metavar="URL", help="The database with the outbox: outbox.url."),
]


def _named(url: str | None) -> list[str]:
    return [] if url is None else [f"outbox.url={url}"]


@app.callback()
def outbox(
    context: typer.Context,
    *,
    url: UrlOption = None,
    metrics_port: MetricsPortOption = None,
    log_level: LogLevelOption = "info",
    common: CommandOptions,
) -> None:
    """Move committed tasks from the outbox to the log, until stopped.

    The tasks are those that hourhand.outbox.schedule wrote within transactions of your database.
    Any number of these may run at a time; with SQLite one works, and the others stand by.

    \b
    Examples:
      hourhand outbox --url postgresql://shop@db/shop --set log=kafka
      hourhand outbox --url sqlite:///shop.db --metrics-port 9464
      hourhand outbox migrate --url sqlite:///shop.db
    """
    if context.invoked_subcommand is not None:
        return
    with command_session(common, [*_named(url), *observed(metrics_port)]) as settings:
        log_to_stderr(log_level, settings)
        running = OutboxMover(settings)
        try:
            with running.stopped_by_signals():
                running.start()
                if running.observation.port is not None:
                    say(f"metrics and health on port {running.observation.port}")
                say("the mover of the outbox runs; Ctrl-C stops it")
                running.wait()
        except KeyboardInterrupt:
            leave_at_once()
        say("the mover of the outbox has stopped")


@app.command()
def migrate(
    *,
    url: UrlOption = None,
    sql: Annotated[
        str | None,
        typer.Option(
            "--sql", metavar="DIALECT", help="Only print the statements: postgresql or sqlite."
        ),
    ] = None,
    common: ResultOptions,
) -> None:
    """Create the outbox's table, or bring it to the newest version; safe to run again.

    \b
    Examples:
      hourhand outbox migrate --url postgresql://shop@db/shop
      hourhand outbox migrate --sql postgresql
    """
    with command_session(common, _named(url)) as settings:
        if sql is not None:
            statements = migration_statements(dialect_of(sql), settings.outbox.table)
            lines = (f"{each};" for each in statements)
            print_lines(common, {"statements": statements}, lines)
            return
        print_done(common, migrate_outbox(settings, wiring.open_clock()))


@app.command()
def status(*, url: UrlOption = None, common: ResultOptions) -> None:
    """Show how many rows wait, and how old the oldest is.

    \b
    Example:
      hourhand outbox status --url sqlite:///shop.db --output json
    """
    with command_session(common, _named(url)) as settings:
        clock = wiring.open_clock()
        with closing(open_outbox(settings, clock)) as table:
            lag = table.lag()
        age_ms = None if lag.oldest_ms is None else max(0, clock.now_ms() - lag.oldest_ms)
        print_facts(common, {"rowsWaiting": lag.rows, "oldestAgeMs": age_ms})
