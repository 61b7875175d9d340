"""Chooses the rows that are finished and old enough for the archive, and compares copies.

Pure functions; only the watermark decides whether an hour is finished.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

REACH = "partition int, first timestamp, end timestamp"
"""For each partition the hours [first, end) that a run archives."""


def within_reach(rows: DataFrame, reach: DataFrame) -> DataFrame:
    """Return the rows of hours to archive, with the date by which files are sorted."""
    inside = (f.col("hour") >= f.col("first")) & (f.col("hour") < f.col("end"))
    return (
        rows.join(f.broadcast(reach), "partition")
        .where(inside)
        .drop("first", "end")
        .withColumn("date", f.to_date("hour"))
    )


def fingerprint(rows: DataFrame, columns: list[str]) -> DataFrame:
    """Return one row: the number of rows, and a sum over all values that does not depend on
    order.
    """
    return rows.agg(*fingerprint_columns(columns))


def fingerprint_columns(columns: list[str]) -> list[Column]:
    """Return the aggregates that make up a fingerprint."""
    # Two hashes with different seeds: with one alone two errors could cancel out more easily.
    sums = [
        f.coalesce(f.sum(f.xxhash64(f.lit(seed), *columns).cast("decimal(38,0)")), f.lit(0))
        for seed in (1, 2)
    ]
    return [
        f.count("*").alias("rows"),
        f.concat_ws(":", *(each.cast("string") for each in sums)).alias("checksum"),
    ]
