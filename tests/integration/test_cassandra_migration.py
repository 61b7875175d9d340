"""``hourhand migrate`` on a real Cassandra: from nothing, again, from three processes, locked."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cassandra.cluster import Cluster

from hourhand.actors.model.values.errors import SchemaMissing, SettingsInvalid, StoreUnavailable
from hourhand.scheduler.adapters.cassandra.migrate import (
    LOCK,
    migrate,
    schema_scripts,
    statements_of,
)
from hourhand.scheduler.adapters.cassandra.stores import open_stores
from hourhand.scheduler.configuration.settings import CassandraSettings, Settings
from tests.servers.cassandra import DATACENTER, CassandraServer

pytestmark = pytest.mark.integration

ALL = [script.name for script in schema_scripts()]
REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = (
    "from hourhand.scheduler.configuration.settings import Settings\n"
    "from hourhand.scheduler.adapters.cassandra.migrate import migrate\n"
    "import json; print(json.dumps(migrate(Settings())))"
)


def settings_of(server: CassandraServer, keyspace: str, **more: Any) -> Settings:
    """Return settings of a keyspace of one test."""
    return Settings(
        store="cassandra",
        cassandra=CassandraSettings(
            contact_points=tuple(server.addresses), port=server.port, keyspace=keyspace, **more
        ),
    )


@pytest.fixture
def cql(cassandra_server: CassandraServer) -> Iterator[Any]:
    """A session of the driver, as an operator's own tool would have it."""
    cluster = Cluster(cassandra_server.addresses, port=cassandra_server.port)
    yield cluster.connect()
    cluster.shutdown()


def test_everything_is_applied_once(cassandra_server: CassandraServer) -> None:
    """The first run applies all files, the second none, and the stores open."""
    settings = settings_of(cassandra_server, "migrate_twice")
    with pytest.raises(SchemaMissing, match=r"no keyspace 'migrate_twice'.*hourhand migrate"):
        open_stores(settings)
    assert migrate(settings) == ALL
    assert migrate(settings) == []
    open_stores(settings).close()


def test_processes_at_once_apply_each_file_once(cassandra_server: CassandraServer) -> None:
    """All succeed, and between them they applied every file exactly once."""
    environment = os.environ | {
        "HOURHAND_CASSANDRA__CONTACT_POINTS": json.dumps(cassandra_server.addresses),
        "HOURHAND_CASSANDRA__PORT": str(cassandra_server.port),
        "HOURHAND_CASSANDRA__KEYSPACE": "migrate_together",
    }
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=REPOSITORY,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    ended = [(*process.communicate(timeout=120), process.returncode) for process in running]
    assert [code for *_, code in ended] == [0, 0, 0], [errors for _, errors, _ in ended]
    applied = [name for output, *_ in ended for name in json.loads(output.splitlines()[-1])]
    assert sorted(applied) == ALL
    open_stores(settings_of(cassandra_server, "migrate_together")).close()


def test_an_older_schema_is_refused_and_brought_up_to_date(
    cassandra_server: CassandraServer, cql: Any
) -> None:
    """The error names the file that is missing; migrating applies that one alone."""
    settings = settings_of(cassandra_server, "migrate_older")
    migrate(settings)
    cql.execute("DROP TABLE migrate_older.definition")
    cql.execute("DELETE FROM migrate_older.schedule_meta WHERE name = 'migration:007' IF EXISTS")
    with pytest.raises(SchemaMissing, match=r"lacks 007_definition\.cql.*hourhand migrate"):
        open_stores(settings)
    assert migrate(settings) == ["007_definition.cql"]
    open_stores(settings).close()


def test_a_table_or_keyspace_that_is_not_ours_is_told_apart(
    cassandra_server: CassandraServer, cql: Any
) -> None:
    """A keyspace without our tables, and one that lost a table although it says it has it."""
    cql.execute(
        "CREATE KEYSPACE migrate_foreign WITH replication ="
        " {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}"
    )
    settings = settings_of(cassandra_server, "migrate_foreign")
    with pytest.raises(SchemaMissing, match=r"no schema of Hourhand.*hourhand migrate"):
        open_stores(settings)
    assert migrate(settings) == ALL
    cql.execute("DROP TABLE migrate_foreign.task_status")
    with pytest.raises(SchemaMissing, match="task_status"):
        open_stores(settings)


def test_the_lock_of_a_migration_that_died_expires(
    cassandra_server: CassandraServer, cql: Any
) -> None:
    """The next one waits for it, and then works."""
    settings = settings_of(cassandra_server, "migrate_locked")
    migrate(settings)
    cql.execute("DELETE FROM migrate_locked.schedule_meta WHERE name = 'migration:005' IF EXISTS")
    cql.execute(
        "INSERT INTO migrate_locked.schedule_meta (name, value) VALUES (%s, 'dead')"
        " IF NOT EXISTS USING TTL 3",
        (LOCK,),
    )
    assert migrate(settings) == ["005_partition_watermark.cql"]
    left = cql.execute("SELECT value FROM migrate_locked.schedule_meta WHERE name = %s", (LOCK,))
    assert left.one() is None


def test_the_keyspace_is_replicated_as_the_settings_say(
    cassandra_server: CassandraServer, cql: Any
) -> None:
    """By datacenter; one that does not exist is refused before anything is created."""
    settings = settings_of(cassandra_server, "migrate_far", replication={"mars": 3})
    with pytest.raises(SettingsInvalid, match=f"'mars'.*'{DATACENTER}'"):
        migrate(settings)
    migrate(settings_of(cassandra_server, "migrate_far", replication={DATACENTER: 1}))
    row = cql.execute(
        "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = 'migrate_far'"
    ).one()
    assert dict(row.replication)["class"].endswith("NetworkTopologyStrategy")
    assert dict(row.replication)[DATACENTER] == "1"


def test_migrating_without_a_server_names_the_contact_points() -> None:
    """The operator reads what was tried."""
    settings = Settings(cassandra=CassandraSettings(port=1, connect_timeout_ms=2_000))
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1"):
        migrate(settings)


def test_statements_are_cut_at_semicolons_outside_of_comments() -> None:
    """Comment lines vanish, whatever they hold."""
    text = "-- one; two\nCREATE a (\n  b; \n\n  -- c;\nCREATE d\n;\n"
    assert statements_of(text) == ("CREATE a (\n  b", "CREATE d")
