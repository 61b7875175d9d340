"""Commands of ``hourhand`` about a node: run, prepare, ask one, its settings and version."""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
import gc
import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from hourhand.actors.model.values.errors import NodeUnhealthy, SettingsInvalid
from hourhand.scheduler import wiring
from hourhand.scheduler.admin.masking import masked
from hourhand.scheduler.cli.failing import leave_at_once, reported_errors, say
from hourhand.scheduler.cli.listings import print_done, print_lines
from hourhand.scheduler.cli.log_lines import log_to_stderr
from hourhand.scheduler.cli.process_running import (
    ChildOption,
    ChildPlace,
    ProcessesOption,
    process_count,
    run_processes,
)
from hourhand.scheduler.cli.reloading import run_reloading
from hourhand.scheduler.cli.rendering import as_json
from hourhand.scheduler.cli.session import (
    CommandOptions,
    DebugOption,
    MetricsPortOption,
    ResultOptions,
    command_session,
)
from hourhand.scheduler.cli.text_output import print_text
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.executors.loading import load_executors
from hourhand.scheduler.scheduler import Scheduler

_TIMEOUT_S = 15.0


def run(
    *,
    executor: Annotated[
        list[str],
        typer.Option(
            metavar="[KIND=]MODULE:NAME",
            help="A registry, a TaskExecutor class or a function returning one; may be repeated.",
        ),
    ],
    metrics_port: MetricsPortOption = None,
    processes: ProcessesOption = "1",
    reload: Annotated[
        bool,
        typer.Option(
            "--reload", help="Start the node again when a Python file in this folder changes."
        ),
    ] = False,
    child: ChildOption = None,
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

    Python computes on one core in each process.  With --processes N as many nodes share the work;
    one that ends is started again, and all stop together.

    --reload is for the time in which you write the code, as `hourhand dev` is, and needs
    hourhand[dev]: after each change the node stops gracefully and starts again.

    \b
    Examples:
      hourhand run --executor invoices:app
      hourhand run --executor mail=mails:SendMail --executor charge=bank:Charge
      hourhand run --executor tasks:app --metrics-port 9464 --set log=kafka
      hourhand run --executor tasks:app --processes auto --config production.toml
    """
    with command_session(common, observed(metrics_port)) as settings:
        place = None if child is None else ChildPlace.of(child)
        log_to_stderr(log_level, settings, process=None if place is None else place.number)
        count = 1 if place is not None else process_count(processes, settings)
        if reload:
            raise typer.Exit(run_reloading(settings, executor, child, count))
        if count > 1:
            raise typer.Exit(run_processes(settings, count))
        users = load_executors(executor)
        scheduler = Scheduler(settings, executor=users.executor, executors=users.executors)
        if place is None:
            run_node(scheduler)
        else:
            place.run(scheduler)


def run_node(scheduler: Scheduler) -> None:
    """Run a node until it is stopped."""
    try:
        # The objects of the start stay until the end: the collector need not walk them again.
        gc.freeze()
        with scheduler.stopped_by_signals():
            scheduler.start()
            say_where(scheduler)
            say("the node runs; Ctrl-C waits for running attempts and stops it")
            scheduler.wait()
    except KeyboardInterrupt:
        leave_at_once()
    say("the node has stopped")


def observed(metrics_port: int | None) -> list[str]:
    """Return the settings that ``--metrics-port`` stands for."""
    return [] if metrics_port is None else [f"observe.port={metrics_port}"]


def say_where(scheduler: Scheduler) -> None:
    """Print the port of the node's metrics and health, if they are served."""
    observation = scheduler.observation
    if observation.port is not None:
        say(f"metrics and health on port {observation.port}")


def migrate(
    *,
    common: ResultOptions,
) -> None:
    """Create missing tables and topics; safe to run again.

    \b
    Examples:
      hourhand migrate --set store=cassandra --set log=kafka
      hourhand migrate --config production.toml
    """
    with command_session(common) as settings:
        print_done(common, wiring.migrate(settings))


def demo(
    *,
    tasks: Annotated[
        int | None, typer.Option(metavar="N", help="Number of tasks to schedule: 80 to 10000.")
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
        from hourhand.scheduler.demo.demo import TASKS_DEFAULT, run_demo

        raise typer.Exit(run_demo(TASKS_DEFAULT if tasks is None else tasks, folder))


def health(
    *,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Address of the node, if observe.port is not set."),
    ] = None,
    common: ResultOptions,
) -> None:
    """Ask a running node whether it is healthy.

    Exit code 0 if it is, 3 if it is not or does not answer.

    \b
    Examples:
      hourhand health --set observe.port=9464
      hourhand health --url http://10.0.0.7:9464 --output json
    """
    with command_session(common) as settings:
        address = url.rstrip("/") if url is not None else _address(settings)
        answer = _asked(address)
        print_lines(common, answer, _health_lines(answer))
        failing = [name for name, check in answer["checks"].items() if not check["ok"]]
        if failing:
            raise NodeUnhealthy(f"{address} is not ready: {', '.join(failing)}")


def _address(settings: Settings) -> str:
    observe = settings.observe
    if not observe.port:
        raise SettingsInvalid(
            "observe.port names no port, so no node can be asked: set it as the node's is, such"
            " as --set observe.port=9464, or name one with --url"
        )
    return f"http://{_reached(observe.host)}:{observe.port}"


def _reached(host: str) -> str:
    """Return the host to ask for a node that listens on ``host``: loopback if it listens
    everywhere.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if address.version == 6:
        return "[::1]" if address.is_unspecified else f"[{address}]"
    return "127.0.0.1" if address.is_unspecified else host


def _asked(address: str) -> dict[str, Any]:
    parts = urlsplit(address)
    if parts.scheme != "http" or not parts.hostname:
        raise SettingsInvalid(f"{address!r} is not an address: expected http://host:port")
    try:
        connection = HTTPConnection(parts.hostname, parts.port, timeout=_TIMEOUT_S)
        with closing(connection):
            connection.request("GET", f"{parts.path}/healthz?full=1")
            body = connection.getresponse().read()
    except (OSError, ValueError, HTTPException) as error:
        raise NodeUnhealthy(f"{address} does not answer: {error}") from None
    try:
        found = json.loads(body)
        answer: dict[str, Any] = {**found, "checks": dict(found["checks"])}
    except (ValueError, KeyError, TypeError):
        raise NodeUnhealthy(f"{address} answers, but is not a node: {body[:100]!r}") from None
    return answer


def _health_lines(answer: dict[str, Any]) -> Iterator[str]:
    for name, check in answer["checks"].items():
        yield f"{'ok     ' if check['ok'] else 'FAILING'} {name}: {check['detail']}"


def show_settings(
    *,
    common: ResultOptions,
) -> None:
    """Show the settings in effect, with secrets masked.

    Each can be given as --set group.id=blue, as HOURHAND_GROUP__ID in the environment, or in
    hourhand.toml; the first of these wins.

    \b
    Examples:
      hourhand settings
      HOURHAND_GROUP__ID=blue hourhand settings --set log=kafka
    """
    with command_session(common) as settings:
        found = masked(settings)
        lines = (f"{name} = {as_json(value)}" for name, value in _flattened("", found))
        print_lines(common, found, lines)


def _flattened(prefix: str, values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every setting's dotted name, as ``--set`` takes it, and its value."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from _flattened(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", value


def version(*, debug: DebugOption = False) -> None:
    """Show the version that is installed.

    \b
    Example:
      hourhand version
    """
    with reported_errors(debug=debug):
        print_text(version_line())


def version_line() -> str:
    """Return the program's name and version."""
    try:
        return f"hourhand {installed_version('hourhand')}"
    except PackageNotFoundError:
        return "hourhand, run from its sources"
