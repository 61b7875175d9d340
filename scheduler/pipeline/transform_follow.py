"""Records of the lifecycle topic as rows: pure functions from DataFrame to DataFrame.

Decides the columns of the table of events, and which of several tellings of one event is kept.
What cannot be read is kept as it is: nothing that stood in the topic is lost.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

_RECORD = (
    "event string, id string, time timestamp, partition int, scheduledTime timestamp,"
    " orderingId string, uniquenessKey string, version int, epoch long, offset long, attempt int,"
    " startedTime timestamp, nextAttemptTime timestamp, movedTo timestamp, reason string,"
    " errorClass string"
)
_COLUMNS = {
    "time": "time",
    "partition": "partition",
    "scheduled_time": "scheduledTime",
    "ordering_id": "orderingId",
    "uniqueness_key": "uniquenessKey",
    "epoch": "epoch",
    "log_offset": "offset",
    "attempt": "attempt",
    "started_time": "startedTime",
    "next_attempt_time": "nextAttemptTime",
    "moved_to": "movedTo",
    "reason": "reason",
    "error_class": "errorClass",
}
UNREAD = "unread"
"""The event of a record that is none; its text is in column ``raw``."""


def events_of(records: DataFrame) -> DataFrame:
    """Return a row for each record, with ``date``: of what happened, or else of the reading."""
    place = f.concat_ws("-", f.lit(UNREAD), "topic_partition", "topic_offset")
    told = records.withColumn("_", f.from_json("record", _RECORD))
    readable = f.col("_.id").isNotNull() & f.col("_.event").isNotNull()
    return told.select(
        f.when(readable, f.col("_.event")).otherwise(f.lit(UNREAD)).alias("event"),
        f.when(readable, f.col("_.id")).otherwise(place).alias("id"),
        *(f.col(f"_.{name}").alias(column) for column, name in _COLUMNS.items()),
        f.when(~readable, f.col("record")).alias("raw"),
        "topic_partition",
        "topic_offset",
        "read_time",
        f.to_date(f.coalesce(f.col("_.time"), f.col("read_time"))).alias("date"),
    )


def without_repeats(events: DataFrame, within: str) -> DataFrame:
    """Keep the first telling of each event, of those read within so long of each other.

    ``read_time`` never goes back, so no row can come too late to be kept.
    """
    return events.withWatermark("read_time", within).dropDuplicatesWithinWatermark(["id"])
