"""The Spark session of a job: local unless told otherwise, quiet, in UTC.

Decides the few settings of Spark that the pipeline depends on; everything else is the user's, by
spark-defaults.conf or ``--conf``.
"""

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from scheduler.pipeline.source import HourhandDataSource

_NEEDED = {
    # Times are instants; a session zone would shift what has none.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Errors of a worker are shown once, by the job; not as Python's, Java's and Spark's trace.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
}

_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Spark's 200 are for clusters; on one machine most of them would be empty.
    "spark.sql.shuffle.partitions": "16",
}


def open_session(
    name: str, master: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a session with the data source registered; an active one is used as it is.

    ``master`` is Spark's: ``local[2]``, ``spark://…``, ``yarn``, ``k8s://…``.
    """
    # Without it workers start whatever Python is first in the path, without our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"hourhand {name}").master(master or "local[*]")
    local = _LOCAL if (master or "local").startswith("local") else {}
    for key, value in {**_QUIET, **local, **(conf or {}), **_NEEDED}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return register(spark)


def register(spark: SparkSession) -> SparkSession:
    """Make ``format("hourhand")`` known to a session of the caller's own, and return it."""
    for key, value in _NEEDED.items():
        if spark.conf.get(key, None) != value:
            spark.conf.set(key, value)
    spark.dataSource.register(HourhandDataSource)
    return spark
