"""``hourhand pipeline import``: an export into an empty installation, of whatever kind.

Everything arrives as it was exported, but for log offsets, which are renumbered as the new log
begins anew, and write times, which are the new installation's own.  A run that was stopped is
finished by the next one.
"""

from dataclasses import dataclass

import msgspec
from pyspark.sql import DataFrame, SparkSession

from actors.model.errors import SettingsInvalid
from actors.model.pauses import Pause
from scheduler.pipeline.export import Manifest, read_exported, read_manifest
from scheduler.pipeline.job import JobOptions, Summary, spark_job
from scheduler.pipeline.quiescence import log_name, store_name
from scheduler.pipeline.restore import COPIED, Contents, Restore, opened_target
from scheduler.pipeline.state_tables import LOG, OWNERS, claims_of


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """Where from."""

    folder: str


def run_import(job: JobOptions, plan: ImportPlan) -> Summary:
    """Import everything; raises InvalidInput, SettingsInvalid, InstallationBusy, FolderLocked."""
    folder = plan.folder.rstrip("/")
    settings = job.source.settings()
    with spark_job("import", job) as spark:
        manifest = read_manifest(spark, folder)
        if settings.log == "embedded" and settings.topic.partitions != manifest.partitions:
            raise SettingsInvalid(
                f"topic.partitions is {settings.topic.partitions}, but {folder} was exported from"
                f" {manifest.partitions} partitions: set topic.partitions to {manifest.partitions},"
                " and change the number afterwards with `hourhand pipeline repartition`"
            )
        tables = read_exported(spark, folder, manifest, job.say)
        summary: Summary = {
            "job": "import",
            "dryRun": job.dry_run,
            "made": manifest.made,
            "partitions": manifest.partitions,
        }
        if job.dry_run:
            return {**summary, "tables": manifest.tables}
        return {**summary, **_fill(spark, job, manifest, dict(tables))}


def _fill(
    spark: SparkSession, job: JobOptions, manifest: Manifest, tables: dict[str, DataFrame]
) -> Summary:
    count = manifest.partitions
    target = job.source.with_settings({"topic.partitions": str(count)})
    contents = Contents(
        identity=manifest.digest,
        tables={name: tables[name] for name in COPIED},
        log=tables[LOG],
        claims=claims_of(tables[OWNERS], count),
        ends={int(each): end for each, end in manifest.ends.items()},
        pauses=tuple(msgspec.convert(manifest.pauses, list[Pause])),
        confirm=_nothing_changes,
    )
    with opened_target(target, count) as store:
        filled = Restore(spark, target, count, job.say).run(store, contents)
    settings = target.settings()
    return {**filled, "into": {"log": log_name(settings), "store": store_name(settings)}}


def _nothing_changes() -> None:
    """An export stays as it is; it was compared with its manifest."""
