"""``hourhand pipeline archive``: moves finished hours into Parquet, by date, once each.

A run copies, verifies, records that, and only then removes the copied rows: each at the write time
it was read with, so a row that was written again stays. Completions stay until the engine's
retention ends. The next run finishes one that was stopped; nothing is copied twice.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from hourhand.actors.model.values.bucket import hour_of
from hourhand.actors.model.values.errors import StoreUnavailable
from hourhand.actors.model.values.instant import INSTANT_MIN_MS, format_instant, from_millis
from hourhand.scheduler import wiring
from hourhand.scheduler.pipeline.columns import columns_of
from hourhand.scheduler.pipeline.job import (
    JobOptions,
    Summary,
    only_row,
    partition_count,
    read_table,
    spark_job,
)
from hourhand.scheduler.pipeline.options import Options
from hourhand.scheduler.pipeline.reading import opened_bulk, read_claims
from hourhand.scheduler.pipeline.transform_archive import REACH, fingerprint, within_reach
from hourhand.scheduler.ports.bulk import COLUMNS, Bucket, BulkTable

REMOVED = (BulkTable.TASKS, BulkTable.ATTEMPTS)
"""The tables of which copied rows are removed."""
_RUN = "run string, state string, partition int, end timestamp"


@dataclass(frozen=True, slots=True)
class ArchivePlan:
    """The hours to archive, and the folder."""

    folder: str
    older_than_ms: int
    """Minimum time since an hour's end."""


def run_archive(job: JobOptions, plan: ArchivePlan) -> Summary:
    """Archive finished hours; raises FolderLocked if an embedded node is running."""
    release = wiring.keep_nodes_out(job.source.settings())
    try:
        with spark_job("archive", job) as spark:
            return _Archive(spark, job, plan).run()
    finally:
        release()


class _Archive:
    """One folder of archived hours."""

    def __init__(self, spark: SparkSession, job: JobOptions, plan: ArchivePlan) -> None:
        self._spark = spark
        self._job = job
        self._plan = plan
        self._folder = plan.folder.rstrip("/")

    def run(self) -> Summary:
        """Finish an earlier run, then archive new hours."""
        runs = self._runs()
        removed = {table.value: 0 for table in REMOVED}
        for name in sorted(runs.get("copied", {}).keys() - runs.get("removed", {}).keys()):
            self._remove(name, runs["copied"][name], removed)
        ends = [end for run in runs.get("copied", {}).values() for end in run.items()]
        done: dict[int, int] = {}
        for partition, end_ms in ends:
            done[partition] = max(done.get(partition, end_ms), end_ms)
        reach = self._reach(done)
        summary: Summary = {"job": "archive", "dryRun": self._job.dry_run, "removed": removed}
        if not reach:
            return {**summary, "copied": {}, "until": None}
        now_ms = wiring.open_clock().now_ms()
        name = format_instant(now_ms).replace(":", "")
        summary["copied"] = self._copy(name, reach)
        summary["until"] = format_instant(max(end for _, end in reach.values()))
        if not self._job.dry_run:
            copied = {partition: end for partition, (_, end) in reach.items()}
            self._note(name, "copied", copied)
            self._remove(name, copied, removed)
        return summary

    def _reach(self, done: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """Return the hours to archive, of each partition that has any."""
        old_ms = wiring.open_clock().now_ms() - self._plan.older_than_ms
        floors = _finished_until(self._job)
        reach = {}
        for partition, floor_ms in floors.items():
            first_ms = done.get(partition, hour_of(INSTANT_MIN_MS))
            end_ms = hour_of(min(floor_ms, old_ms))
            if first_ms < end_ms:
                reach[partition] = (first_ms, end_ms)
        return reach

    def _copy(self, name: str, reach: Mapping[int, tuple[int, int]]) -> dict[str, Any]:
        rows = [
            (partition, from_millis(first_ms), from_millis(end_ms))
            for partition, (first_ms, end_ms) in reach.items()
        ]
        frame = self._spark.createDataFrame(rows, REACH)
        last = from_millis(max(end_ms for _, end_ms in reach.values()))
        copied = {}
        for table in BulkTable:
            stored = read_table(self._spark, self._job, table.value)
            # One bound for all partitions, which opens no later bucket; the join applies each one's
            # own.
            wanted = within_reach(stored.where(f.col("hour") < last), frame)
            copied[table.value] = self._copy_table(name, table, wanted)
        return copied

    def _copy_table(self, name: str, table: BulkTable, rows: DataFrame) -> dict[str, Any]:
        """Write a table and compare the written rows with the read ones."""
        columns = [column.name for column in columns_of(table.value)]
        rows = rows.persist(StorageLevel.DISK_ONLY)
        read = only_row(fingerprint(rows, columns))
        if not self._job.dry_run and read["rows"]:
            path = self._path(name, table)
            sorted_rows = rows.repartition("date", "partition").sortWithinPartitions(*columns[:5])
            sorted_rows.write.mode("overwrite").partitionBy("date").parquet(path)
            written = only_row(fingerprint(self._spark.read.parquet(path), columns))
            if written != read:
                raise StoreUnavailable(
                    f"{path} holds {written}, but {read} was read: nothing was removed; look at"
                    " the disk, delete the folder, and run it again"
                )
        rows.unpersist()
        return read

    def _remove(self, name: str, copied: Mapping[int, int], removed: dict[str, int]) -> None:
        if self._job.dry_run:
            return
        for table in REMOVED:
            rows = self._read(self._path(name, table))
            if rows is not None:
                order = ["partition", "hour", *(c.name for c in columns_of(table.value)[2:5])]
                doomed = rows.drop("date").repartition("partition", "hour")
                counts = doomed.sortWithinPartitions(*order).mapInArrow(
                    partial(_remove_rows, self._job.source, table), "rows long"
                )
                removed[table.value] += only_row(counts.agg(f.sum("rows").alias("n")))["n"] or 0
        self._note(name, "removed", copied)

    def _path(self, name: str, table: BulkTable) -> str:
        return f"{self._folder}/{table.value}/run={name}"

    def _runs(self) -> dict[str, dict[str, dict[int, int]]]:
        """Return by state and run the time up to which each partition was archived."""
        notes = self._read(f"{self._folder}/runs", schema=_RUN)
        found: dict[str, dict[str, dict[int, int]]] = {}
        if notes is not None:
            for note in notes.select("*", f.unix_millis("end").alias("end_ms")).collect():
                of_run = found.setdefault(note.state, {}).setdefault(note.run, {})
                of_run[note.partition] = note.end_ms
        return found

    def _note(self, name: str, state: str, ends: Mapping[int, int]) -> None:
        rows = [(name, state, partition, from_millis(end)) for partition, end in ends.items()]
        notes = self._spark.createDataFrame(rows, _RUN).coalesce(1)
        notes.write.mode("overwrite").parquet(f"{self._folder}/runs/note={name}-{state}")

    def _read(self, path: str, schema: str | None = None) -> DataFrame | None:
        reader = self._spark.read if schema is None else self._spark.read.schema(schema)
        try:
            return reader.parquet(path)
        except AnalysisException as error:
            if (error.getCondition() or "").startswith("PATH_NOT_FOUND"):
                return None
            raise


def _finished_until(job: JobOptions) -> dict[int, int]:
    """Return, for each partition with an owner, the time before which all keys are closed."""
    claims = read_claims(job.source.settings(), range(partition_count(job)))
    return {at: claim.watermark.first_open_ms for at, claim in claims.items() if claim is not None}


def _remove_rows(
    source: Options, table: BulkTable, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Remove rows, sorted by bucket, from the store, and yield their number."""
    key = 4 if table is BulkTable.ATTEMPTS else 3
    names = [column.name for column in columns_of(table.value)[2 : 2 + key]]
    assert COLUMNS[table][-1] == "write_time", "what a row is removed at comes last"
    for batch in batches:
        columns = {name: batch.column(name) for name in ("partition", "hour", *names)}
        for name in ("hour", "scheduled_time"):
            columns[name] = columns[name].cast(pa.int64())
        values = [columns[name].to_pylist() for name in columns]
        times = batch.column("write_time").to_pylist()
        rows = zip(*values, times, strict=True)
        for place, of_bucket in groupby(rows, key=lambda row: row[:2]):
            bucket = Bucket(place[0], place[1] // 1000)
            doomed = [(row[2] // 1000, *row[3:]) for row in of_bucket]
            opened_bulk(source).delete_rows(table, bucket, doomed)
        yield pa.RecordBatch.from_pydict({"rows": pa.array([batch.num_rows], pa.int64())})
