"""A secret is planted in every place of a real installation; nothing ever shows it again.

All of Python's and both drivers' loggers talk at their loudest, on the good path and on bad
ones.  The test that plants a secret in a log first shows that it would be found.
"""

import json
import logging
import os
import subprocess
import sys
import time
import traceback
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pydantic import SecretStr

from hourhand import Scheduler, SchedulerClient, Settings
from hourhand.actors.model.values.errors import OperatorError
from hourhand.scheduler import wiring
from hourhand.scheduler.configuration.security import TlsSettings
from tests.builders import Idle
from tests.security.authority import CLIENT, SECRET, Authority
from tests.security.cassandra_rights import cassandra_settings
from tests.security.clients import login, with_certificate
from tests.security.kafka_rights import NODE_RIGHTS, grant, make_scram_user
from tests.security.one_task import run_one_task
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
WAIT_S = 60.0
LOUD = {"debug": "all"}
"""librdkafka's own switch."""


class Heard(logging.Handler):
    """Keeps every line of every logger."""

    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s %(args)s"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the line, its trace included."""
        self.lines.append(self.format(record))


@pytest.fixture
def heard() -> Iterator[Heard]:
    """All loggers at their loudest, for one test."""
    root, handler = logging.getLogger(), Heard()
    drivers = [logging.getLogger(name) for name in ("cassandra", "hourhand")]
    levels = [(logger, logger.level) for logger in (root, *drivers)]
    for logger, _ in levels:
        logger.setLevel(logging.DEBUG)
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)
    for logger, level in levels:
        logger.setLevel(level)


@pytest.fixture
def settings(
    secure_kafka: KafkaServer,
    locked_cassandra: CassandraServer,
    authority: Authority,
    tmp_path: Path,
) -> Settings:
    """A whole installation with passwords on both sides, and its rights granted."""
    name = f"secret-{uuid.uuid4().hex[:8]}"
    base = cassandra_settings(locked_cassandra, tmp_path, **login(authority))
    kafka: Any = {
        "bootstrap_servers": secure_kafka.address("SASL"),
        "consumer_properties": LOUD,
        "producer_properties": LOUD,
        **login(authority, sasl_mechanism="PLAIN"),
    }
    made = Settings(
        log="kafka",
        store="cassandra",
        topic={"name": name, "dead_letter": f"{name}-dead-letter", "partitions": 2},
        group={"id": name, "session_timeout_ms": 45_000, "heartbeat_interval_ms": 250},
        kafka=kafka,
        cassandra=base.cassandra,
    )
    open_door = made.kafka.model_validate({"bootstrap_servers": secure_kafka.bootstrap_servers})
    operator = made.model_copy(update={"store": "embedded", "kafka": open_door})
    wiring.migrate(operator)
    grant(secure_kafka.bootstrap_servers, CLIENT, name, NODE_RIGHTS)
    make_scram_user(secure_kafka, authority, CLIENT, SECRET)
    return made


def test_the_search_finds_what_is_logged(heard: Heard) -> None:
    """In a message, an argument and a trace."""
    logger = logging.getLogger("hourhand.kafka.driver")
    logger.debug("SASL %s", SECRET)
    try:
        raise ValueError(SECRET)
    except ValueError:
        logger.exception("failed")

    assert sum(SECRET in line for line in heard.lines) == 2


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_node_at_work_shows_no_secret(
    mechanism: str,
    settings: Settings,
    secure_kafka: KafkaServer,
    heard: Heard,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Nor does a dead letter, nor what an executor's failure leaves behind."""
    kafka = settings.kafka.model_copy(update={"sasl_mechanism": mechanism})
    settings = settings.model_copy(update={"kafka": kafka})
    producer = Producer({"bootstrap.servers": secure_kafka.bootstrap_servers})
    producer.produce(settings.topic.name, b"no task at all", b"poison", partition=0)
    producer.flush(WAIT_S)

    run_one_task(settings)
    letter = first_dead_letter(secure_kafka, settings.topic.dead_letter)
    with SchedulerClient(settings) as client:
        shown = f"{client!r} {vars(client)!r} {settings!r} {settings.model_dump_json()}"

    assert any("sasl" in line.lower() for line in heard.lines), "the driver was not loud"
    for text in (*heard.lines, *capfd.readouterr(), letter, shown):
        assert SECRET not in text


def first_dead_letter(server: KafkaServer, topic: str) -> str:
    """Wait for a dead letter and return all of it as text."""
    consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "letters"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(2)])
    deadline = time.monotonic() + WAIT_S
    while (message := consumer.poll(0.5)) is None or message.error() is not None:
        assert time.monotonic() < deadline, "no dead letter came"
    consumer.close()
    return f"{message.key()!r} {message.value()!r} {message.headers()!r}"


def with_passwords(settings: Settings, kafka: str, cassandra: str) -> Settings:
    """Return settings with these passwords, and little patience."""
    quick = {"connect_timeout_ms": 2_000}
    return settings.model_copy(
        update={
            "kafka": settings.kafka.model_copy(update={"password": SecretStr(kafka), **quick}),
            "cassandra": settings.cassandra.model_copy(update={"password": SecretStr(cassandra)}),
        }
    )


def test_what_fails_shows_no_secret(
    settings: Settings, authority: Authority, heard: Heard, capfd: pytest.CaptureFixture[str]
) -> None:
    """A wrong secret is one too: most are the right one, mistyped."""
    mistyped = f"{SECRET}!"
    key = TlsSettings.model_validate({**with_certificate(authority), "key_password": mistyped})
    traces = []
    for bad in (
        with_passwords(settings, mistyped, SECRET),
        with_passwords(settings, SECRET, mistyped),
        settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"tls": key})}),
        settings.model_copy(
            update={"cassandra": settings.cassandra.model_copy(update={"tls": key})}
        ),
    ):
        with pytest.raises(OperatorError) as raised:
            Scheduler(bad, executor=Idle)
        traces.append("".join(traceback.format_exception(raised.value)) + repr(raised.value))

    for text in (*heard.lines, *capfd.readouterr(), *traces):
        assert SECRET not in text


@pytest.mark.parametrize(
    ("kafka", "cassandra"),
    [(SECRET, SECRET), (f"{SECRET}!", SECRET), (SECRET, f"{SECRET}!")],
    ids=["right", "wrong for Kafka", "wrong for Cassandra"],
)
def test_the_command_line_shows_no_secret(
    kafka: str, cassandra: str, settings: Settings, tmp_path: Path
) -> None:
    """Results, messages and traces, of commands that work and of such as cannot."""
    bare = settings.model_copy(
        update={
            "kafka": settings.kafka.model_copy(
                update={"consumer_properties": {}, "producer_properties": {}}
            )
        }
    )
    values = json.loads(with_passwords(bare, kafka, cassandra).model_dump_json())
    values["kafka"]["password"] = kafka
    values["cassandra"]["password"] = cassandra
    environment = {
        f"HOURHAND_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in values.items()
    }

    for command in (("settings",), ("list", "--debug"), ("migrate", "--debug")):
        done = subprocess.run(
            [sys.executable, "-m", "hourhand", *command, "--output", "json"],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environment},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        right = {kafka, cassandra} == {SECRET}
        # A node's user may not migrate.
        works = command[0] == "settings" or (right and command[0] == "list")
        assert done.returncode == (0 if works else 3), done.stderr
        assert SECRET not in done.stdout + done.stderr
