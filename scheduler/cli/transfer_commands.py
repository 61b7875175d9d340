"""``hourhand pipeline repartition``, ``export`` and ``import``: everything, somewhere else.

Decides how these jobs are typed, and nothing of what they do.
"""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
from pathlib import Path
from typing import Annotated

import typer

from scheduler.cli.pipeline_commands import app
from scheduler.cli.rendering import OutputFormat
from scheduler.cli.session import OutputOption
from scheduler.cli.spark_jobs import (
    DryRunOption,
    JobOptionsGiven,
    opened_job,
    pair_of,
    show_summary,
)

pipeline_app = app
"""The jobs of ``pipeline_commands`` and of this module."""


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
        typer.Option("--into-config", help="Its settings file; by default the same one."),
    ] = None,
    dry_run: DryRunOption = False,
    common: JobOptionsGiven,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Move everything to another number of partitions: a new topic, a new keyspace or folder.

    All nodes and whoever schedules must be stopped. The old installation is only read. Safe to
    stop and to run again; no node can start on the new one before it is complete.

    \b
    Examples:
      hourhand pipeline repartition --to 48 --into topic.name=hourhand-48 \\
        --into cassandra.keyspace=hourhand_48 --dry-run
      hourhand pipeline repartition --to 4 --into embedded.folder=hourhand-data-4
    """
    with opened_job(common, dry_run=dry_run) as job:
        from scheduler.pipeline.repartition import RepartitionPlan, run_repartition

        named = dict(pair_of("--into", each) for each in into or ())
        file = None if into_config is None else str(into_config.resolve())
        summary = run_repartition(job, RepartitionPlan(to, named, file))
    show_summary(summary, output)


@app.command("export")
def export_state(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Where the export goes.")],
    *,
    dry_run: DryRunOption = False,
    common: JobOptionsGiven,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Write the whole state into Parquet, for backup or for another kind of installation.

    All nodes and whoever schedules must be stopped. Records that no node has read are among it.
    Safe to stop and to run again.

    \b
    Examples:
      hourhand pipeline export /backup/hourhand-2026-11-21
    """
    with opened_job(common, dry_run=dry_run) as job:
        from scheduler.pipeline.export import ExportPlan, run_export

        summary = run_export(job, ExportPlan(folder))
    show_summary(summary, output)


@app.command("import")
def import_state(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="A complete export.")],
    *,
    dry_run: DryRunOption = False,
    common: JobOptionsGiven,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Fill an empty installation with an export, whatever kind that was made from.

    The topic must hold no record, keyspace or folder no row, and the number of partitions must be
    that of the export. Safe to stop and to run again; no node can start before it is complete.

    \b
    Examples:
      hourhand pipeline import /backup/hourhand-2026-11-21 --dry-run
    """
    with opened_job(common, dry_run=dry_run) as job:
        from scheduler.pipeline.importing import ImportPlan, run_import

        summary = run_import(job, ImportPlan(folder))
    show_summary(summary, output)
