"""Three nodes of Cassandra: one may die without anybody noticing, two may not."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from hourhand.actors.model.values.errors import StoreUnavailable
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.cassandra.migrate import migrate, schema_scripts
from hourhand.scheduler.adapters.cassandra.stores import open_stores
from hourhand.scheduler.configuration.settings import CassandraSettings, Settings
from tests.builders import NOW_MS, a_stored_task
from tests.conformance.store_values import done
from tests.integration.test_cassandra_migration import PROGRAM, REPOSITORY
from tests.servers.cassandra import DATACENTER, CassandraServer
from tests.servers.running import running

pytestmark = [pytest.mark.integration, pytest.mark.cluster]

REPLICATION = {DATACENTER: 3}


def migrate_through(server: CassandraServer, address: str) -> "subprocess.Popen[str]":
    """Start a migration that knows only one of the nodes."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=REPOSITORY,
        env=os.environ
        | {
            "HOURHAND_CASSANDRA__CONTACT_POINTS": json.dumps([address]),
            "HOURHAND_CASSANDRA__PORT": str(server.port),
            "HOURHAND_CASSANDRA__REPLICATION": json.dumps(REPLICATION),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CassandraServer]:
    """Three nodes, started one after another."""
    yield from running(lambda: CassandraServer(tmp_path_factory.mktemp("cluster"), nodes=3))


def claim_within(stores: Stores, *, tries: int) -> None:
    """Claim partition 1; refused while the others have not noticed yet that a node is dead."""
    errors = []
    for _ in range(tries):
        error = stores.ownership.claim(1, NOW_MS).exception(timeout=60.0)
        if error is None:
            return
        assert isinstance(error, StoreUnavailable)
        errors.append(error)
    pytest.fail(f"no claim in {tries} tries: {errors}")


def test_migrated_from_three_sides_at_once(cluster: CassandraServer) -> None:
    """Each process knows another node, and yet every file is applied exactly once."""
    running = [migrate_through(cluster, address) for address in cluster.addresses]
    ended = [(*each.communicate(timeout=100), each.returncode) for each in running]
    assert [code for *_, code in ended] == [0, 0, 0], [errors for _, errors, _ in ended]
    applied = [name for output, *_ in ended for name in json.loads(output.splitlines()[-1])]
    assert sorted(applied) == [script.name for script in schema_scripts()]


def test_what_was_acknowledged_outlives_the_death_of_nodes(cluster: CassandraServer) -> None:
    """One node dies unnoticed; without the second all is refused until both are back."""
    settings = Settings(
        cassandra=CassandraSettings(
            contact_points=tuple(cluster.addresses),
            port=cluster.port,
            replication=REPLICATION,
            request_timeout_ms=5_000,
        )
    )
    migrate(settings)
    stores = open_stores(settings)
    tasks = [a_stored_task(due_in_ms=number) for number in range(60)]
    try:
        for number, task in enumerate(tasks[:40]):
            if number == 20:
                cluster.nodes[1].kill()
            done(stores.schedule.insert_tasks(1, [task], 1))
        claim_within(stores, tries=6)
        cluster.nodes[2].kill()
        with pytest.raises(StoreUnavailable):
            done(stores.schedule.insert_tasks(1, [tasks[40]], 1))
        with pytest.raises(StoreUnavailable):
            done(stores.ownership.claim(1, NOW_MS))
        cluster.start()
        done(stores.schedule.insert_tasks(1, tasks[40:], 1))
        found = done(stores.schedule.find_tasks(1, [task.key for task in tasks]))
        assert found == {task.key: task for task in tasks}
        assert done(stores.ownership.claim(1, NOW_MS)).epoch > 1
    finally:
        stores.close()
