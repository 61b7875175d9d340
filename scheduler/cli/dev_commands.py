"""``hourhand dev`` and ``hourhand init``: for somebody who writes a program on this machine.

``dev`` runs one node on the embedded folder and a new one after each change. The dashboard and the
keys belong to the process that starts the nodes, so they outlive each of them. ``init`` writes the
files of a first program, and never replaces one.
"""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
import shlex
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hourhand.actors.model.values.errors import DependencyMissing, SettingsInvalid
from hourhand.scheduler.admin.service import AdminService
from hourhand.scheduler.cli.dev_keys import KEYS_HELP, DevKeys
from hourhand.scheduler.cli.dev_lines import log_for_developer
from hourhand.scheduler.cli.failing import reported_errors, say
from hourhand.scheduler.cli.first_app import write_first_app
from hourhand.scheduler.cli.operating import operator_service
from hourhand.scheduler.cli.process_running import ChildOption
from hourhand.scheduler.cli.reloading import (
    Reloader,
    Watch,
    child_command,
    no_changes,
    python_changes,
    run_child,
    stop_ms_of,
)
from hourhand.scheduler.cli.session import (
    CommandOptions,
    DebugOption,
    LogLevelOption,
    PortOption,
    command_session,
)
from hourhand.scheduler.cli.terminal_keys import call_for_keys, reads_keys, single_keys
from hourhand.scheduler.configuration.optional_dependencies import required_by
from hourhand.scheduler.configuration.settings import Settings

_DEFAULT_PATH = "tasks:app"


def dev(
    executor: Annotated[
        str, typer.Argument(metavar="[MODULE:NAME]", help=f"A registry; {_DEFAULT_PATH} without.")
    ] = _DEFAULT_PATH,
    *,
    port: PortOption = None,
    log_level: LogLevelOption = "info",
    child: ChildOption = None,
    common: CommandOptions,
) -> None:
    """Run a node and the dashboard while you write its code.

    The node stops gracefully and starts again after each change of a Python file in this folder; a
    file that cannot be imported is shown, and the next save starts the node.  Nothing that was
    scheduled is lost.  The first line has the dashboard's address.  Needs hourhand[dev]; without it
    there is no dashboard, and changes are not noticed.

    In a terminal, p pauses and resumes, r runs now what waits, q quits.

    \b
    Examples:
      hourhand dev
      hourhand dev invoices:app --port 8080
    """
    chosen = [] if port is None else [f"admin.port={port}"]
    with command_session(common, chosen) as settings:
        _require_embedded(settings)
        if child is not None:
            log_for_developer(log_level)
            run_child(child, settings, [executor])
            return
        raise typer.Exit(_develop(_with_free_port(settings, port), executor))


def _require_embedded(settings: Settings) -> None:
    if (settings.log, settings.store) != ("embedded", "embedded"):
        raise SettingsInvalid(
            f"`hourhand dev` works in a folder of this machine, and log is {settings.log!r}, store"
            f" {settings.store!r}: add --set log=embedded --set store=embedded, or use `hourhand"
            " run --reload`"
        )


def _with_free_port(settings: Settings, asked: int | None) -> Settings:
    """Return settings with another port for the dashboard if nobody chose one and it is taken."""
    admin = settings.admin
    if asked is None and not _is_free(admin.host, admin.port):
        return settings.model_copy(update={"admin": admin.model_copy(update={"port": 0})})
    return settings


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family):
            return True
    except OSError:
        return False


@contextmanager
def _dashboard(settings: Settings) -> Iterator[AdminService]:
    """Serve the dashboard within the block, if its packages are installed."""
    try:
        with required_by("the dashboard"):
            from hourhand.scheduler.cli.http_running import AdminRunning
    except DependencyMissing as missing:
        say(str(missing))
        with operator_service(settings, may_create=True) as service:
            yield service
        return
    with AdminRunning(settings) as running:
        say(f"the dashboard is on {running.address}")
        yield running.service


def _watch() -> Watch:
    folder = Path.cwd()
    try:
        with required_by("a start after each change"):
            import watchfiles  # noqa: F401 - only its absence matters here
    except DependencyMissing as missing:
        say(str(missing))
        return no_changes
    return partial(python_changes, folder)


def _develop(settings: Settings, executor: str) -> int:
    with ExitStack() as closing:
        service = closing.enter_context(_dashboard(settings))
        reloader = Reloader(child_command(), _watch(), stop_ms=stop_ms_of(settings))
        if reads_keys():
            closing.enter_context(single_keys())
            keys = DevKeys(service, reloader.stop)
            closing.callback(keys.close)
            say(f"runs {executor}; {KEYS_HELP}")
            code = reloader.run(lambda: call_for_keys(keys.take))
        else:
            say(f"runs {executor}; Ctrl-C stops it")
            code = reloader.run()
    if not code:
        say("the node has stopped")
    return code


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Folder to write into; this one without.")
    ] = Path(),
    *,
    debug: DebugOption = False,
) -> None:
    """Write the files of a first program, and of its test.

    They are tasks.py, test_tasks.py, pyproject.toml and README.md.  If one of them exists, nothing
    is written.

    \b
    Examples:
      hourhand init
      hourhand init reminders
    """
    with reported_errors(debug=debug):
        for name in write_first_app(folder):
            say(f"wrote {folder / name}")
        there = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
        say(f"next: {there}hourhand dev")
