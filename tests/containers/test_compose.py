"""The compose files, brought up as a user does: every service healthy, every door answers."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer

from tests.servers.compose import ComposeProject
from tests.servers.engine import docker, require_engine, size_bytes
from tests.servers.images import chosen_images
from tests.servers.maven import ToolMissing
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.containers, pytest.mark.slow]

UP_S = 420.0
WAIT_S = 60.0
NODES = ("node-1", "node-2", "node-3")
EVERYTHING = (*NODES, "relay", "timers", "admin")


def a_project(*files: str) -> ComposeProject:
    """Return a project, or skip the test, saying why, where there is no engine."""
    try:
        return ComposeProject(*files)
    except ToolMissing as error:
        pytest.skip(f"no containers: {error}")


def say_hello(project: ComposeProject, nodes: tuple[str, ...]) -> None:
    """Schedule a task from within a node's container, and see a node run it."""
    project.execute(
        nodes[0],
        "hourhand",
        "schedule",
        "--ordering-id",
        "customer-7",
        "--uniqueness-key",
        "invoice-42",
        "--in",
        "2s",
        "--data",
        '{"invoice": 42}',
    )
    line = "customer-7 invoice-42: {'invoice': 42}"
    until(lambda: line in project.logs(*nodes, lines=500), "a node says what it ran", look_s=1.0)


def test_one_machine_with_every_door() -> None:
    """Nodes run, the relay passes a message on, timers and admin want their tokens."""
    with a_project("compose.yaml") as project:
        project.up(EVERYTHING, UP_S)
        say_hello(project, EVERYTHING[:-1])
        for port, path, token, refused in (
            ("TIMERS_PORT", "/timers", "TIMERS_TOKEN", 401),
            ("ADMIN_PORT", "/api/v1/nodes", "ADMIN_TOKEN", 401),
        ):
            url = f"http://127.0.0.1:{project.ports[port]}{path}"
            bearer = {"Authorization": f"Bearer {project.tokens[token]}"}
            assert httpx.get(url, timeout=60).status_code == refused
            assert httpx.get(url, headers=bearer, timeout=60).status_code == 200
        assert relayed(f"localhost:{project.ports['KAFKA_PORT']}") == b"later"
        assert [project.stop(service) for service in EVERYTHING] == [0] * len(EVERYTHING)


def test_three_of_each() -> None:
    """A task runs; and again after a broker, a Cassandra node and a node were killed."""
    with a_project("compose.cluster.yaml") as project:
        project.up(NODES, 2 * UP_S)
        say_hello(project, NODES)
        for killed in ("kafka-3", "cassandra-3", "node-3"):
            project.kill(killed)
        project.execute(
            "node-1",
            "hourhand",
            "schedule",
            "--ordering-id",
            "customer-8",
            "--in",
            "1s",
            "--uniqueness-key",
            "survivor",
        )
        until(
            lambda: "customer-8 survivor: {}" in project.logs(*NODES[:2], lines=500),
            "a node that is left runs what was accepted by the brokers that are left",
            look_s=1.0,
        )


def test_the_nodes_image_holds_what_runs_and_nothing_that_builds() -> None:
    """It runs as nobody who owns a thing in it, without pip, compiler or sources."""
    try:
        require_engine()
    except ToolMissing as error:
        pytest.skip(f"no containers: {error}")
    found = docker(
        "run",
        "--rm",
        "--network",
        "none",
        "--entrypoint",
        "/bin/bash",
        chosen_images()["NODE_IMAGE"],
        "-c",
        "id -u; command -v pip pip3 gcc make git; true",
    )
    assert found.splitlines() == ["10001"]
    assert size_bytes(chosen_images()["NODE_IMAGE"]) < 300_000_000


def relayed(servers: str) -> bytes | None:
    """Put a message into the relay's in-topic, due in 2 s, and return what comes out of it."""
    due = datetime.now(UTC) + timedelta(seconds=2)
    producer = Producer({"bootstrap.servers": servers})
    headers: list[tuple[str, Any]] = [
        ("chronosMessageId", b"one"),
        ("chronosDeadline", due.isoformat(timespec="milliseconds").encode()),
    ]
    producer.produce("hourhand-relay-in", value=b"later", headers=headers)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "reader", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["hourhand-relay-out"])
    try:
        message = consumer.poll(WAIT_S)
        assert message is not None and message.error() is None, message
        assert datetime.now(UTC) >= due
        value: bytes | None = message.value()
        return value
    finally:
        consumer.close()
