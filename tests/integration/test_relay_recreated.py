"""An in-topic that is deleted and made again on a real broker: nothing of it is swallowed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.kafka.topics import topic_identity
from hourhand.scheduler.cli.relay_running import RelayRunning
from hourhand.scheduler.configuration.settings import Settings
from tests.integration.relay_world import RelayWorld, relay_settings
from tests.servers.kafka import KafkaServer

pytestmark = pytest.mark.integration


@pytest.fixture
def world(kafka_server: KafkaServer, tmp_path: Path) -> Iterator[RelayWorld]:
    """Both ends of the relay, on topics that exist."""
    settings = relay_settings(kafka_server, tmp_path / "data")
    wiring.migrate(settings)
    wiring.create_relay_topics(settings)
    world = RelayWorld(settings)
    yield world
    world.close()


def made_anew(kafka: KafkaServer, settings: Settings) -> tuple[str, str]:
    """Delete the in-topic and make it again; return what told each of the two."""
    name = settings.relay.in_topic
    before = topic_identity(settings, name)
    kafka.delete_topic(name)
    assert name in wiring.create_relay_topics(settings)
    return before, topic_identity(settings, name)


def test_a_topic_made_anew_swallows_no_message_of_an_old_id(
    kafka_server: KafkaServer, world: RelayWorld
) -> None:
    """The broker names the two topics, whose offsets are the same."""
    with RelayRunning(world.settings):
        for number in range(3):
            world.put(b"old", message_id=f"id-{number}", due_ms=world.clock.now_ms() + 500)
        world.flush()
        world.wait_for(3)

    before, after = made_anew(kafka_server, world.settings)
    with RelayRunning(world.settings):
        for number in reversed(range(3)):
            world.put(b"new", message_id=f"id-{number}", due_ms=world.clock.now_ms() + 500)
        world.flush()
        arrivals = world.wait_for(6)

    assert before
    assert before != after
    assert [each.value for each in arrivals] == [b"old"] * 3 + [b"new"] * 3
