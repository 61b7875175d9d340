"""Commands about the whole cluster: admin serves it; top, nodes, ahead, buckets, audit-log show."""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
import sys
import threading
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.model.values.display import printable_lines
from hourhand.actors.model.values.errors import InvalidInput
from hourhand.scheduler.admin.answers import Answer
from hourhand.scheduler.admin.auditing import AuditEntries, parse_place
from hourhand.scheduler.admin.counts import BARS_MAX, BUCKET_HOURS_MAX, Unit
from hourhand.scheduler.admin.picture import ClusterStatus
from hourhand.scheduler.admin.service import AdminService
from hourhand.scheduler.cli import task_input
from hourhand.scheduler.cli.failing import say
from hourhand.scheduler.cli.listings import print_lines, print_listing
from hourhand.scheduler.cli.log_lines import log_to_stderr
from hourhand.scheduler.cli.operating import operator_service, operator_session
from hourhand.scheduler.cli.rendering import as_json, facts_of
from hourhand.scheduler.cli.session import (
    CommandOptions,
    LogLevelOption,
    PortOption,
    ResultOptions,
    command_session,
    require_installation,
)
from hourhand.scheduler.cli.text_output import cell_of, heading_of, print_rows
from hourhand.scheduler.configuration.optional_dependencies import required_by
from hourhand.scheduler.runtime.interrupts import signals_taken_by

_BAR_CHARS = 50
_LOOK_S = 0.5
_LOOKS_MAX = 8


def admin(
    *,
    host: Annotated[
        str | None, typer.Option(metavar="HOST", help="Address to listen on: admin.host.")
    ] = None,
    port: PortOption = None,
    log_level: LogLevelOption = "info",
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
        with required_by("`hourhand admin`"):
            from hourhand.scheduler.cli.http_running import AdminRunning
        require_installation(settings)
        log_to_stderr(log_level, settings)
        stopped = threading.Event()
        with signals_taken_by(lambda *_: stopped.set()), AdminRunning(settings) as running:
            say(f"admin API and dashboard are served on {running.address}; Ctrl-C stops them")
            stopped.wait()
        say("the admin API has stopped")


def mcp(*, common: CommandOptions) -> None:
    """Let an assistant look at the installation (MCP over stdio).

    Speaks the Model Context Protocol; needs hourhand[mcp].  Its tools are the paths of the admin
    API that read: status, tasks, dead letters, recurring schedules, limits.  Nothing can be
    changed.  With admin.show_data=false no data of tasks is told.

    \b
    Example, in the settings of an assistant:
      {"mcpServers": {"hourhand": {"command": "hourhand", "args": ["mcp"]}}}
    """
    with command_session(common) as settings:
        with required_by("`hourhand mcp`"):
            from hourhand.scheduler.admin.mcp_server import serve_over_stdio
        with operator_service(settings) as service:
            service.start()
            serve_over_stdio(service)


def nodes(
    *,
    common: ResultOptions,
) -> None:
    """List nodes and partitions: owner, lag, watermark.

    \b
    Examples:
      hourhand nodes
      hourhand nodes -o json | jq '.partitions[] | select(.owner == null)'
    """
    with operator_session(common) as service:
        service.cluster.read()
        found, partitions = service.cluster.nodes().nodes, service.cluster.partitions().partitions
        if common.wants_json:
            typer.echo(as_json({"nodes": found, "partitions": partitions}))
            return
        print_rows(found, ("node", "state", "asOf", "executionsPerS", "blocked", "partitions"))
        typer.echo()
        columns = ("partition", "owner", "state", "lag", "watermark", "loadedUntil", "paused")
        print_rows(partitions, columns)


def ahead(
    *,
    unit: Annotated[
        Unit,
        typer.Option(metavar="UNIT", help="One line for each minute, hour or day."),
    ] = Unit.MINUTE,
    bars: Annotated[int, typer.Option(min=1, max=1_440, metavar="N", help="Number of lines.")] = 60,
    common: ResultOptions,
) -> None:
    """Count the tasks that are due in the time ahead.

    \b
    Examples:
      hourhand ahead
      hourhand ahead --unit hour --bars 24
    """
    with operator_session(common) as service:
        if bars > BARS_MAX[unit]:
            raise InvalidInput(f"--bars {bars}: at most {BARS_MAX[unit]} by {unit}")
        found = service.counts.ahead(unit, service.clock.now_ms(), bars)
        most = max([each.due for each in found.bars] + [1])
        lines = (
            f"{each.time}  {each.due:>9}  {'#' * -(-each.due * _BAR_CHARS // most)}".rstrip()
            for each in found.bars
        )
        print_lines(common, found, lines)


def buckets(
    *,
    start: Annotated[
        str, typer.Option("--from", metavar="TIME", help="First hour: RFC 3339, -6h.")
    ] = "-6h",
    end: Annotated[
        str, typer.Option("--to", metavar="TIME", help="Last hour, not included.")
    ] = "+6h",
    common: ResultOptions,
) -> None:
    """Count tasks by hour, partition and state.

    \b
    Examples:
      hourhand buckets
      hourhand buckets --from -2d --to now -o json
    """
    with operator_session(common) as service:
        now_ms = service.clock.now_ms()
        from_ms = task_input.parse_moment_ms(start, now_ms)
        to_ms = task_input.parse_moment_ms(end, now_ms)
        if not 0 < to_ms - from_ms <= BUCKET_HOURS_MAX * HOUR_MS:
            raise InvalidInput(f"--from {start} --to {end}: 1 to {BUCKET_HOURS_MAX} hours")
        service.cluster.read()
        found = service.counts.buckets(from_ms, to_ms, service.cluster.blocked_hours())
        columns = ("hour", "partition", "pending", "blocked", "failed", "done")
        print_listing(common, found, found.buckets, columns)


def audit_log(
    *,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000, metavar="N", help="Most entries to list.")
    ] = 50,
    before: Annotated[
        str | None, typer.Option(metavar="PLACE", help="Cursor from the previous page.")
    ] = None,
    common: ResultOptions,
) -> None:
    """List who changed what, and why, newest first.

    Through the admin API, the dashboard and these commands.

    \b
    Examples:
      hourhand audit-log --limit 20
      hourhand audit-log -o json | jq '.entries[] | select(.action == "drop")'
    """
    with operator_session(common) as service:
        try:
            place = None if before is None else parse_place(before)
        except ValueError as error:
            raise InvalidInput(str(error)) from None
        page = AuditEntries.of(service.audit.page(place, limit))
        rows = [{**facts_of(each), "reason": _reason(each.detail)} for each in page.entries]
        columns = ("time", "who", "action", "target", "result", "reason")
        following = f"--before {page.next_before}" if page.next_before else ""
        print_listing(common, page, rows, columns, following=following)


def _reason(detail: object) -> str | None:
    reason = detail.get("reason") if isinstance(detail, dict) else None
    return str(reason) if reason else None


def top(
    *,
    interval_s: Annotated[
        float,
        typer.Option(
            "--interval", min=0.2, max=60, metavar="SECONDS", help="Time between two readings."
        ),
    ] = 1.0,
    common: ResultOptions,
) -> None:
    """Watch rates, lateness, nodes and partitions live.

    Ctrl-C ends it.  Into a pipe, or as JSON, it prints once, after the second or two that rates
    need.

    \b
    Examples:
      hourhand top
      hourhand top -o json | jq .status.latenessMs
    """
    with operator_session(common) as service:
        service.cluster.read()
        console, pause = Console(), threading.Event()
        if common.wants_json or not sys.stdout.isatty():
            _read_for_rates(service, pause)
            if common.wants_json:
                status, found = service.cluster.status(), service.cluster.nodes().nodes
                typer.echo(as_json({"status": status, "nodes": found}))
            else:
                console.print(_picture(service))
            return
        try:
            with Live(_picture(service), console=console, screen=True) as live:
                while not pause.wait(interval_s):
                    service.cluster.read()
                    live.update(_picture(service))
        except KeyboardInterrupt:
            return


def _read_for_rates(service: AdminService, pause: threading.Event) -> None:
    """Read until each living node has reported twice: a rate needs two reports."""
    for _ in range(_LOOKS_MAX):
        nodes = [each for each in service.cluster.nodes().nodes if each.state == "alive"]
        if all(each.executions_per_s is not None for each in nodes):
            return
        pause.wait(_LOOK_S)
        service.cluster.read()


def _picture(service: AdminService) -> Table:
    status = service.cluster.status()
    picture = Table.grid(padding=(0, 0, 1, 0))
    picture.add_row(_headline(status))
    picture.add_row(
        _table(
            service.cluster.nodes().nodes,
            ("node", "state", "executionsPerS", "failuresPerS", "inFlight", "failing", "blocked"),
        )
    )
    columns = ("partition", "owner", "state", "lag", "waiting", "executing", "held", "overdueMs")
    picture.add_row(_table(service.cluster.partitions().partitions, columns))
    return picture


def _headline(status: ClusterStatus) -> Text:
    late = status.lateness_ms
    verdict = status.verdict
    parts = [] if verdict is None else [verdict.words]
    if verdict is not None and verdict.next_step:
        parts.append(f"next: {verdict.next_step}")
    parts += [
        f"as of {status.as_of or 'never'}{' STALE' if status.stale else ''}",
        f"runs/s {_shown(status.executions_per_s)}, failures/s {_shown(status.failures_per_s)}",
        f"late, ms: p50 {_shown(late.p50)}, p99 {_shown(late.p99)}, p99.9 {_shown(late.p999)}",
        f"in flight {_shown(status.in_flight)}, failing {_shown(status.failing)}",
        f"blocked {_shown(status.blocked)}, limited {_shown(status.limited)}",
        f"lag {_shown(status.lag)}",
    ]
    if status.error:
        parts.append(f"the store does not answer: {status.error}")
    # Text, not markup: names and errors come from outside.
    return Text(printable_lines("\n".join(parts)))


def _table(rows: Sequence[Answer], columns: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in columns:
        table.add_column(heading_of(name))
    for row in map(facts_of, rows):
        table.add_row(*(Text(_cell(name, row[name])) for name in columns))
    return table


def _cell(name: str, value: object) -> str:
    return "?" if value is None else cell_of(name, value)


def _shown(value: object) -> str:
    return "?" if value is None else str(value)
