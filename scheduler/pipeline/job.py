"""What all jobs share: a Spark session, progress, and errors that people can read.

Decides how a failure inside a worker reaches the command line: as the error that was raised
there, not as Spark's account of it.
"""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from actors.model import errors
from actors.model.errors import HourhandError, InvalidInput, SparkFailed
from scheduler import wiring
from scheduler.pipeline.options import Options
from scheduler.pipeline.session import open_session
from scheduler.pipeline.source import FORMAT

Say = Callable[[str], None]
Summary = dict[str, Any]

EXAMPLES_MAX = 20
"""Rows of each kind that a summary shows: what it holds never grows with the data."""
_PROGRESS_S = 2.0
_RAISED = re.compile(r"actors\.model\.errors\.(\w+): (.+)")
_SPARK_CLASS = re.compile(r"^\[[A-Z_.]+\] ")


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What every job is told."""

    source: Options
    """The installation."""
    master: str | None = None
    """Where Spark runs; this machine by default."""
    dry_run: bool = False
    say: Say = print
    """Told about progress, a line at a time."""
    conf: dict[str, str] = field(default_factory=dict)
    """Spark's own settings."""


@contextmanager
def spark_job(name: str, job: JobOptions) -> Iterator[SparkSession]:
    """Open a session for a job and tell how it gets on; the session is stopped at the end.

    A session that was there before is used and left as it is.
    """
    mine = SparkSession.getActiveSession() is None
    spark = open_session(name, job.master, {"spark.log.level": "OFF", **job.conf})
    ended = threading.Event()
    watcher = threading.Thread(target=_tell_progress, args=(spark, name, job.say, ended))
    watcher.start()
    try:
        yield spark
    except PySparkException as error:
        raise_readable(error)
    finally:
        ended.set()
        watcher.join()
        if mine:
            spark.stop()


def read_table(spark: SparkSession, job: JobOptions, table: str, *columns: str) -> DataFrame:
    """Return a table of the job's installation; all of its columns where none is named."""
    options = job.source._replace(table=table, columns=columns or None).as_mapping()
    return spark.read.format(FORMAT).options(**options).load()


def partition_count(job: JobOptions) -> int:
    """Return the installation's number of partitions: the store's, else as many as the log has."""
    settings = job.source.settings()
    bulk = wiring.open_bulk(settings)
    try:
        stored = bulk.partition_count()
    finally:
        bulk.close()
    if stored:
        return stored
    writer = wiring.open_writer(settings)
    try:
        return writer.partition_count()
    finally:
        writer.close()


def _tell_progress(spark: SparkSession, name: str, say: Say, ended: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    said = ""
    while not ended.wait(_PROGRESS_S):
        stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
        parts = [
            f"stage {stage.stageId}: {stage.numCompletedTasks} of {stage.numTasks} parts"
            for stage in stages
            if stage is not None
        ]
        line = f"{name}: {', '.join(parts)}"
        if parts and line != said:
            say(line)
            said = line


def raise_readable(error: PySparkException) -> NoReturn:
    """Raise what a worker raised, or Spark's own complaint in one line."""
    text = str(error)
    raised = _RAISED.search(text)
    kind = getattr(errors, raised[1], None) if raised else None
    if raised and isinstance(kind, type) and issubclass(kind, HourhandError):
        raise kind(raised[2].strip()) from error
    first = _SPARK_CLASS.sub("", text.splitlines()[0] if text else type(error).__name__)
    if (error.getCondition() or "").startswith(("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")):
        raise InvalidInput(f"the input cannot be read: {first}") from error
    raise SparkFailed(f"Spark could not run the job: {first}") from error
