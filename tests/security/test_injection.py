"""No value of a user's gets into the text of a statement, in either store.

Names of tables and columns are written into statements, as they cannot be bound, which is why
the linter's rule for it is off there; so what is written in is listed here, part by part.
"""

import ast
import re
from pathlib import Path

import pytest

from hourhand import Settings
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.actors.ports.store import Stores
from hourhand.scheduler import wiring
from hourhand.scheduler.configuration.overrides import load_settings
from tests.builders import NOW_MS, a_stored_task
from tests.conformance.store_values import before, done
from tests.tidy.source import report, sources

HOSTILE = (
    "'; DROP TABLE task_schedule; --",
    '"; DROP TABLE task_schedule; --',
    "x'); DELETE FROM task_status; --",
    "' OR '1'='1",
    "{keyspace}",
    "%s",
    "?",
    "\x00",
    "/*",
    "ünïcödé'\\",
)
HOSTILE_KEYSPACES = (
    *HOSTILE,
    "",
    "a b",
    "a;b",
    "a.b",
    "hourhand\n",
    "hourhand; DROP KEYSPACE hourhand",
    "Hourhand",
    "1a",
    "a" * 49,
    "\uff41",
)

_STATEMENT = re.compile(
    r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|VALUES|WHERE|PRAGMA|DROP|ALTER)\b"
)
_CONSTANT = re.compile(r"_?[A-Z][A-Z_]+(\.\w+)?")
_OUR_OWN = {
    # Table and column names of the schema, handed from one of our functions to the next.
    "table",
    "columns",
    "select",
    "selected",
    "bounds",
    "assigned",
    "doomed",
    "marks",
    "changes",
    "self.name",
    "', '.join(columns)",
    "', '.join(self.key)",
    "file.schema.application_id",
    "version",
    # The one name a user chooses: Settings accept letters, digits and underscores alone.
    "keyspace",
    "self._settings.keyspace",
    # What the bulk adapters look up by table, which is one of three.
    "name",
    "where",
    "order",
    "_NAMES[table]",
    "_selected_in_rows(table)",
    "_TABLES[table].name",
    "query",
    "form.name",
    "form.selected",
    "self._name",
    "', '.join(selected)",
    # The embedded store's tables, each a constant of one module.
    "table.name",
    "table.selected",
    "table.unless_later",
    "self.unless_later",
    # Its two kinds of tombstones, and the numbers of columns without names.
    "tombstone_kind",
    "partition_column",
    "time_column",
    "version_column",
    # Of a page's query, which is a constant of one module as well.
    "source",
    "size_sum",
    "text_columns",
    # Datacenters' names, in quotes and with quotes doubled, each known to the cluster.
    "replicas",
}
"""Everything that statements are put together from, besides constants."""


@pytest.mark.parametrize("name", HOSTILE_KEYSPACES)
def test_a_hostile_keyspace_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From code, from the command line and from the environment."""
    with pytest.raises(SettingsInvalid, match="keyspace"):
        Settings(cassandra={"keyspace": name})
    with pytest.raises(SettingsInvalid, match="keyspace"):
        load_settings(None, [f"cassandra.keyspace={name}"])
    if "\x00" not in name:
        monkeypatch.setenv("HOURHAND_CASSANDRA__KEYSPACE", name)
        with pytest.raises(SettingsInvalid, match="keyspace"):
            Settings()


def test_statements_are_put_together_from_our_own_names() -> None:
    """A new part is a decision: add it to the list above with why no user can choose it."""
    complaints = []
    for source in sources("scheduler/adapters"):
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.JoinedStr):
                continue
            text = "".join(
                str(part.value) for part in node.values if isinstance(part, ast.Constant)
            )
            parts = {
                ast.unparse(part.value)
                for part in node.values
                if isinstance(part, ast.FormattedValue)
            }
            if _STATEMENT.search(text):
                complaints += [
                    f"{source.name}:{node.lineno} writes {part} into {text[:60]!r}"
                    for part in parts - _OUR_OWN
                    if not _CONSTANT.fullmatch(part)
                ]
    report(complaints)


def assert_held(stores: Stores) -> None:
    """Rows whose every id is hostile are stored, found, listed and deleted as what they are."""
    tasks = [
        a_stored_task(ordering_id=ordering_id, uniqueness_key=uniqueness_key)
        for ordering_id in HOSTILE
        for uniqueness_key in HOSTILE
    ]
    bystander = a_stored_task(ordering_id="bystander")
    done(stores.schedule.insert_tasks(1, [*tasks, bystander], 1))

    found = done(stores.schedule.find_tasks(1, [task.key for task in tasks]))
    assert found == {task.key: task for task in tasks}
    loaded = done(stores.schedule.load_tasks(1, before(NOW_MS), NOW_MS + HOUR_MS, 1_000))
    assert len(loaded.tasks) == len(tasks) + 1


def test_the_embedded_store_holds_hostile_ids(tmp_path: Path) -> None:
    """As ids and nothing else."""
    stores = wiring.open_stores(Settings(embedded={"folder": tmp_path}))
    try:
        assert_held(stores)
    finally:
        stores.close()
