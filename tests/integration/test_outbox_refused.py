"""Rows of an outbox that cannot be records, among good ones, on real servers.

The dead-letter topic is not there at first.
"""

import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from confluent_kafka.admin import ResourceType

from hourhand import Settings
from hourhand.actors.model.task.codec import Command, CommandKind, decode_record, encode_command
from hourhand.actors.model.task.task import Task
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.kafka.topics import dead_letter_topic
from hourhand.scheduler.outbox.mover import OutboxMover
from hourhand.scheduler.outbox.opening import migrate_outbox
from hourhand.scheduler.outbox.scheduling import Outbox
from hourhand.scheduler.ports.dead_letters import REASON_HEADER
from tests.builders import a_key
from tests.servers.kafka import KafkaServer, configure
from tests.servers.postgres import PostgresServer
from tests.waiting import until

pytestmark = pytest.mark.integration

_DUE = datetime.now(UTC) + timedelta(days=1)
_BAD = [
    b"",
    b"not a record",
    b"\xff\xfe",
    b"null",
    b'{"orderingId":null,"uniquenessKey":"","scheduledTime":null,"taskData":null,"version":1}',
    encode_command(Command(CommandKind.RUN_NOW, a_key())),
]


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    """Return a database of its own."""
    name = f"refused_{uuid.uuid4().hex[:12]}"
    yield postgres_server.create(name)
    postgres_server.drop(name)


def _settings(url: str, kafka_server: KafkaServer) -> Settings:
    name = f"refused_{uuid.uuid4().hex[:12]}"
    return Settings(
        log="kafka",
        kafka={"bootstrap_servers": kafka_server.bootstrap_servers},
        topic={"name": name, "dead_letter": f"{name}-dead-letter", "partitions": 2},
        outbox={"url": url, "batch_rows_max": 20},
    )


def _task(name: str, text: str) -> Task:
    return Task(
        ordering_id=f"customer-{len(name)}",
        scheduled_time=_DUE,
        uniqueness_key=name,
        data={"text": text},
    )


def test_p25_good_rows_go_on_while_dead_letters_are_not_answered(
    url: str, kafka_server: KafkaServer
) -> None:
    """Also those of a request that the broker refuses as a whole; in the end all bad rows have a
    letter with its reason.
    """
    settings = _settings(url, kafka_server)
    wiring.migrate(settings)
    migrate_outbox(settings, wiring.open_clock())
    broker = kafka_server.bootstrap_servers
    configure(broker, ResourceType.TOPIC, settings.topic.name, {"max.message.bytes": "20000"})
    kafka_server.delete_topic(settings.topic.dead_letter)
    outbox = Outbox(settings)
    with closing(psycopg.connect(url)) as connection:
        insert = "INSERT INTO hourhand_outbox (lane, record, written_ms) VALUES (%s, %s, 0)"
        for number in range(60):
            connection.execute(insert, (number % 32, _BAD[number % len(_BAD)]))
        outbox.schedule_many(
            connection,
            [
                *(_task(f"{number:03}", uuid.uuid4().hex * 60) for number in range(50)),
                _task("large", "".join(uuid.uuid4().hex for _ in range(1_000))),
                *(_task(f"{number:03}", uuid.uuid4().hex * 60) for number in range(50, 100)),
            ],
        )
        connection.commit()

        with OutboxMover(settings) as running:
            until(lambda: running.mover.moved_rows == 100)
            assert running.mover.refused_rows == 0
            kafka_server.create_topic(dead_letter_topic(settings))
            until(lambda: running.mover.refused_rows == 61)
            assert connection.execute("SELECT count(*) FROM hourhand_outbox").fetchone() == (0,)

    with closing(wiring.open_log_view(settings)) as view:
        found = view.letters(None, 200).letters
    assert len(found) == 61
    assert all(dict(each.headers)[REASON_HEADER] for each in found)
    assert _names_in_the_log(settings) == {f"{number:03}" for number in range(100)}


def _names_in_the_log(settings: Settings) -> set[str]:
    with closing(wiring.open_tail(settings)) as tail:
        spans = tail.spans(dict.fromkeys(range(2)))
        records = [
            record
            for partition, span in spans.items()
            for piece in tail.read(partition, 0, span.end)
            for record in piece
        ]
    return {decode_record(record).key.uniqueness_key for record in records}
