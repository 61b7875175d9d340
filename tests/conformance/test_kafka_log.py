"""The log's contract on a real Kafka."""

import pytest

from tests.conformance.kafka_world import KafkaWorld
from tests.conformance.task_log import TaskLogContract
from tests.servers.kafka import KafkaServer

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def log_world(kafka_server: KafkaServer) -> KafkaWorld:
    """Topics on the session's broker."""
    return KafkaWorld(kafka_server.bootstrap_servers)


class TestKafkaLog(TaskLogContract):
    """Everything a log must do, by the consumer group and the producer."""
