"""What tests change on a broker is so for every client when the call returns."""

import uuid

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.servers.kafka import KafkaServer, configure

pytestmark = pytest.mark.integration

TIMES = 5
PARTITIONS = 10
ANSWER_S = 60.0


def leaders(kafka: KafkaServer, topic: str) -> list[int] | None:
    """Return what a client that comes first now is told of a topic; None where there is none."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    found = admin.list_topics(timeout=ANSWER_S).topics.get(topic)
    return None if found is None else [each.leader for each in found.partitions.values()]


def test_a_topic_is_there_and_gone_when_the_call_returns(kafka_server: KafkaServer) -> None:
    """With leaders for all partitions; and it can be made again at once."""
    name = f"made-{uuid.uuid4().hex[:8]}"
    for _ in range(TIMES):
        kafka_server.create_topic(NewTopic(name, PARTITIONS, 1))
        led = leaders(kafka_server, name)
        kafka_server.delete_topic(name)
        left = leaders(kafka_server, name)

        assert led is not None and len(led) == PARTITIONS and -1 not in led
        assert left is None


def test_a_setting_holds_when_the_call_returns(kafka_server: KafkaServer) -> None:
    """A client that asks next is told the new one."""
    name = f"set-{uuid.uuid4().hex[:8]}"
    kafka_server.create_topic(NewTopic(name, PARTITIONS, 1))
    asking = AdminClient({"bootstrap.servers": kafka_server.bootstrap_servers})
    resource = ConfigResource(ResourceType.TOPIC, name)
    for number in range(TIMES):
        value = str(3_600_000 + number)
        configure(kafka_server.bootstrap_servers, ResourceType.TOPIC, name, {"retention.ms": value})
        told = asking.describe_configs([resource])[resource].result(ANSWER_S)

        assert told["retention.ms"].value == value
    kafka_server.delete_topic(name)
