"""Three brokers: accepted means held by two, and a topic that promises less is warned about."""

import logging
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import NewTopic

from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.kafka.connection import LastError
from hourhand.scheduler.adapters.kafka.position import StartingPositions
from hourhand.scheduler.adapters.kafka.topics import create_topics, topic_warnings
from hourhand.scheduler.adapters.kafka.writer import KafkaWriter
from hourhand.scheduler.configuration.settings import KafkaSettings, Settings, TopicSettings
from hourhand.scheduler.ports.beginning import Noted
from hourhand.scheduler.ports.store_identity import StoreIdentity
from tests.conformance.kafka_world import MachineClock
from tests.conformance.log_bench import WAIT_S
from tests.servers.kafka import KafkaServer
from tests.servers.running import running

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.cluster]

DELIVERY_TIMEOUT_MS = 3_000
TRIES, PAUSE_S = 120, 0.5
PAUSE = threading.Event()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """Three brokers of this file alone, as two of them will die."""
    yield from running(lambda: KafkaServer(tmp_path_factory.mktemp("brokers"), brokers=3))


def settings_of(cluster: KafkaServer, name: str) -> Settings:
    """Return settings of a topic with three replicas, which need not exist."""
    return Settings(
        log="kafka",
        topic=TopicSettings(name=name, dead_letter=f"{name}-dead", partitions=2, replication=3),
        kafka=KafkaSettings(
            bootstrap_servers=cluster.bootstrap_servers, delivery_timeout_ms=DELIVERY_TIMEOUT_MS
        ),
    )


def make_by_hand(
    cluster: KafkaServer, settings: Settings, replicas: int, in_sync_min: int, **more: str
) -> None:
    """Make the topic as an operator would who has not read the promises."""
    config = {"min.insync.replicas": str(in_sync_min), "retention.ms": "86400000"}
    config |= {"message.timestamp.type": "LogAppendTime"}
    config |= {name.replace("_", "."): value for name, value in more.items()}
    cluster.create_topic(NewTopic(settings.topic.name, 2, replicas, config=config))
    create_topics(settings)
    cluster.wait_until_known(settings.topic.dead_letter)


def test_topics_made_by_migrate_need_two_replicas_in_sync(cluster: KafkaServer) -> None:
    """So there is nothing to warn about."""
    settings = settings_of(cluster, "as-migrated")

    create_topics(settings)
    cluster.wait_until_known("as-migrated")

    assert topic_warnings(settings) == []


def test_one_replica_in_sync_is_warned_about(cluster: KafkaServer) -> None:
    """Three replicas are of no use to a task that one of them acknowledged alone."""
    settings = settings_of(cluster, "too-eager")
    make_by_hand(cluster, settings, replicas=3, in_sync_min=1)

    (warning,) = topic_warnings(settings)

    assert "'too-eager' has min.insync.replicas 1" in warning
    assert "set it to 2" in warning


def test_a_leader_that_may_lack_records_is_warned_about(cluster: KafkaServer) -> None:
    """What all brokers acknowledged would be lost with the last one in sync."""
    settings = settings_of(cluster, "unclean")
    unclean = {"unclean_leader_election_enable": "true"}
    make_by_hand(cluster, settings, replicas=3, in_sync_min=2, **unclean)

    (warning,) = topic_warnings(settings)

    assert "unclean.leader.election.enable" in warning


def test_a_node_says_so_when_it_starts(
    cluster: KafkaServer, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator who never asked is told anyway, of one replica as well."""
    settings = settings_of(cluster, "lonely")
    make_by_hand(cluster, settings, replicas=1, in_sync_min=1)

    with caplog.at_level(logging.WARNING, logger="hourhand"):
        wiring.open_log(settings, MachineClock(), str).close()

    told = [record.getMessage() for record in caplog.records]
    assert any("one replica on a cluster of 3 brokers" in each for each in told), told
    assert any("min.insync.replicas 1" in each for each in told), told


def begun(asking: StartingPositions) -> bool:
    """True if the beginning of the topic's first partition is told, at the latest after a while."""
    for _ in range(TRIES):
        try:
            return asking.take(0, Noted()).next_offset == 0
        except LogUnavailable:
            PAUSE.wait(PAUSE_S)
    return False


def test_a_partition_begins_as_soon_as_it_has_a_leader_again(cluster: KafkaServer) -> None:
    """What the driver remembers of a time without one is not a reason to wait."""
    settings = settings_of(cluster, "led-anew")
    make_by_hand(cluster, settings, replicas=1, in_sync_min=1)
    properties = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "led-anew"}
    watching = Consumer(properties)
    asking = StartingPositions(properties, settings, LastError(), MachineClock(), StoreIdentity())
    try:
        assert begun(asking)
        leader = leader_of(watching, "led-anew")
        cluster.brokers[leader - 1].kill()
        for _ in range(TRIES):
            if leader_of(watching, "led-anew") != leader:
                break
            PAUSE.wait(PAUSE_S)
        cluster.start()
        assert begun(asking)
    finally:
        asking.close()
        watching.close()
        cluster.start()


def leader_of(asking: Consumer, topic: str) -> int:
    """Return the broker that leads the topic's first partition, or -1; the driver remembers it."""
    return int(asking.list_topics(topic).topics[topic].partitions[0].leader)


def test_a_task_is_accepted_by_two_brokers_and_never_by_one(cluster: KafkaServer) -> None:
    """The last test of the file: it leaves one broker alive."""
    settings = settings_of(cluster, "outnumbered")
    create_topics(settings)
    cluster.wait_until_known("outnumbered")
    writer = KafkaWriter(settings, SystemClock())
    try:
        writer.append(0, b"key", b"0").result(WAIT_S)
        cluster.brokers[0].kill()
        # The controller notices a dead broker after its session; tries until then may fail.
        accepted = False
        for _ in range(20):
            error = writer.append(0, b"key", b"1").exception(WAIT_S)
            accepted = error is None
            if accepted:
                break
            assert isinstance(error, LogUnavailable)
        assert accepted

        cluster.brokers[1].kill()

        for _ in range(3):
            with pytest.raises(LogUnavailable):
                writer.append(0, b"key", b"2").result(WAIT_S)
    finally:
        writer.close()
