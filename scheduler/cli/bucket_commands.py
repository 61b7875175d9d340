"""What ``hourhand relay`` does where Kafka alone stores what waits: runs a node, lists messages.

A listing is read from outside, every partition from its marker to its end, and changes nothing.
"""

import heapq
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec

from actors.model.errors import SettingsInvalid
from actors.model.instant import format_instant
from scheduler import wiring
from scheduler.cli.bucket_running import BucketRelay
from scheduler.cli.session import say
from scheduler.configuration.settings import Settings
from scheduler.kafka_only.mark import Mark, decode_mark
from scheduler.kafka_only.slip import NoSlip, Slip, read_slip


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
        for made in [*wiring.create_bucket_topics(settings), *wiring.create_relay_topics(settings)]:
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


class WaitingMessage(msgspec.Struct, frozen=True):
    """A message that was not passed on yet, and where it waits."""

    slip: Slip
    partition: int
    offset: int


def list_waiting(settings: Settings, limit: int) -> list[WaitingMessage]:
    """Return the first messages by the time they are due; TopicMissing, LogUnavailable."""
    return heapq.nsmallest(limit, _waiting(settings), key=lambda each: each.slip.due_ms)


def _waiting(settings: Settings) -> Iterator[WaitingMessage]:
    reader = wiring.open_topic_reader(settings, settings.buckets.topic)
    try:
        with wiring.open_marks(settings) as last_marker:
            bounds = reader.bounds()
            for partition, (first, end) in bounds.items():
                marker = last_marker(partition)
                mark = Mark(first) if marker is None else decode_mark(marker)
                for records in reader.read(partition, max(first, mark.next_offset), end):
                    for record in records:
                        if mark.is_done(record.offset):
                            continue
                        try:
                            slip, _ = read_slip(record)
                        except NoSlip:
                            continue
                        yield WaitingMessage(slip, partition, record.offset)
    finally:
        reader.close()
