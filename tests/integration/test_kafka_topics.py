"""Topics and first contact on a real broker: what is made or warned about, who is at fault."""

import subprocess
from concurrent.futures import Future

import pytest
from confluent_kafka import Producer
from pydantic import SecretStr

from hourhand.actors.model.values.errors import LogUnavailable, TopicMissing
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.kafka.log import KafkaLog
from hourhand.scheduler.adapters.kafka.topics import create_topics, topic_warnings
from hourhand.scheduler.adapters.kafka.writer import KafkaWriter
from hourhand.scheduler.configuration.settings import KafkaSettings, Settings, TopicSettings
from tests.conformance.kafka_world import KafkaTopic, KafkaWorld, MachineClock
from tests.conformance.log_bench import WAIT_S, Member, poll_until
from tests.servers.kafka import KafkaServer, kafka_tool
from tests.servers.ports import free_ports

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def world(kafka_server: KafkaServer) -> KafkaWorld:
    """Topics on the session's broker."""
    return KafkaWorld(kafka_server.bootstrap_servers)


def unreachable(timeout_ms: int) -> Settings:
    """Return settings that name a port where nobody listens."""
    port = free_ports(1)[0]
    return Settings(
        kafka=KafkaSettings(
            bootstrap_servers=f"127.0.0.1:{port}",
            connect_timeout_ms=timeout_ms,
            delivery_timeout_ms=1_000,
            security_properties={"sasl.password": SecretStr("do-not-show")},
        )
    )


def test_topics_are_created_once(world: KafkaWorld) -> None:
    """The second time there is nothing to do."""
    settings = world.settings("created-once", 3)
    assert sorted(create_topics(settings)) == ["created-once", "created-once-dead"]
    assert create_topics(settings) == []
    writer = KafkaWriter(settings, SystemClock())
    assert writer.partition_count() == 3
    writer.close()


def test_a_topic_made_by_migrate_needs_no_warning(world: KafkaWorld) -> None:
    """On one broker, with the defaults."""
    settings = world.settings("unwarned", 1)
    create_topics(settings)
    assert topic_warnings(settings) == []


def test_a_topic_that_breaks_promises_is_warned_about(
    world: KafkaWorld, kafka_server: KafkaServer
) -> None:
    """Kept for ever, compacted, cut by size, and stamped by whoever writes."""
    kafka_tool(
        "org.apache.kafka.tools.TopicCommand",
        "--bootstrap-server",
        kafka_server.bootstrap_servers,
        "--create",
        "--topic",
        "warned",
        "--partitions",
        "1",
        "--config",
        "retention.ms=-1",
        "--config",
        "cleanup.policy=compact",
        "--config",
        "retention.bytes=1000000",
        "--config",
        "message.timestamp.type=CreateTime",
    )
    kafka_server.wait_until_known("warned")
    warnings = topic_warnings(world.settings("warned"))
    assert len(warnings) == 4
    assert "compact" in warnings[0]
    assert "for ever" in warnings[1]
    assert "keeps 1000000 bytes" in warnings[2]
    assert "CreateTime" in warnings[3]


def test_a_missing_topic_is_named_with_what_to_do(world: KafkaWorld) -> None:
    """By the reader and by the writer."""
    settings = world.settings("never-made")
    log, writer = KafkaLog(settings, MachineClock()), KafkaWriter(settings, SystemClock())
    try:
        with pytest.raises(TopicMissing, match=r"'never-made'.*hourhand migrate"):
            log.subscribe(Member("a", log))
        with pytest.raises(TopicMissing, match=r"'never-made'.*hourhand migrate"):
            writer.partition_count()
    finally:
        log.close()
        writer.close()


def test_a_missing_dead_letter_topic_is_noticed_at_the_start(
    world: KafkaWorld, kafka_server: KafkaServer
) -> None:
    """Not only when the first poison arrives."""
    kafka_tool(
        "org.apache.kafka.tools.TopicCommand",
        "--bootstrap-server",
        kafka_server.bootstrap_servers,
        "--create",
        "--topic",
        "half-made",
        "--partitions",
        "1",
    )
    kafka_server.wait_until_known("half-made")
    log = KafkaLog(world.settings("half-made"), MachineClock())
    try:
        with pytest.raises(TopicMissing, match="'half-made-dead'"):
            log.subscribe(Member("a", log))
    finally:
        log.close()


def test_a_wrong_address_is_told_within_the_time_allowed() -> None:
    """The message names the servers tried, and no secret."""
    settings = unreachable(1_000)
    log, writer = KafkaLog(settings, MachineClock()), KafkaWriter(settings, SystemClock())
    try:
        for attempt in (
            lambda: log.subscribe(Member("a", log)),
            writer.partition_count,
            lambda: create_topics(settings),
        ):
            with pytest.raises(LogUnavailable) as raised:
                attempt()
            assert settings.kafka.bootstrap_servers in str(raised.value)
            assert "do-not-show" not in str(raised.value)
        failed: Future[object] = Future()
        appended = writer.append(0, b"k", b"v")
        appended.add_done_callback(lambda done: failed.set_result(done.exception()))
        assert isinstance(failed.result(WAIT_S), LogUnavailable)
    finally:
        log.close()
        writer.close()


def test_the_reader_steps_over_control_records(world: KafkaWorld) -> None:
    """A transaction leaves a record that is never delivered; the end is reached anyway."""
    settings = world.settings("transactional", 1)
    create_topics(settings)
    producer = Producer(
        {"bootstrap.servers": settings.kafka.bootstrap_servers, "transactional.id": "t"}
    )
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce("transactional", b"in a transaction", b"key", partition=0)
    producer.commit_transaction(WAIT_S)
    log = KafkaTopic(settings, MachineClock()).open_log()
    member = Member("a", log)
    log.subscribe(member)
    try:
        poll_until(lambda: member.reached.get(0) == 2, member)
        assert member.values(0) == [b"in a transaction"]
        assert member.starts[0].end_offset == 2
    finally:
        log.close()


def test_kafkas_own_tools_see_what_was_committed(
    world: KafkaWorld, kafka_server: KafkaServer
) -> None:
    """A record of a foreign producer is read; a foreign tool finds the offset committed."""
    settings = world.settings("foreign", 1)
    create_topics(settings)
    kafka_tool(
        "org.apache.kafka.tools.ConsoleProducer",
        "--bootstrap-server",
        kafka_server.bootstrap_servers,
        "--topic",
        "foreign",
        standard_input="one\ntwo\n",
    )
    log = KafkaLog(
        settings.model_copy(
            update={"group": settings.group.model_copy(update={"id": "foreign-group"})}
        ),
        MachineClock(),
    )
    member = Member("a", log)
    log.subscribe(member)
    try:
        poll_until(lambda: len(member.records) == 2, member)
        assert [each.key for each in member.records] == [None, None]
    finally:
        log.close()
    described: subprocess.CompletedProcess[str] = kafka_tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "--bootstrap-server",
        kafka_server.bootstrap_servers,
        "--describe",
        "--group",
        "foreign-group",
    )
    row = next(line for line in described.stdout.splitlines() if "foreign-group" in line)
    assert row.split()[1:6] == ["foreign", "0", "2", "2", "0"]


def test_settings_for_topics_reach_the_broker(world: KafkaWorld) -> None:
    """More replicas than brokers is the broker's refusal, told as such."""
    settings = world.settings("too-many").model_copy(
        update={"topic": TopicSettings(name="too-many", dead_letter="too-many-d", replication=3)}
    )
    with pytest.raises(LogUnavailable, match="INVALID_REPLICATION_FACTOR"):
        create_topics(settings)


def test_an_open_transaction_of_another_producer_is_told_until_it_ends(world: KafkaWorld) -> None:
    """What stands behind it is not delivered, and a node can only say why."""
    settings = world.settings("left-open", 1)
    create_topics(settings)
    servers = {"bootstrap.servers": settings.kafka.bootstrap_servers}
    transactional = Producer({**servers, "transactional.id": "left-open"})
    transactional.init_transactions(WAIT_S)
    transactional.begin_transaction()
    transactional.produce("left-open", b"open", b"key", partition=0)
    transactional.flush(WAIT_S)
    behind = Producer(servers)
    behind.produce("left-open", b"behind", b"key", partition=0)
    behind.flush(WAIT_S)
    log = KafkaTopic(settings, MachineClock()).open_log()
    member = Member("a", log)
    log.subscribe(member)
    waiting: dict[int, str] = {}

    def is_told() -> bool:
        waiting.update(member.poll().waiting)
        return bool(waiting)

    try:
        poll_until(is_told, member)
        before = list(member.records)
        transactional.abort_transaction(WAIT_S)
        poll_until(lambda: member.values(0) == [b"behind"], member)
        poll_until(lambda: not member.poll().waiting, member)
    finally:
        log.close()

    assert not before
    assert "at offset 0, below its end 2" in waiting[0]
