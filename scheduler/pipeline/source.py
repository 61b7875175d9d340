"""``format("hourhand")``: the tables of an installation as a Spark data source.

It decides what a query may be told; how rows are read and written is next door.
"""

from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter
from pyspark.sql.types import StructType

from actors.model.errors import SettingsInvalid
from scheduler.pipeline.columns import schema_of
from scheduler.pipeline.options import parse_options
from scheduler.pipeline.reading import HourhandReader
from scheduler.pipeline.writing import HourhandWriter, require_columns
from scheduler.ports.bulk import BulkTable

FORMAT = "hourhand"


class HourhandDataSource(DataSource):
    """Tables ``tasks``, ``statuses``, ``attempts`` and ``states``; ``tasks`` can be written."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._options = parse_options(options)

    @classmethod
    def name(cls) -> str:
        """Return what ``spark.read.format`` is given."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the schema of the table that option ``table`` names, or of its ``columns``."""
        return schema_of(self._options.table, self._options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader; a schema of the caller's own is refused."""
        if schema.names != self.schema().names:
            raise SettingsInvalid(
                f"table {self._options.table} has a schema of its own: leave out .schema(…) and"
                " name what you need in option columns"
            )
        return HourhandReader(self._options)

    def writer(
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001 - Spark's contract
    ) -> DataSourceWriter:
        """Return the writer of tasks; nothing is ever overwritten as a whole."""
        if self._options.table != BulkTable.TASKS.value:
            raise SettingsInvalid(
                f"table {self._options.table} is only read: what ran is written by the nodes;"
                " write to table tasks"
            )
        if overwrite:
            raise SettingsInvalid(
                'mode("overwrite") would delete every waiting task: write with mode("append"),'
                " which replaces tasks of the same key"
            )
        require_columns(schema)
        return HourhandWriter(self._options, schema.names)
