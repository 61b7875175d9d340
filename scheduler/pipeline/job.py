"""Parts that all jobs share: a Spark session, progress, and readable errors.

Decides how a failure inside a worker reaches the command line: as the error that was raised there,
not as Spark's account of it.
"""

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from hourhand.actors.model.values import errors
from hourhand.actors.model.values.errors import (
    HourhandError,
    InvalidInput,
    SparkFailed,
    SparkNotStarted,
)
from hourhand.scheduler import wiring
from hourhand.scheduler.pipeline.options import Options
from hourhand.scheduler.pipeline.session import open_session
from hourhand.scheduler.pipeline.source import FORMAT

Say = Callable[[str], None]
Summary = dict[str, Any]

EXAMPLES_MAX = 20
"""Rows of each kind in a summary, whose size never grows with the data."""
_PROGRESS_S = 2.0
_RAISED = re.compile(r"actors\.model\.errors\.(\w+): (.+)")
_IN_WORKER = re.compile(
    r"Traceback \(most recent call last\):\n.*?^\s*((?:\w+\.)*\w+(?:Error|Exception)\b: [^\n]+)",
    re.DOTALL | re.MULTILINE,
)
"""The line of a worker's trace that holds the error."""
_OTHER_PYTHON = "PYTHON_VERSION_MISMATCH"
_SPARK_CLASS = re.compile(r"^\[[A-Z_.]+\] ")


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options that every job has."""

    source: Options
    """The installation."""
    master: str | None = None
    """Spark's master; this machine by default."""
    dry_run: bool = False
    say: Say = print
    """Called with progress, a line at a time."""
    conf: dict[str, str] = field(default_factory=dict)
    """Spark's own settings."""


@contextmanager
def spark_job(name: str, job: JobOptions) -> Iterator[SparkSession]:
    """Open a session for a job and report its progress; the session is stopped at the end.

    A session that existed before is used and left open.
    """
    mine = SparkSession.getActiveSession() is None
    spark = open_session(name, job.master, {"spark.log.level": "OFF", **job.conf})
    ended = threading.Event()
    watcher = threading.Thread(target=_tell_progress, args=(spark, name, job.say, ended))
    watcher.start()
    try:
        yield spark
    except (PySparkException, Py4JError) as error:
        raise_readable(error)
    finally:
        ended.set()
        watcher.join()
        if mine:
            spark.stop()


def read_table(spark: SparkSession, job: JobOptions, table: str, *columns: str) -> DataFrame:
    """Return a table of the job's installation; with all columns if none is named."""
    options = job.source._replace(table=table, columns=columns or None).as_mapping()
    return spark.read.format(FORMAT).options(**options).load()


def only_row(aggregate: DataFrame) -> dict[str, Any]:
    """Return the row of an aggregate without groups, which has one."""
    row = aggregate.first()
    assert row is not None, "an aggregate without groups has one row"
    return dict(row.asDict())


def partition_count(job: JobOptions) -> int:
    """Return the installation's number of partitions: the store's, else the log's."""
    settings = job.source.settings()
    with closing(wiring.open_bulk(settings)) as bulk:
        stored = bulk.partition_count()
    if stored:
        return stored
    with closing(wiring.open_writer(settings)) as writer:
        return writer.partition_count()


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


def raise_readable(error: PySparkException | Py4JError) -> NoReturn:
    """Raise the worker's error, or Spark's own in one line."""
    text = str(error)
    raised = _RAISED.search(text)
    kind = getattr(errors, raised[1], None) if raised else None
    if raised and isinstance(kind, type) and issubclass(kind, HourhandError):
        raise kind(raised[2].strip()) from error
    reason = _reason_of(text) or type(error).__name__
    if _OTHER_PYTHON in text:
        raise SparkNotStarted(
            f"Spark's workers have another Python than this command: {reason} Unset"
            f" PYSPARK_PYTHON, or set it to {sys.executable} on every machine"
        ) from error
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    if (condition or "").startswith(("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")):
        raise InvalidInput(f"the input cannot be read: {reason}") from error
    raise SparkFailed(f"Spark could not run the job: {reason}") from error


def _reason_of(text: str) -> str:
    """Return the line with the reason: a worker's last one, else Spark's first."""
    in_worker = _IN_WORKER.search(text)
    if in_worker:
        return in_worker[1]
    lines = [line.removeprefix(": ") for line in text.splitlines()]
    if lines and lines[0].startswith("An error occurred while calling"):
        # The first line of the bridge to Java only names the call.
        del lines[0]
    return _SPARK_CLASS.sub("", lines[0] if lines else "")
