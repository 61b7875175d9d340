"""A broker that goes away and comes back: nothing raises, nothing is lost, the lease ends."""

import itertools
import math
import time
from collections.abc import Iterator

import pytest

from hourhand.actors.model.operations.events import Event
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.kafka.writer import KafkaWriter
from hourhand.scheduler.client.client import ClientPorts, SchedulerClient
from tests.builders import a_task
from tests.conformance.kafka_world import KafkaWorld
from tests.conformance.log_bench import WAIT_S, Bench, append_all, poll_for, poll_until
from tests.servers.kafka import KafkaServer
from tests.servers.running import running

pytestmark = [pytest.mark.integration, pytest.mark.slow]

COMMIT_QUIET_S = 3.0
DELIVERY_MS = 5_000
"""For a broker that answers late on a busy machine, and short enough to wait it out."""
FAR_MS = 10**12
"""Later than any test runs."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A broker of this file alone, as it will be hurt; each test leaves it at work."""
    yield from running(lambda: KafkaServer(tmp_path_factory.mktemp("broker")))


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


def test_a_bulk_call_stops_reading_when_the_broker_is_gone(broker: KafkaServer) -> None:
    """What it had handed over is told as rejected, in order, and no more is read."""
    world = KafkaWorld(broker.bootstrap_servers)
    settings = world.create_topic(4).settings
    kafka = settings.kafka.model_copy(update={"delivery_timeout_ms": DELIVERY_MS})
    limits = settings.client.model_copy(update={"bulk_in_flight_max": 500})
    settings = settings.model_copy(update={"kafka": kafka, "client": limits})
    ports = ClientPorts(KafkaWriter(settings, SystemClock()), _no_stores, world.clock, _Silent())
    told: list[str] = []
    read = 0

    def tasks() -> Iterator[Task]:
        nonlocal read
        for number in itertools.count():
            if number == 3_000:
                broker.brokers[0].pause()
            read += 1
            yield a_task(
                ordering_id=f"id-{number % 50}", uniqueness_key=str(number), due_in_ms=FAR_MS
            )

    with SchedulerClient(settings, ports) as client:
        try:
            result = client.schedule_tasks(
                tasks(), lambda task, error: told.append(task.uniqueness_key)
            )
        finally:
            broker.brokers[0].resume()
    assert isinstance(result.interrupted_by, LogUnavailable)
    assert result.accepted + result.rejected_count == read
    assert told == sorted(told, key=int)
    assert 1 <= len(told) == result.rejected_count <= 500
    assert all(int(key) >= 2_500 for key in told)


def _no_stores() -> Stores:
    raise AssertionError("nobody asks for an outcome")


class _Silent:
    def emit(self, event: Event) -> None:
        """Nobody listens."""


def test_a_broker_that_freezes_blocks_neither_append_nor_close(broker: KafkaServer) -> None:
    """Futures fail within the delivery timeout, and both clients close while it stands still."""
    world = KafkaWorld(broker.bootstrap_servers)
    topic = world.create_topic(1)
    kafka = topic.settings.kafka.model_copy(update={"delivery_timeout_ms": DELIVERY_MS})
    writer = KafkaWriter(topic.settings.model_copy(update={"kafka": kafka}), SystemClock())
    made = Bench(world, 1)
    member = made.join("a")
    poll_until(lambda: member.log.lease_ends_ms() > -math.inf, member, committing=True)
    writer.append(0, b"k", b"v").result(WAIT_S)
    broker.brokers[0].pause()
    try:
        with pytest.raises(LogUnavailable):
            writer.append(0, b"k", b"v").result(WAIT_S)
        writer.append(0, b"k", b"v")
        writer.close()
        made.close()
        assert member.log.lease_ends_ms() == -math.inf
    finally:
        broker.brokers[0].resume()
