"""``hourhand admin``: the admin API and the dashboard on a port."""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
import signal
import threading
from typing import Annotated

import typer

from scheduler.cli.failing import say
from scheduler.cli.node_commands import log_to_stderr
from scheduler.cli.session import CommandOptions, command_session
from scheduler.configuration.optional_dependencies import required_by


def admin(
    *,
    host: Annotated[
        str | None, typer.Option(metavar="HOST", help="Address to listen on: admin.host.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, metavar="PORT", help="Port to listen on; 0: any free one."),
    ] = None,
    log_level: Annotated[
        str, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")
    ] = "info",
    common: CommandOptions,
) -> None:
    """Serve the dashboard and the admin API until stopped.

    Needs hourhand[http], and runs no tasks itself.  Only this machine can connect unless
    admin.host and tokens are set; see docs/admin.md.

    \b
    Examples:
      hourhand admin
      hourhand admin --port 8080 --config production.toml
    """
    chosen = [
        f"admin.{name}={value}"
        for name, value in (("host", host), ("port", port))
        if value is not None
    ]
    with command_session(common, chosen) as settings:
        log_to_stderr(log_level)
        with required_by("`hourhand admin`"):
            from scheduler.cli.admin_running import AdminRunning
        stopped = threading.Event()
        before = {
            number: signal.signal(number, lambda *_: stopped.set())
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            with AdminRunning(settings) as running:
                say(f"admin API and dashboard are served on {running.address}; Ctrl-C stops them")
                stopped.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        say("the admin API has stopped")
