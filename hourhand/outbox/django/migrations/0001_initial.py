"""Makes the outbox's table, under the name that the setting ``outbox.table`` has."""

from typing import Any, ClassVar

from django.db import migrations

from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.outbox.table import dialect_of, migration_statements


def _create(_apps: Any, schema_editor: Any) -> None:
    dialect = dialect_of(schema_editor.connection.vendor)
    for statement in migration_statements(dialect, Settings().outbox.table, 0, 1):
        schema_editor.execute(statement, params=None)


def _drop(_apps: Any, schema_editor: Any) -> None:
    table = Settings().outbox.table
    for name in (table, f"{table}_version"):
        schema_editor.execute(f"DROP TABLE IF EXISTS {name}", params=None)


class CreateOutbox(migrations.Migration):
    """Version 1 of the table."""

    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar[list[Any]] = [migrations.RunPython(_create, _drop)]


Migration = CreateOutbox
"""The name that Django looks for."""
