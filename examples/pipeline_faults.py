"""For ``make pipeline-demo``: what jobs are told, and rows as no sound system leaves them.

One fault of each kind.  Decides nothing about what an audit must find: that is in
``transform_audit``.
"""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from hourhand import Settings
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import (
    AttemptRecord,
    AttemptResult,
    Completion,
    CompletionResult,
)
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of
from hourhand.actors.ports.store import Stores
from hourhand.scheduler import wiring
from hourhand.scheduler.pipeline.options import Options

_WRITE_TIME = 1 << 50
"""Above every owner's of a demonstration."""
_NAMES = ("overdue", "blocked", "lost", "twice", "early", "busy")


def plant(settings: Settings) -> None:
    """Write rows that make one fault of each kind but ``missing``, which is a key not stored."""
    hour_ms = hour_of(wiring.open_clock().now_ms()) - 5 * HOUR_MS
    with closing(wiring.open_stores(settings)) as stores:
        for name in _NAMES:
            key = TaskKey(hour_ms, f"planted-{name}", "x")
            partition = partition_of(key.ordering_id, settings.topic.partitions)
            for each in _written(stores, name, key, partition):
                each.result(30)


def _written(stores: Stores, name: str, key: TaskKey, partition: int) -> "Iterator[Future[Any]]":
    hour_ms = key.scheduled_ms
    if name in {"overdue", "blocked"}:
        row = StoredTask(key, b"{}", 1)
        yield stores.schedule.insert_tasks(partition, [row], _WRITE_TIME)
    elif name != "lost":
        begun_ms = hour_ms - 5 if name == "early" else hour_ms + 5_000
        done = Completion(key, CompletionResult.SUCCESS, 1, 1, begun_ms, hour_ms + 6_000)
        yield stores.status.insert_completions(partition, [done], _WRITE_TIME)
    if name in {"blocked", "lost", "twice", "busy"}:
        late_ms = hour_ms + {"twice": 7_000, "busy": 5_500}.get(name, 1)
        attempt = AttemptRecord(key, 9, AttemptResult.FAILURE, late_ms, late_ms + 400)
        yield stores.status.insert_attempts(partition, [attempt], _WRITE_TIME)


def never_stored(spark: SparkSession) -> DataFrame:
    """Return a key that somebody expects and nobody stored."""
    return spark.sql(
        "SELECT current_timestamp() AS scheduled_time, 'never-stored' AS ordering_id,"
        " 'x' AS uniqueness_key"
    )


def options_of(settings: Settings) -> Options:
    """Return what jobs are told of an installation on Kafka and Cassandra."""
    named = {
        "log": settings.log,
        "store": settings.store,
        "kafka.bootstrap_servers": settings.kafka.bootstrap_servers,
        "group.id": settings.group.id,
        "topic.name": settings.topic.name,
        "topic.dead_letter": settings.topic.dead_letter,
        "topic.partitions": str(settings.topic.partitions),
        "cassandra.contact_points": ",".join(settings.cassandra.contact_points),
        "cassandra.port": str(settings.cassandra.port),
        "cassandra.keyspace": settings.cassandra.keyspace,
    }
    return Options(overrides=tuple(sorted(named.items())))
