"""``hourhand timers``: a node with the HTTP timer service."""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
from typing import Annotated

import typer

from actors.model.errors import SettingsInvalid
from scheduler import wiring
from scheduler.doors.node_commands import leave_at_once, log_to_stderr
from scheduler.doors.session import (
    ConfigOption,
    DebugOption,
    SetOption,
    command_session,
    say,
)
from scheduler.own_tasks import NoUserTasks


def timers(
    *,
    host: Annotated[str | None, typer.Option(help="Where requests are taken.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65_535, help="0: any free one.")] = None,
    executor: Annotated[
        str | None,
        typer.Option(metavar="MODULE:CLASS", help="For tasks of your own on the same topic."),
    ] = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    config: ConfigOption = None,
    assignments: SetOption = None,
    debug: DebugOption = False,
) -> None:
    """Run a node that serves timers over HTTP, until it is stopped.

    Needs hourhand[http].  The requests are those of Metaswitch's Chronos; the page /docs
    describes them, /metrics counts them.

    \b
    Examples:
      hourhand timers --port 7253
      hourhand timers --set timers.host=0.0.0.0 --config production.toml
    """
    chosen = [
        f"timers.{name}={value}"
        for name, value in (("host", host), ("port", port))
        if value is not None
    ]
    with command_session(config, [*(assignments or ()), *chosen], debug=debug) as settings:
        log_to_stderr(log_level)
        try:
            from scheduler.doors.timers_running import TimersRunning
        except ModuleNotFoundError as error:
            raise SettingsInvalid(
                f"`hourhand timers` needs {error.name}, which is not installed: install"
                " hourhand[http]"
            ) from None
        users = NoUserTasks if executor is None else wiring.load_executor(executor)
        running = TimersRunning(settings, executor=users)
        try:
            with running.scheduler.stopped_by_signals():
                running.start()
                say(f"timers are served on {settings.timers.host}:{running.port}; Ctrl-C stops it")
                running.wait()
        except KeyboardInterrupt:
            leave_at_once()
        say("the timer service has stopped")
