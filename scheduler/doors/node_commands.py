"""Commands of ``hourhand`` that run or prepare a node."""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
import gc
import logging
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from actors.model.errors import SettingsInvalid
from actors.ports.telemetry import Telemetry
from scheduler import wiring
from scheduler.doors.rendering import OutputFormat, as_json
from scheduler.doors.session import (
    EXIT_INTERRUPTED,
    ConfigOption,
    DebugOption,
    OutputOption,
    SetOption,
    command_session,
    reported_errors,
    say,
)
from scheduler.scheduler import Scheduler
from scheduler.settings import Settings

_LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s %(message)s"


def run(
    *,
    executor: Annotated[
        str,
        typer.Option(metavar="MODULE:CLASS", help="A TaskExecutor, or a function returning one."),
    ],
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Serve Prometheus metrics here.")
    ] = None,
    log_level: Annotated[
        str, typer.Option(help="debug, info, warning or error; debug tells of every attempt.")
    ] = "info",
    config: ConfigOption = None,
    assignments: SetOption = None,
    debug: DebugOption = False,
) -> None:
    """Run a node until it is stopped.

    Ctrl-C or SIGTERM lets running attempts finish and then stops; a second one leaves at
    once with exit code 130, and what ran then runs again elsewhere.

    \b
    Examples:
      hourhand run --executor invoices:SendInvoice
      hourhand run --executor invoices:SendInvoice --metrics-port 9464 --set log=kafka
    """
    with command_session(config, assignments, debug=debug) as settings, ExitStack() as closing:
        log_to_stderr(log_level)
        factory = wiring.load_executor(executor)
        telemetry = open_telemetry(settings, metrics_port, closing)
        scheduler = Scheduler(settings, executor=factory, telemetry=telemetry)
        try:
            # What is there by now stays: the collector need not walk it again.
            gc.freeze()
            with scheduler.stopped_by_signals():
                scheduler.start()
                say("the node runs; Ctrl-C lets running attempts finish and stops it")
                scheduler.wait()
        except KeyboardInterrupt:
            leave_at_once()
        say("the node has stopped")


def log_to_stderr(level: str) -> None:
    """Show the node's log from a level on; SettingsInvalid where there is no such level."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise SettingsInvalid(f"--log-level {level!r} is none of debug, info, warning, error")
    logging.basicConfig(stream=sys.stderr, level=max(number, logging.INFO), format=_LOG_FORMAT)
    # Drivers' own debug lines would bury the node's.
    logging.getLogger("hourhand").setLevel(number)


def open_telemetry(settings: Settings, metrics_port: int | None, closing: ExitStack) -> Telemetry:
    """Build telemetry, with metrics served on a port where one is given."""
    if metrics_port is None:
        return wiring.build_telemetry(settings)
    try:
        telemetry, server = wiring.serve_metrics(settings, metrics_port)
    except OSError as error:
        raise SettingsInvalid(
            f"cannot serve metrics on port {metrics_port}: {error.strerror}; choose another"
            " --metrics-port"
        ) from None
    closing.callback(server.close)
    say(f"metrics on port {server.port}")
    return telemetry


def leave_at_once() -> None:
    """End the process without waiting for user code, which may never end."""
    say("left at once; what was running runs again")
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_INTERRUPTED)


def migrate(
    *,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output: OutputOption = OutputFormat.TEXT,
    debug: DebugOption = False,
) -> None:
    """Create what is missing of tables and topics; safe to run again.

    \b
    Examples:
      hourhand migrate --set store=cassandra --set log=kafka
      hourhand migrate --config production.toml
    """
    with command_session(config, assignments, debug=debug) as settings:
        done = wiring.migrate(settings)
        if output is OutputFormat.JSON:
            typer.echo(as_json({"done": done}))
            return
        for line in done or ["everything is there already: nothing to do"]:
            typer.echo(line)


def demo(
    *,
    tasks: Annotated[int | None, typer.Option(help="How many tasks to schedule.")] = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep everything here, to look at.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Watch tasks run on this machine, with nothing to install and nothing left behind.

    Exit code 1 where a promise did not hold.

    \b
    Examples:
      hourhand demo
      hourhand demo --tasks 1000 --folder demo-data
    """
    with reported_errors(debug=debug):
        from scheduler.doors.demo import TASKS_DEFAULT, run_demo

        raise typer.Exit(run_demo(TASKS_DEFAULT if tasks is None else tasks, folder))
