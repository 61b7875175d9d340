"""Users and rights that tests make on a broker: they hold when the call that makes them returns."""

import uuid

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from tests.security.authority import SECRET, Authority
from tests.security.kafka_rights import WAIT_S, grant, make_scram_user
from tests.servers.kafka import KafkaServer

pytestmark = pytest.mark.integration

TIMES = 20
PARTITIONS = 20
"""What the broker has to make first, so that it learns of a right long after the controller."""


def test_a_user_may_do_at_once_what_was_granted(
    secure_kafka: KafkaServer, authority: Authority
) -> None:
    """The first question of a user that was just made is answered, again and again."""
    operator = AdminClient({"bootstrap.servers": secure_kafka.bootstrap_servers})
    name = f"granted-{uuid.uuid4().hex[:8]}"
    user = f"user-{name}"
    make_scram_user(secure_kafka, authority, user, SECRET)
    asking = AdminClient(
        {
            "bootstrap.servers": secure_kafka.address("SASL"),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(authority.ca_file),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": SECRET,
        }
    )

    for topic in (f"{name}-{number}" for number in range(TIMES)):
        # The broker makes the topic before it learns of the right.
        operator.create_topics([NewTopic(topic, PARTITIONS)])[topic].result(WAIT_S)
        grant(secure_kafka.bootstrap_servers, user, topic, {"topic": ("DESCRIBE",)})
        described = asking.describe_topics(TopicCollection([topic]))[topic].result(WAIT_S)

        assert described.name == topic
