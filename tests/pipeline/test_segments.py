"""Spark over a Cassandra that holds completions as rows and as segments."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.cassandra.connection import open_connection
from hourhand.scheduler.adapters.cassandra.session import CassandraSession
from hourhand.scheduler.adapters.cassandra.status import CassandraStatusStore
from hourhand.scheduler.configuration.settings import CassandraSettings, Settings
from tests.conformance.store_values import HOUR_START_MS, write_time
from tests.servers.cassandra import CassandraServer

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PARTITIONS = 2
HOURS = 3
KEYS = [
    TaskKey(HOUR_START_MS + hour * HOUR_MS + number, f"id-{number}", f"key-{hour}")
    for hour in range(HOURS)
    for number in range(100)
]
"""The first hour has rows alone, the second segments beneath rows, the third segments alone."""


@pytest.fixture(scope="module")
def settings(cassandra_server: CassandraServer) -> Iterator[Settings]:
    """A keyspace with every key as a task, and their completions by two versions of writers."""
    cassandra = CassandraSettings(
        contact_points=tuple(cassandra_server.addresses),
        port=cassandra_server.port,
        keyspace=f"spark_{uuid.uuid4().hex[:8]}",
    )
    chosen = Settings(store="cassandra", cassandra=cassandra, topic={"partitions": PARTITIONS})
    wiring.migrate(chosen)
    stores = wiring.open_stores(chosen)
    session = CassandraSession(open_connection(cassandra), cassandra)
    in_segments = CassandraStatusStore(session, lambda: True)
    stores.ownership.agree_partition_count(PARTITIONS).result(30)
    done = [Completion(key, CompletionResult.SUCCESS, 1, 1, 2, 3) for key in KEYS]
    stores.schedule.insert_tasks(
        1, [StoredTask(key, b"{}", 1) for key in KEYS], write_time(1)
    ).result(30)
    stores.status.insert_completions(1, done[:100], write_time(1, 2)).result(30)
    in_segments.insert_completions(1, done[100:], write_time(1, 3)).result(30)
    again = [Completion(key, CompletionResult.REOPENED, 5) for key in KEYS[100:110]]
    stores.status.insert_completions(1, again, write_time(1, 4)).result(30)
    yield chosen
    session.close()
    stores.close()


@pytest.fixture
def options(settings: Settings) -> dict[str, Any]:
    """Options of the data source."""
    return {
        "store": "cassandra",
        "cassandra.contact_points": ",".join(settings.cassandra.contact_points),
        "cassandra.port": str(settings.cassandra.port),
        "cassandra.keyspace": settings.cassandra.keyspace,
        "topic.partitions": str(PARTITIONS),
    }


def table(spark: SparkSession, name: str, options: dict[str, Any]) -> DataFrame:
    """Return a table of the installation."""
    return spark.read.format("hourhand").options(table=name, **options).load()


def test_a_whole_table_holds_each_completion_once(
    spark: SparkSession, options: dict[str, Any]
) -> None:
    """Read by parts, columns of rows and of segments alike."""
    rows = table(spark, "statuses", options).collect()

    found = {TaskKey(round(row.scheduled_time.timestamp() * 1_000), *row[3:5]): row for row in rows}
    assert len(rows) == len(found) == len(KEYS)
    assert {key for key, row in found.items() if row.result == "reopened"} == set(KEYS[100:110])
    assert {row.write_time for row in found.values()} == {write_time(1, n) for n in (2, 3, 4)}
    assert {row.partition for row in rows} == {1}
    assert {row.hour for row in rows} == {
        row.scheduled_time.replace(minute=0, second=0, microsecond=0) for row in rows
    }
    counted = table(spark, "statuses", options | {"columns": "result"}).groupBy("result").count()
    assert {row["result"]: row["count"] for row in counted.collect()} == {
        "success": 290,
        "reopened": 10,
    }


@pytest.mark.parametrize(("hour", "successes"), [(0, 100), (1, 90), (2, 100)])
def test_an_hour_and_the_states_of_its_keys(
    spark: SparkSession, options: dict[str, Any], hour: int, successes: int
) -> None:
    """Read by bucket; a key that was opened again is open, whatever its segment says."""
    at = from_millis(HOUR_START_MS + hour * HOUR_MS)
    statuses = table(spark, "statuses", options).where(f.col("hour") == at)
    assert statuses.where("result = 'success'").count() == successes
    assert statuses.count() == 100
    states = table(spark, "states", options).where(f.col("hour") == at).groupBy("state").count()
    found = {row["state"]: row["count"] for row in states.collect()}
    assert found.pop("success") == successes
    assert sum(found.values()) == 100 - successes
