"""``hourhand pipeline NAME``: the jobs over everything that is stored, on Spark.

Decides how a job's plan is typed and how its summary is shown; Spark is loaded when a job is
run and not before.  Exit code 1 where an audit found something, 2 where rows were put aside.
"""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from actors.model.errors import InvalidInput, SettingsInvalid
from scheduler import wiring
from scheduler.doors import task_input
from scheduler.doors.rendering import OutputFormat, as_json
from scheduler.doors.session import (
    EXIT_CALLER,
    ConfigOption,
    DebugOption,
    OutputOption,
    SetOption,
    reported_errors,
    say,
)

app = typer.Typer(
    no_args_is_help=True,
    help="Jobs over everything that is stored, on Spark (pip install 'hourhand[pipeline]').",
)

EXIT_FOUND = 1

MasterOption = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Spark's master; this machine by default."),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; repeatable."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Do all but write, and tell what would be written.")
]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Where a job runs, as it was typed."""

    config: Path | None
    assignments: Sequence[str] | None
    master: str | None
    conf: Sequence[str] | None
    dry_run: bool = False


@contextmanager
def _job(asked: _Asked, *, debug: bool) -> Iterator[Any]:
    """Hand a job its options, and end the program as its errors demand."""
    with reported_errors(debug=debug):
        if importlib.util.find_spec("pyspark") is None:
            raise SettingsInvalid(
                "Spark is not installed here: pip install 'hourhand[pipeline]' (it needs Java 17)"
            )
        from scheduler.pipeline.job import JobOptions
        from scheduler.pipeline.options import parse_options

        named = dict(_pair("--set", each) for each in asked.assignments or ())
        if asked.config is not None:
            named["config"] = str(asked.config)
        yield JobOptions(
            source=parse_options(named),
            master=asked.master,
            dry_run=asked.dry_run,
            say=say,
            conf=dict(_pair("--conf", each) for each in asked.conf or ()),
        )


def _moment_ms(text: str | None, now_ms: int) -> int | None:
    return None if text is None else task_input.parse_moment_ms(text, now_ms)


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidInput(f"{option} takes NAME=VALUE, such as {option} group.id=blue")
    return name.strip(), value


@app.command()
def load(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Parquet, CSV or JSON lines.")],
    *,
    file_format: Annotated[
        str | None, typer.Option("--format", help="parquet, csv or json; by the ending.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=NAME", help="A field's name in the file; repeatable."),
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Zone of times that name none.")
    ] = None,
    past: Annotated[
        str, typer.Option(metavar="run|reject", help="What becomes of tasks of the past.")
    ] = "reject",
    rejects: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="For rows that are no task.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.1, metavar="ROWS", help="Most rows each second.")
    ] = None,
    writers: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Spark tasks that write.")
    ] = None,
    dry_run: DryRunOption = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output: OutputOption = OutputFormat.TEXT,
    debug: DebugOption = False,
) -> None:
    """Schedule the tasks of a file of any size; rows that are no task are put aside.

    Fields are scheduled_time, ordering_id, uniqueness_key and data. Without a column for the
    data, all other columns become the data. Safe to stop and to run again, beside nodes.

    \b
    Examples:
      hourhand pipeline load reminders.parquet --dry-run
      hourhand pipeline load old.csv --column ordering_id=customer --timezone Europe/Vienna
    """
    with _job(_Asked(config, assignments, master, conf, dry_run), debug=debug) as job:
        from scheduler.pipeline.load import LoadPlan, run_load

        if past not in {"run", "reject"}:
            raise InvalidInput(f"--past {past!r} is neither run nor reject")
        plan = LoadPlan(
            path=path,
            format=file_format,
            columns=dict(_pair("--column", each) for each in column or ()),
            timezone=timezone,
            accept_past=past == "run",
            rejects=rejects,
            rows_per_second=rate,
            writers=writers,
        )
        summary = run_load(job, plan)
    _show(summary, output)
    if summary["invalid"] + summary["duplicates"]:
        raise typer.Exit(EXIT_CALLER)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the report goes.")],
    *,
    start: Annotated[str, typer.Option("--from", metavar="TIME", help="RFC 3339, -24h.")] = "-24h",
    end: Annotated[str, typer.Option("--to", metavar="TIME", help="RFC 3339, now.")] = "now",
    master: MasterOption = None,
    conf: ConfOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output: OutputOption = OutputFormat.TEXT,
    debug: DebugOption = False,
) -> None:
    """Write what a period brought, and the load ahead: Parquet, and one page with charts.

    \b
    Examples:
      hourhand pipeline report yesterday --from -48h --to -24h
    """
    with _job(_Asked(config, assignments, master, conf), debug=debug) as job:
        from scheduler.pipeline.report import ReportPlan, run_report

        now_ms = wiring.open_clock().now_ms()
        first_ms, end_ms = (task_input.parse_moment_ms(each, now_ms) for each in (start, end))
        summary = run_report(job, ReportPlan(first_ms, end_ms, folder))
    _show(summary, output)


@app.command()
def audit(
    *,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Only tasks due from then on.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Only tasks due before.")
    ] = None,
    tolerance: Annotated[str, typer.Option(metavar="DURATION", help="How late is overdue.")] = "5m",
    expected: Annotated[
        str | None, typer.Option(metavar="PATH", help="Parquet of tasks that must be stored.")
    ] = None,
    findings: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="All findings, as Parquet.")
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output: OutputOption = OutputFormat.TEXT,
    debug: DebugOption = False,
) -> None:
    """Join what is stored and tell what must not be; exit code 1 where there is any.

    \b
    Examples:
      hourhand pipeline audit --tolerance 1m -o json
    """
    with _job(_Asked(config, assignments, master, conf), debug=debug) as job:
        from scheduler.pipeline.audit import AuditPlan, run_audit

        now_ms = wiring.open_clock().now_ms()
        plan = AuditPlan(
            from_ms=_moment_ms(start, now_ms),
            to_ms=_moment_ms(end, now_ms),
            tolerance_ms=task_input.parse_duration_ms(tolerance),
            expected=expected,
            findings=findings,
        )
        summary = run_audit(job, plan)
    _show(summary, output)
    if summary["found"]:
        raise typer.Exit(EXIT_FOUND)


@app.command()
def archive(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Where archived hours go.")],
    *,
    older_than: Annotated[
        str, typer.Option(metavar="DURATION", help="Hours that ended so long ago.")
    ] = "7d",
    dry_run: DryRunOption = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output: OutputOption = OutputFormat.TEXT,
    debug: DebugOption = False,
) -> None:
    """Move finished hours into Parquet, by date, verified, each once.

    Rows of tasks and attempts are removed once their copy is verified; completions stay until
    their retention ends. Safe to stop and to run again. An embedded node must be stopped.

    \b
    Examples:
      hourhand pipeline archive /archive/hourhand --older-than 30d --dry-run
    """
    with _job(_Asked(config, assignments, master, conf, dry_run), debug=debug) as job:
        from scheduler.pipeline.archive import ArchivePlan, run_archive

        older_than_ms = task_input.parse_duration_ms(older_than)
        summary = run_archive(job, ArchivePlan(folder, older_than_ms))
    _show(summary, output)


def _show(summary: dict[str, Any], output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        typer.echo(as_json(summary))
        return
    width = max(map(len, summary))
    for name, fact in summary.items():
        if isinstance(fact, list):
            typer.echo(f"{name}:")
            for row in fact:
                typer.echo("  " + "  ".join(_one_line(value) for value in row.values()))
        elif isinstance(fact, dict):
            typer.echo(f"{name}:")
            for part, value in fact.items():
                typer.echo(f"  {part}: {_one_line(value)}")
        else:
            typer.echo(f"{name:<{width}}  {_one_line(fact)}")


def _one_line(fact: object) -> str:
    """Return text that cannot pass for another line."""
    text = str(fact)
    return text if text.isprintable() else as_json(text)
