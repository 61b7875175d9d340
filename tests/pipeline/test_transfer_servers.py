"""Repartition, export and import on real Kafka and Cassandra, from the command line."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from hourhand import Settings
from hourhand.scheduler import wiring
from hourhand.scheduler.cli.cli import app
from tests.pipeline.moving_world import (
    check_by_running,
    fill,
    job_on,
    leave_unread,
    wait_until,
)
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer

pytestmark = [pytest.mark.integration, pytest.mark.long]

OLD, NEW = 4, 6


def on_servers(
    kafka: KafkaServer, cassandra: CassandraServer, name: str, partitions: int
) -> Settings:
    """Return the settings of an installation of its own."""
    return Settings(
        log="kafka",
        store="cassandra",
        topic={"name": name, "dead_letter": f"{name}-dead", "partitions": partitions},
        group={"id": name},
        kafka={"bootstrap_servers": kafka.bootstrap_servers},
        cassandra={
            "contact_points": tuple(cassandra.addresses),
            "port": cassandra.port,
            "keyspace": name.replace("-", "_"),
        },
    )


def run(job: str, settings: Settings, *arguments: str, code: int = 0) -> Any:
    """Run a job from the command line; return its summary, or what it complained about."""
    named = [
        part
        for name, value in job_on(settings).source.overrides
        for part in ("--set", f"{name}={value}")
    ]
    result = CliRunner().invoke(app, ["pipeline", job, *arguments, *named, "-o", "json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout) if code == 0 else result.stderr


def refused_while_a_node_runs(source: Settings, options: list[str]) -> str:
    """Return what a job says that is run beside a member of the group, which reads nothing."""
    servers = source.kafka.bootstrap_servers
    member: Any = Consumer({"bootstrap.servers": servers, "group.id": source.group.id})
    try:
        member.subscribe([source.topic.name])
        wait_until(lambda: member.poll(0.1) is None and bool(member.assignment()))
        return str(run("repartition", source, *options, code=3))
    finally:
        member.close()


def rows_in(summary: Any, part: str) -> dict[str, int]:
    """Return how many rows of each table a summary tells of."""
    return {table: summary[part][table]["rows"] for table in ("tasks", "statuses", "attempts")}


def test_from_servers_to_a_folder_and_back(
    spark: SparkSession,
    kafka_server: KafkaServer,
    cassandra_server: CassandraServer,
    tmp_path: Path,
) -> None:
    """Repartitioned from 4 to 6, exported, imported into a folder, exported, and back again."""
    assert spark.version
    name = f"moving-{uuid.uuid4().hex[:6]}"
    source = on_servers(kafka_server, cassandra_server, name, OLD)
    target = on_servers(kafka_server, cassandra_server, f"{name}-new", NEW)
    back = on_servers(kafka_server, cassandra_server, f"{name}-back", NEW)
    folder = Settings(embedded={"folder": tmp_path / "data"}, topic={"partitions": NEW})
    wiring.migrate(source)
    left = fill(source)
    options = ["--to", str(NEW), "--into", f"topic.name={name}-new", "--into"]
    options += [f"cassandra.keyspace={target.cassandra.keyspace}", "--into", f"group.id={name}-new"]
    busy = refused_while_a_node_runs(source, options)
    leave_unread(source)

    moved = run("repartition", source, *options)
    exported = run("export", target, str(tmp_path / "one"))
    imported = run("import", folder, str(tmp_path / "one"))
    again = run("export", folder, str(tmp_path / "two"))
    missing = run("import", back, str(tmp_path / "two"), code=3)
    wiring.migrate(back)
    returned = run("import", back, str(tmp_path / "two"))

    assert "group.id" in busy
    assert "migrate" in missing
    assert moved["log"]["records"] > 0
    assert rows_in(imported, "copied") == rows_in(exported, "tables") == rows_in(again, "tables")
    assert rows_in(imported, "copied") == rows_in(returned, "copied")
    assert rows_in(imported, "copied")["tasks"] > rows_in(moved, "copied")["tasks"]
    check_by_running(back, left)
