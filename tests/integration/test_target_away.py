"""A target topic that takes nothing, beside one that does, on a real broker."""

from datetime import timedelta

import pytest
from confluent_kafka.admin import NewTopic

from hourhand.scheduler.cli.bucket_running import BucketRelay
from tests.integration.bucket_world import WAIT_S, BucketsAtWork, bucket_settings, read_committed
from tests.servers.kafka import KafkaServer
from tests.servers.proxy import PRODUCE, HoldingProxy
from tests.waiting import until

pytestmark = pytest.mark.integration

MESSAGES = 40


def test_p7_a_target_that_takes_nothing_holds_what_is_bound_for_it_and_nothing_else(
    kafka_server: KafkaServer,
) -> None:
    """With Kafka alone; once it takes messages again, each appears once."""
    work = BucketsAtWork(bucket_settings(kafka_server, transaction_timeout_ms=2_000))
    away = f"{work.settings.relay.out_topic}-away"
    kafka_server.create_topic(NewTopic(away, 2, 1))
    with HoldingProxy(kafka_server.bootstrap_servers) as proxy:
        proxy.lose(lambda request: request.api == PRODUCE and request.concerns(away))
        through = work.settings.kafka.model_copy(
            update={"bootstrap_servers": proxy.bootstrap_servers}
        )
        try:
            with BucketRelay(work.settings.model_copy(update={"kafka": through})):
                for number in range(MESSAGES):
                    key, delay_ms = b"%d" % (number % 8), 100 * number
                    delay = timedelta(milliseconds=delay_ms)
                    work.client.send_later(key, b"%d" % number, away, delay).result(WAIT_S)
                    work.send(b"%d" % number, delay_ms, key)
                work.wait_for_all()
                assert not read_committed(work.settings, away)

                proxy.lose(lambda _request: False)
                until(lambda: len(read_committed(work.settings, away)) >= MESSAGES)
            work.judge()
            values = {each.value for each in read_committed(work.settings, away)}
            assert values == {b"%d" % number for number in range(MESSAGES)}
            assert len(read_committed(work.settings, away)) == MESSAGES
        finally:
            work.close()
