"""Commands of ``hourhand`` that run or prepare a node."""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
import gc
import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from actors.model.errors import SettingsInvalid
from scheduler import wiring
from scheduler.cli import log_lines
from scheduler.cli.failing import reported_errors, say
from scheduler.cli.rendering import OutputFormat, as_json
from scheduler.cli.session import CommandOptions, DebugOption, OutputOption, command_session
from scheduler.configuration.door_settings import ObserveSettings
from scheduler.configuration.settings import Settings
from scheduler.executors.loading import load_executors
from scheduler.process.interrupts import EXIT_INTERRUPTED
from scheduler.scheduler import Scheduler


def run(
    *,
    executor: Annotated[
        list[str],
        typer.Option(
            metavar="[KIND=]MODULE:NAME",
            help="A TaskExecutor class, a function returning one, or a registry; may be repeated.",
        ),
    ],
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65_535, metavar="PORT", help="Port for metrics and health: observe.port."
        ),
    ] = None,
    log_level: Annotated[
        str,
        typer.Option(metavar="LEVEL", help="debug (every attempt), info, warning or error."),
    ] = "info",
    common: CommandOptions,
) -> None:
    """Run a node until it is stopped.

    On Ctrl-C or SIGTERM the node waits for running attempts, at most 10 seconds unless
    tree.recovery.drain_deadline_ms says otherwise, and stops.  A second one stops it at once with
    exit code 130.  Attempts that were cut off run again, here or on another node.

    \b
    Examples:
      hourhand run --executor invoices:SendInvoice
      hourhand run --executor mail=mails:SendMail --executor charge=bank:Charge
      hourhand run --executor tasks:app --metrics-port 9464 --set log=kafka
    """
    with command_session(common, observed(metrics_port)) as settings:
        log_to_stderr(log_level, settings)
        users = load_executors(executor)
        scheduler = Scheduler(settings, executor=users.executor, executors=users.executors)
        try:
            # What is there by now stays: the collector need not walk it again.
            gc.freeze()
            with scheduler.stopped_by_signals():
                scheduler.start()
                say_where(scheduler)
                say("the node runs; Ctrl-C waits for running attempts and stops it")
                scheduler.wait()
        except KeyboardInterrupt:
            leave_at_once()
        say("the node has stopped")


def log_to_stderr(level: str, settings: Settings | None = None) -> None:
    """Show the node's log from a level on; SettingsInvalid where there is no such level."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise SettingsInvalid(f"--log-level {level!r} is none of debug, info, warning, error")
    log_lines.log_to_stderr(number, ObserveSettings() if settings is None else settings.observe)


def observed(metrics_port: int | None) -> list[str]:
    """Return the settings that the option for a port of metrics stands for."""
    return [] if metrics_port is None else [f"observe.port={metrics_port}"]


def say_where(scheduler: Scheduler) -> None:
    """Say where a node's metrics and health are served, if they are."""
    observation = scheduler.observation
    if observation.port is not None:
        say(f"metrics and health on port {observation.port}")


def leave_at_once() -> None:
    """End the process without waiting for user code, which may never end."""
    say("stopped at once; attempts that were cut off will run again")
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_INTERRUPTED)


def migrate(
    *,
    common: CommandOptions,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Create missing tables and topics; safe to run again.

    \b
    Examples:
      hourhand migrate --set store=cassandra --set log=kafka
      hourhand migrate --config production.toml
    """
    with command_session(common) as settings:
        done = wiring.migrate(settings)
        if output is OutputFormat.JSON:
            typer.echo(as_json({"done": done}))
            return
        for line in done or ["everything is there already: nothing to do"]:
            typer.echo(line)


def demo(
    *,
    tasks: Annotated[
        int | None, typer.Option(metavar="N", help="How many tasks to schedule: 80 to 10000.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep the installation in this folder.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Watch tasks run on this machine; leaves nothing behind.

    Exit code 1 if a promise did not hold.

    \b
    Examples:
      hourhand demo
      hourhand demo --tasks 1000 --folder demo-data
    """
    with reported_errors(debug=debug):
        from scheduler.demo.demo import TASKS_DEFAULT, run_demo

        raise typer.Exit(run_demo(TASKS_DEFAULT if tasks is None else tasks, folder))
