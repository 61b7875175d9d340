"""Tables of a job as Delta tables: a Delta log beside the Parquet files that Spark wrote.

Decides how a folder of Parquet becomes a table of Delta Lake. No file is rewritten, so readers of
Parquet read it as before. deltalake writes the log, without jars and for any version of Spark; it
is loaded only if Delta is asked for.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidInput, StoreUnavailable
from hourhand.scheduler.configuration.optional_dependencies import required_by

PARQUET, DELTA = "parquet", "delta"
_FORMATS = (PARQUET, DELTA)
_TIMES = "spark.sql.parquet.outputTimestampType"


def check_format(name: str) -> None:
    """Raise InvalidInput for an unknown format, SettingsInvalid if its package is missing."""
    if name not in _FORMATS:
        raise InvalidInput(f"--format {shown(name)} is neither of {', '.join(_FORMATS)}")
    if name == DELTA:
        with required_by("--format delta"):
            import deltalake  # noqa: F401 - asked for before anything is written


@contextmanager
def written_as_instants(spark: SparkSession) -> Iterator[None]:
    """Write times as instants in microseconds.

    Spark's own form, INT96, names no zone, and pandas and pyarrow read years after 2262 wrongly.
    """
    before = spark.conf.get(_TIMES)
    spark.conf.set(_TIMES, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        if before is not None:
            spark.conf.set(_TIMES, before)


def finish_table(name: str, folder: str, rows: int) -> None:
    """Give a folder of Parquet files with ``rows`` rows the additions of the format.

    Raises StoreUnavailable if the log cannot be written, or counts other rows.
    """
    if name != DELTA:
        return
    from deltalake import DeltaTable, convert_to_deltalake
    from deltalake.exceptions import DeltaError

    try:
        convert_to_deltalake(folder)
        found = DeltaTable(folder).count()
    except (DeltaError, OSError) as error:
        raise StoreUnavailable(
            f"{folder} holds Parquet, but its Delta log could not be written:"
            f" {shown(' '.join(str(error).split()))}; name a folder that deltalake can reach, or"
            " leave out --format"
        ) from error
    if found != rows:
        raise StoreUnavailable(
            f"{folder} holds {found} rows by its Delta log, but {rows} were written: look at the"
            " disk, then run it again"
        )
