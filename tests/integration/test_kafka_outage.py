"""A broker that goes away and comes back: nothing raises, nothing is lost, the lease ends."""

import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.model.errors import LogUnavailable
from scheduler.adapters.kafka.writer import KafkaWriter
from tests.conformance.kafka_world import KafkaWorld
from tests.conformance.log_bench import WAIT_S, Bench, append_all, poll_for, poll_until
from tests.servers.kafka import KafkaServer
from tests.servers.running import running

pytestmark = [pytest.mark.integration, pytest.mark.slow]

COMMIT_QUIET_S = 3.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KafkaServer]:
    """A broker of this test alone, as it will be hurt."""
    yield from running(lambda: KafkaServer(tmp_path))


def test_a_broker_that_restarts_ends_the_lease_and_loses_nothing(broker: KafkaServer) -> None:
    """Polls go on without an error, records written before and after all arrive in order."""
    world = KafkaWorld(broker.bootstrap_servers)
    made = Bench(world, 1)
    try:
        writer, member = made.writer(), made.join("a")
        append_all(writer, 0, [b"1", b"2"])
        poll_until(lambda: member.log.lease_ends_ms() > -math.inf, member, committing=True)
        broker.brokers[0].kill()
        deadline = time.monotonic() + COMMIT_QUIET_S
        while time.monotonic() < deadline:
            poll_for(0.1, member)
            member.commit()
        assert member.log.lease_ends_ms() < world.clock.monotonic_ms()
        accepted = writer.append(0, b"key", b"3")
        broker.start()
        assert accepted.result(WAIT_S).offset == 2
        poll_until(
            lambda: (
                member.log.lease_ends_ms() > world.clock.monotonic_ms() and b"3" in member.values(0)
            ),
            member,
            committing=True,
        )
        # A membership that was lost meanwhile begins again, so records may come twice.
        assert list(dict.fromkeys(member.values(0))) == [b"1", b"2", b"3"]
    finally:
        made.close()


def test_a_broker_that_freezes_blocks_neither_append_nor_close(broker: KafkaServer) -> None:
    """Futures fail within the delivery timeout, and both clients close within a bounded time."""
    world = KafkaWorld(broker.bootstrap_servers)
    topic = world.create_topic(1)
    kafka = topic.settings.kafka.model_copy(update={"delivery_timeout_ms": 1_500})
    writer = KafkaWriter(topic.settings.model_copy(update={"kafka": kafka}))
    made = Bench(world, 1)
    member = made.join("a")
    poll_until(lambda: member.log.lease_ends_ms() > -math.inf, member, committing=True)
    writer.append(0, b"k", b"v").result(WAIT_S)
    broker.brokers[0].pause()
    try:
        began = time.monotonic()
        with pytest.raises(LogUnavailable):
            writer.append(0, b"k", b"v").result(WAIT_S)
        writer.append(0, b"k", b"v")
        writer.close()
        assert time.monotonic() - began < 15
        began = time.monotonic()
        made.close()
        assert time.monotonic() - began < 30
        assert member.log.lease_ends_ms() == -math.inf
    finally:
        broker.brokers[0].resume()
