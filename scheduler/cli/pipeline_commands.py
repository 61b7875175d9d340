"""``hourhand pipeline NAME``: the jobs over everything that is stored, on Spark.

Decides the options of each job and the form of its summary. Spark is loaded only when a job runs.
Exit code 1 where an audit found something, 2 where rows were put aside.
"""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from hourhand.actors.model.values.errors import InvalidInput
from hourhand.scheduler import wiring
from hourhand.scheduler.cli import task_input
from hourhand.scheduler.cli.failing import EXIT_CALLER, reported_errors, say
from hourhand.scheduler.cli.rendering import OutputFormat, as_json
from hourhand.scheduler.cli.session import Commands, ResultOptions
from hourhand.scheduler.cli.text_output import print_text
from hourhand.scheduler.configuration.optional_dependencies import required_by

app = Commands(
    no_args_is_help=True,
    help="Jobs over everything that is stored, on Spark (hourhand[spark]).",
)

EXIT_FOUND = 1
DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", help="Do everything except writing, and show what would be written."),
]


@dataclass(frozen=True, kw_only=True)
class JobOptionsGiven(ResultOptions):
    """The options of every job, besides the settings: where it runs."""

    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Spark's master; this machine by default."),
    ] = None
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; repeatable."),
    ] = None


TableFormatOption = Annotated[
    str,
    typer.Option(
        "--format", metavar="FORMAT", help="parquet, or delta: the same files as Delta tables."
    ),
]


@contextmanager
def opened_job(common: JobOptionsGiven, *, dry_run: bool = False) -> Iterator[Any]:
    """Hand a job its options, and end the program with the exit code of its errors."""
    with reported_errors(debug=common.debug):
        with required_by("`hourhand pipeline`"):
            from hourhand.scheduler.pipeline.job import JobOptions
            from hourhand.scheduler.pipeline.options import parse_options

        named = dict(pair_of("--set", each) for each in common.overrides or ())
        if common.config is not None:
            named["config"] = str(common.config)
        yield JobOptions(
            source=parse_options(named),
            master=common.master,
            dry_run=dry_run,
            say=say,
            conf=dict(pair_of("--conf", each) for each in common.conf or ()),
        )


def pair_of(option: str, text: str) -> tuple[str, str]:
    """Return name and value of a repeatable option; raises InvalidInput."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidInput(f"{option} takes NAME=VALUE, such as {option} group.id=blue")
    return name.strip(), value


def show_summary(summary: dict[str, Any], output: OutputFormat) -> None:
    """Print the summary of a job."""
    if output is OutputFormat.JSON:
        typer.echo(as_json(summary))
        return
    width = max(map(len, summary))
    for name, fact in summary.items():
        if isinstance(fact, list):
            print_text(f"{name}:")
            for row in fact:
                print_text("  " + "  ".join(_one_line(value) for value in row.values()))
        elif isinstance(fact, dict):
            print_text(f"{name}:")
            for part, value in fact.items():
                print_text(f"  {part}: {_one_line(value)}")
        else:
            print_text(f"{name:<{width}}  {_one_line(fact)}")


def _one_line(fact: object) -> str:
    """Return text without line breaks."""
    text = str(fact)
    return text if text.isprintable() else as_json(text)


def _moment_ms(text: str | None, now_ms: int) -> int | None:
    return None if text is None else task_input.parse_moment_ms(text, now_ms)


@dataclass(frozen=True, kw_only=True)
class LoadOptions(JobOptionsGiven):
    """The options for reading a file, and the rate at which it is loaded."""

    file_format: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="FORMAT", help="parquet, csv or json; by the file's ending."
        ),
    ] = None
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=NAME", help="Column of the file that holds a field; repeatable."
        ),
    ] = None
    timezone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Time zone of times without one.")
    ] = None
    past: Annotated[
        str, typer.Option(metavar="run|reject", help="Treatment of tasks in the past.")
    ] = "reject"
    rejects: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Folder for rows that are not tasks.")
    ] = None
    rate: Annotated[
        float | None, typer.Option(min=0.1, metavar="ROWS", help="Rows a second at most.")
    ] = None
    writers: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, metavar="N", help="Number of Spark tasks that write."),
    ] = None
    stored: Annotated[
        bool,
        typer.Option("--stored", help="The data is the text of rows, as older archives have it."),
    ] = False


@app.command()
def load(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Parquet, CSV or JSON lines.")],
    *,
    dry_run: DryRunOption = False,
    given: LoadOptions,
) -> None:
    """Schedule the tasks of a file of any size.

    Rows that are not tasks are put aside; exit code 2 if there are any.

    Fields are scheduled_time, ordering_id, uniqueness_key, data, kind, priority, seal and expires.
    Without a column for the data, all other columns become the data. Safe to stop and to run
    again, beside nodes.

    \b
    Examples:
      hourhand pipeline load reminders.parquet --dry-run
      hourhand pipeline load old.csv --column ordering_id=customer --timezone Europe/Vienna
    """
    with opened_job(given, dry_run=dry_run) as job:
        from hourhand.scheduler.pipeline.load import LoadPlan, run_load

        if given.past not in {"run", "reject"}:
            raise InvalidInput(f"--past {given.past!r} is neither run nor reject")
        plan = LoadPlan(
            path=path,
            format=given.file_format,
            columns=dict(pair_of("--column", each) for each in given.column or ()),
            timezone=given.timezone,
            accept_past=given.past == "run",
            rejects=given.rejects,
            rows_per_second=given.rate,
            writers=given.writers,
            stored=given.stored,
        )
        summary = run_load(job, plan)
    show_summary(summary, given.output)
    if summary["invalid"] + summary["duplicates"]:
        raise typer.Exit(EXIT_CALLER)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder for the report.")],
    *,
    start: Annotated[str, typer.Option("--from", metavar="TIME", help="RFC 3339, -24h.")] = "-24h",
    end: Annotated[str, typer.Option("--to", metavar="TIME", help="RFC 3339, now.")] = "now",
    table_format: TableFormatOption = "parquet",
    common: JobOptionsGiven,
) -> None:
    """Report on a period and on the load ahead.

    As Parquet, and as a page with charts.

    \b
    Examples:
      hourhand pipeline report yesterday --from -48h --to -24h
    """
    with opened_job(common) as job:
        from hourhand.scheduler.pipeline.report import ReportPlan, run_report

        now_ms = wiring.open_clock().now_ms()
        first_ms, end_ms = (task_input.parse_moment_ms(each, now_ms) for each in (start, end))
        summary = run_report(job, ReportPlan(first_ms, end_ms, folder, table_format))
    show_summary(summary, common.output)


@app.command()
def audit(
    *,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Only tasks due at this time or later."),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Only tasks due before this time.")
    ] = None,
    tolerance: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Delay after which a task counts as overdue."),
    ] = "5m",
    expected: Annotated[
        str | None, typer.Option(metavar="PATH", help="Parquet of tasks that must be stored.")
    ] = None,
    findings: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Folder for all findings, as Parquet.")
    ] = None,
    common: JobOptionsGiven,
) -> None:
    """Check everything that is stored for contradictions.

    Exit code 1 if there are any.

    \b
    Examples:
      hourhand pipeline audit --tolerance 1m -o json
    """
    with opened_job(common) as job:
        from hourhand.scheduler.pipeline.audit import AuditPlan, run_audit

        now_ms = wiring.open_clock().now_ms()
        plan = AuditPlan(
            from_ms=_moment_ms(start, now_ms),
            to_ms=_moment_ms(end, now_ms),
            tolerance_ms=task_input.parse_duration_ms(tolerance),
            expected=expected,
            findings=findings,
        )
        summary = run_audit(job, plan)
    show_summary(summary, common.output)
    if summary["found"]:
        raise typer.Exit(EXIT_FOUND)


@app.command()
def archive(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Folder for archived hours.")],
    *,
    older_than: Annotated[
        str, typer.Option(metavar="DURATION", help="Only hours that ended this long ago.")
    ] = "7d",
    dry_run: DryRunOption = False,
    common: JobOptionsGiven,
) -> None:
    """Move finished hours into Parquet, by date.

    Rows of tasks and attempts are removed once their copy is verified; completions stay until
    their retention ends. Safe to stop and to run again. An embedded node must be stopped.

    \b
    Examples:
      hourhand pipeline archive /archive/hourhand --older-than 30d --dry-run
    """
    with opened_job(common, dry_run=dry_run) as job:
        from hourhand.scheduler.pipeline.archive import ArchivePlan, run_archive

        older_than_ms = task_input.parse_duration_ms(older_than)
        summary = run_archive(job, ArchivePlan(folder, older_than_ms))
    show_summary(summary, common.output)


@app.command()
def follow(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="The table of events.")],
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Read the events that are there, and stop.")
    ] = False,
    every: Annotated[
        str, typer.Option(metavar="DURATION", help="Time between two batches.")
    ] = "10s",
    repeats_within: Annotated[
        str, typer.Option(metavar="DURATION", help="Time for which repeated events are recognised.")
    ] = "1h",
    batch_rows: Annotated[
        int, typer.Option(min=1, metavar="ROWS", help="Events of one batch at most.")
    ] = 1_000_000,
    common: JobOptionsGiven,
) -> None:
    """Write what happens to tasks into a Parquet table, until stopped.

    Nodes and bulk loads write events to the topic that events.topic names. Safe to kill and to
    run again with the same folder: it continues where it was, and keeps each event once.

    \b
    Examples:
      hourhand pipeline follow /lake/hourhand-events --every 1m
      hourhand pipeline follow events --once -o json
    """
    with opened_job(common) as job:
        from hourhand.scheduler.pipeline.follow import FollowPlan, run_follow

        plan = FollowPlan(
            folder=folder,
            once=once,
            every_ms=task_input.parse_duration_ms(every),
            repeats_within_ms=task_input.parse_duration_ms(repeats_within),
            batch_rows=batch_rows,
        )
        summary = run_follow(job, plan)
    show_summary(summary, common.output)


@app.command()
def repartition(
    *,
    to: Annotated[int, typer.Option("--to", metavar="M", help="The new number of partitions.")],
    into: Annotated[
        list[str] | None,
        typer.Option(
            "--into",
            metavar="NAME=VALUE",
            help="A setting of the new installation, such as topic.name=blue; repeatable.",
        ),
    ] = None,
    into_config: Annotated[
        Path | None,
        typer.Option(
            "--into-config", metavar="FILE", help="Its settings file; by default the same."
        ),
    ] = None,
    dry_run: DryRunOption = False,
    common: JobOptionsGiven,
) -> None:
    """Move everything to another number of partitions.

    Into a new topic, and a new keyspace or folder. All nodes and all clients must be stopped. The
    old installation is only read. Safe to stop and to run again; no node can start on the new one
    before it is complete.

    \b
    Examples:
      hourhand pipeline repartition --to 48 --into topic.name=hourhand-48 \\
        --into cassandra.keyspace=hourhand_48 --dry-run
      hourhand pipeline repartition --to 4 --into embedded.folder=hourhand-data-4
    """
    with opened_job(common, dry_run=dry_run) as job:
        from hourhand.scheduler.pipeline.repartition import RepartitionPlan, run_repartition

        named = dict(pair_of("--into", each) for each in into or ())
        file = None if into_config is None else str(into_config.resolve())
        summary = run_repartition(job, RepartitionPlan(to, named, file))
    show_summary(summary, common.output)


@app.command("export")
def export_state(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Folder for the export.")],
    *,
    table_format: TableFormatOption = "parquet",
    dry_run: DryRunOption = False,
    common: JobOptionsGiven,
) -> None:
    """Export the whole state as Parquet.

    For a backup, or for another kind of installation. All nodes and all clients must be stopped.
    Records that no node has read yet are included.
    Safe to stop and to run again.

    \b
    Examples:
      hourhand pipeline export /backup/hourhand-2026-11-21
      hourhand pipeline export /lake/hourhand --format delta
    """
    with opened_job(common, dry_run=dry_run) as job:
        from hourhand.scheduler.pipeline.export import ExportPlan, run_export

        summary = run_export(job, ExportPlan(folder, format=table_format))
    show_summary(summary, common.output)


@app.command("import")
def import_state(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="A complete export.")],
    *,
    dry_run: DryRunOption = False,
    common: JobOptionsGiven,
) -> None:
    """Import an export into an empty installation.

    The topic must hold no records, keyspace or folder no rows, and the number of partitions must
    be that of the export. Safe to stop and to run again; no node can start before it is complete.

    \b
    Examples:
      hourhand pipeline import /backup/hourhand-2026-11-21 --dry-run
    """
    with opened_job(common, dry_run=dry_run) as job:
        from hourhand.scheduler.pipeline.restore import ImportPlan, run_import

        summary = run_import(job, ImportPlan(folder))
    show_summary(summary, common.output)
