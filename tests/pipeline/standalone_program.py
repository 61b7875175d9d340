"""A driver program for a standalone cluster: one read, then one audit, told as a line of JSON.

Arguments: the master's URL and the embedded folder.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from hourhand.scheduler.pipeline.audit import AuditPlan, run_audit
from hourhand.scheduler.pipeline.job import JobOptions
from hourhand.scheduler.pipeline.options import Options
from hourhand.scheduler.pipeline.session import open_session
from hourhand.scheduler.pipeline.source import FORMAT

_SMALL = {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"}
_READERS = "python string, executor string, rows int"


def _readers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Say which Python read how many rows, and in which executor's folder."""
    rows = sum(batch.num_rows for batch in batches)
    columns = {"python": [sys.executable], "executor": [str(Path.cwd())], "rows": [rows]}
    yield pa.RecordBatch.from_pydict(columns).cast(
        pa.schema([("python", pa.string()), ("executor", pa.string()), ("rows", pa.int32())])
    )


def main(master: str, folder: str) -> None:
    """Read, audit, and print what was found."""
    source = Options(overrides=(("embedded.folder", folder), ("topic.partitions", "4")))
    spark = open_session("standalone", master, _SMALL)
    options = source._replace(buckets_per_task=5).as_mapping()
    tasks = spark.read.format(FORMAT).options(**options).load()
    readers = tasks.mapInArrow(_readers, _READERS).collect()
    audit = run_audit(JobOptions(source, master, say=lambda _line: None), AuditPlan())
    spark.stop()
    told = {"readers": [row.asDict() for row in readers], "audit": audit}
    sys.stdout.write(json.dumps(told, default=str) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
