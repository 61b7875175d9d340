"""What ``hourhand relay`` does where Kafka alone stores what waits."""

from enum import StrEnum
from typing import Any

from actors.model.errors import SettingsInvalid
from actors.model.instant import format_instant
from scheduler import wiring
from scheduler.cli.session import say
from scheduler.configuration.settings import Settings
from scheduler.kafka_only.bucket_wiring import create_bucket_topics
from scheduler.kafka_only.listing import list_waiting
from scheduler.kafka_only.running import BucketRelay


class Storage(StrEnum):
    """Where messages wait."""

    ENGINE = "engine"
    KAFKA = "kafka"

    @property
    def overrides(self) -> list[str]:
        """The settings that this storage needs."""
        return ["log=kafka", "store=kafka"] if self is Storage.KAFKA else []


def run_bucket_relay(settings: Settings, executor: str | None, *, create_topics: bool) -> None:
    """Run a node until it is stopped."""
    if executor is not None:
        raise SettingsInvalid("--executor runs tasks, and store 'kafka' keeps none: leave it out")
    if create_topics:
        for made in [*create_bucket_topics(settings), *wiring.create_relay_topics(settings)]:
            say(f"made topic {made}")
    node = BucketRelay(settings)
    with node.stopped_by_signals():
        node.start()
        if node.observation.port is not None:
            say(f"metrics and health on port {node.observation.port}")
        say(
            "the relay runs on Kafka alone: ids are not compared, nothing can be cancelled or moved"
        )
        say("Ctrl-C stops it")
        node.wait()


def waiting_in_buckets(settings: Settings, limit: int) -> list[dict[str, Any]]:
    """Return the messages that wait, earliest first, as ``relay pending`` shows them."""
    return [
        {
            "due": format_instant(each.slip.due_ms),
            "topic": each.slip.topic,
            "id": each.slip.message_id,
            "key": f"{settings.buckets.topic}[{each.partition}]@{each.offset}",
        }
        for each in list_waiting(settings, limit)
    ]
