"""The Spark session of a job: local unless told otherwise, quiet, in UTC.

Decides the few settings of Spark that the pipeline needs; everything else is the user's, by
spark-defaults.conf or ``--conf``. If Spark does not start it finds the reason.
"""

import os
import pwd
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from hourhand.actors.model.values.errors import SparkNotStarted
from hourhand.actors.model.values.public import public
from hourhand.scheduler.pipeline.source import HourhandDataSource

_NEEDED = {
    # Times are instants; a session zone would shift times without a zone.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The job shows a worker's error once, without the traces of Python, Java and Spark.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
}

_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Spark's 200 are for clusters; on one machine most of them would be empty.
    "spark.sql.shuffle.partitions": "16",
}


@public("hourhand.pipeline")
def open_session(
    name: str, master: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a session with the data source registered; an active one is used unchanged.

    ``master`` is Spark's: ``local[2]``, ``spark://…``, ``yarn``, ``k8s://…``. Raises
    SparkNotStarted if there is no session.
    """
    # Without it workers start the first Python in the path, without our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"hourhand {name}").master(master or "local[*]")
    local = _LOCAL if (master or "local").startswith("local") else {}
    for key, value in {**_QUIET, **local, **(conf or {}), **_NEEDED}.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:
        raise SparkNotStarted(f"Spark did not start: {_cause_of(error)}") from error
    spark.sparkContext.setLogLevel("ERROR")
    return register(spark)


@public("hourhand.pipeline")
def register(spark: SparkSession) -> SparkSession:
    """Make ``format("hourhand")`` known to a session of the caller's, and return it."""
    for key, value in _NEEDED.items():
        if spark.conf.get(key, None) != value:
            spark.conf.set(key, value)
    spark.dataSource.register(HourhandDataSource)
    return spark


def _cause_of(error: Exception) -> str:
    """Return the missing part and the remedy; Spark's own message has it in few cases."""
    spark_home = os.environ.get("SPARK_HOME")
    if spark_home is not None and not (Path(spark_home) / "bin" / "spark-submit").is_file():
        return f"SPARK_HOME is {spark_home!r}, which does not contain Spark: unset or correct it"
    java_home = os.environ.get("JAVA_HOME")
    java = "java" if java_home is None else str(Path(java_home) / "bin" / "java")
    if shutil.which(java) is None:
        told = "no java is in PATH" if java_home is None else f"JAVA_HOME is {java_home!r}"
        return f"there is no Java ({told}): install Java 17 or newer, or set JAVA_HOME to one"
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return (
            f"the user {os.getuid()} has no name, and Java needs one: add it to /etc/passwd, or run"
            " as a user that is there"
        )
    said = " ".join(str(error).split())
    return (
        f"{said} (it needs Java 17 or newer, and found {shutil.which(java)}: see what it printed)"
    )
