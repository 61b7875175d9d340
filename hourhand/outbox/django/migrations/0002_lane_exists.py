"""Makes the outbox's table refuse lanes that do not exist."""

from typing import Any, ClassVar

from django.db import migrations

from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.outbox.table import Dialect, dialect_of, migration_statements


def _refuse(_apps: Any, schema_editor: Any) -> None:
    dialect = dialect_of(schema_editor.connection.vendor)
    for statement in migration_statements(dialect, Settings().outbox.table, 1, 2):
        schema_editor.execute(statement, params=None)


def _allow(_apps: Any, schema_editor: Any) -> None:
    table = Settings().outbox.table
    if dialect_of(schema_editor.connection.vendor) is Dialect.POSTGRESQL:
        undoing = [f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {table}_lane_exists"]
    else:
        undoing = [
            f"DROP TRIGGER IF EXISTS {table}_lane_exists_{event}" for event in ("INSERT", "UPDATE")
        ]
    for statement in (*undoing, f"DELETE FROM {table}_version WHERE version = 2"):
        schema_editor.execute(statement, params=None)


class RefuseUnknownLanes(migrations.Migration):
    """Version 2 of the table."""

    dependencies: ClassVar[list[tuple[str, str]]] = [("hourhand_outbox", "0001_initial")]
    operations: ClassVar[list[Any]] = [migrations.RunPython(_refuse, _allow)]


Migration = RefuseUnknownLanes
"""The name that Django looks for."""
