"""The relay, and messages that wait in Kafka alone, with the rights that docs/security.md lists."""

import uuid
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from confluent_kafka import Producer

from hourhand import SchedulerClient, Settings
from hourhand.actors.model.values.instant import format_instant
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.cli.bucket_running import BucketRelay
from hourhand.scheduler.cli.relay_running import RelayRunning
from hourhand.scheduler.wiring import create_bucket_topics, open_buckets
from tests.integration.bucket_world import read_committed
from tests.security.authority import SECRET, Authority
from tests.security.clients import login
from tests.security.kafka_rights import (
    BUCKET_CLIENT_RIGHTS,
    BUCKET_MIGRATE_RIGHTS,
    BUCKET_NODE_RIGHTS,
    NODE_RIGHTS,
    RELAY_RIGHTS,
    Rights,
    grant,
    make_scram_user,
)
from tests.security.one_task import WAIT_S
from tests.servers.kafka import KafkaServer
from tests.waiting import until

pytestmark = pytest.mark.integration


class Locked:
    """An installation on the locked broker, seen by users who hold some rights each."""

    def __init__(self, kafka: KafkaServer, authority: Authority, folder: Path) -> None:
        self._kafka = kafka
        self._authority = authority
        self._folder = folder
        self.name = f"secure-{uuid.uuid4().hex[:8]}"

    def settings(self, user: str | None, store: Literal["embedded", "kafka"] = "kafka") -> Settings:
        """Return the settings of a user; None is the operator, through the open door."""
        name = self.name
        server, who = self._kafka.bootstrap_servers, {}
        if user is not None:
            server, who = self._kafka.address("SASL"), login(self._authority, username=user)
        kafka: Any = {"bootstrap_servers": server, "connect_timeout_ms": 10_000, **who}
        return Settings(
            log="kafka",
            store=store,
            topic={"name": name, "dead_letter": f"{name}-dead-letter", "partitions": 2},
            group={"id": name, "session_timeout_ms": 6_000, "heartbeat_interval_ms": 250},
            kafka=kafka,
            embedded={"folder": self._folder / "data"},
            relay={"in_topic": f"{name}-in", "out_topic": f"{name}-out", "group_id": f"{name}-in"},
            buckets={
                "topic": f"{name}-pending",
                "group_id": f"{name}-pending",
                "partitions": 2,
                "first_partitions": 1,
                "split_records_max": 0,
            },
        )

    def user(self, rights: Rights) -> str:
        """Make a user who holds these rights and no more."""
        user = f"user-{uuid.uuid4().hex[:8]}"
        make_scram_user(self._kafka, self._authority, user, SECRET)
        grant(self._kafka.bootstrap_servers, user, self.name, rights)
        return user

    def put(self, value: bytes) -> None:
        """Produce a message to the in-topic, as the operator."""
        due = format_instant(SystemClock().now_ms() + 200)
        headers: Any = [("chronosMessageId", value), ("chronosDeadline", due.encode())]
        producer = Producer({"bootstrap.servers": self._kafka.bootstrap_servers})
        producer.produce(f"{self.name}-in", value=value, headers=headers)
        assert not producer.flush(WAIT_S)

    def wait_for(self, *values: bytes) -> None:
        """Wait until exactly these have appeared."""
        until(lambda: self._arrived() == Counter(values), f"{values} appear", look_s=1)

    def _arrived(self) -> Counter[bytes | None]:
        committed = read_committed(self.settings(None), f"{self.name}-out")
        return Counter(each.value for each in committed)


@pytest.fixture
def locked(secure_kafka: KafkaServer, authority: Authority, tmp_path: Path) -> Locked:
    """Topics are made by whoever may do that and nothing else."""
    locked = Locked(secure_kafka, authority, tmp_path)
    migrator = locked.settings(locked.user(BUCKET_MIGRATE_RIGHTS))
    assert len([*create_bucket_topics(migrator), *wiring.create_relay_topics(migrator)]) >= 6
    return locked


def test_kafka_alone_needs_no_more_than_its_table(locked: Locked) -> None:
    """A node and a client, one user each; and the node may split a bucket."""
    node = locked.settings(locked.user(BUCKET_NODE_RIGHTS))
    client = locked.settings(locked.user(BUCKET_CLIENT_RIGHTS))
    with BucketRelay(node), SchedulerClient(client) as sender:
        locked.put(b"from the in-topic")
        later = sender.send_later(None, b"later", f"{locked.name}-out", timedelta(seconds=2))
        later.result(WAIT_S)
        locked.wait_for(b"from the in-topic", b"later")
    admin = open_buckets(node, SystemClock()).admin()
    try:
        assert admin.add_partition() == 3
    finally:
        admin.close()


def test_a_node_without_its_transactional_ids_says_so(
    locked: Locked, caplog: pytest.LogCaptureFixture
) -> None:
    """It owns partitions and never begins; the log names what is missing, readiness fails."""
    rights = {part: each for part, each in BUCKET_NODE_RIGHTS.items() if part != "ids"}
    with BucketRelay(locked.settings(locked.user(rights)), intake=False) as node:
        until(lambda: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in caplog.text)
        assert node.partitions
        assert not node.is_ready
    assert "docs/security.md lists" in caplog.text


def test_a_relay_needs_no_more_than_its_table(locked: Locked) -> None:
    """Beside the rights of a node: the in-topic, its group, and the out-topic."""
    wiring.migrate(locked.settings(None, "embedded"))
    rights = {**NODE_RIGHTS, **RELAY_RIGHTS}
    with RelayRunning(locked.settings(locked.user(rights), "embedded")):
        locked.put(b"relayed")
        locked.wait_for(b"relayed")
