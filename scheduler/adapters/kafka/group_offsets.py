"""The node's group from outside: its offsets, its members, and its unread records.

Decides where a node would continue, by the rules of a node; it never joins the group or commits for
it.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec
from msgspec.structs import replace

from hourhand.actors.model.operations.ownership import Claim
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.values.log_offset import broker_offset, era_of, kept_offset
from hourhand.scheduler.adapters.kafka.closing import close_client
from hourhand.scheduler.adapters.kafka.connection import (
    LastError,
    admin_client,
    answer_within,
    describe_topic,
    opened,
    shared_properties,
    translated,
)
from hourhand.scheduler.adapters.kafka.position import Committed, committed_of
from hourhand.scheduler.adapters.kafka.reading import KafkaTopicReader
from hourhand.scheduler.adapters.kafka.topics import topic_identity
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.ports.beginning import Found, Noted, chosen_beginning
from hourhand.scheduler.ports.transfer import Span

logger = logging.getLogger("hourhand.kafka")

_SPEC: Any = OffsetSpec
"""Its methods have no types."""


class KafkaGroupOffsets:
    """Offsets as an operator sees and sets them, while no node runs: ``GroupOffsets``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._last_error = LastError()
        self._admin: Any = admin_client(settings, self._last_error)
        topic = settings.topic.name
        found = describe_topic(settings, topic, self._admin, self._last_error)
        self._partitions = [TopicPartition(topic, each.id) for each in found.partitions]

    def members(self) -> int:
        futures = self._admin.describe_consumer_groups([self._settings.group.id])
        return len(self._answer(futures[self._settings.group.id]).members)

    def committed(self) -> Mapping[int, int]:
        asked = ConsumerGroupTopicPartitions(self._settings.group.id, self._partitions)
        futures = self._admin.list_consumer_group_offsets([asked])
        answer = self._answer(futures[self._settings.group.id])
        return {each.partition: each.offset for each in answer.topic_partitions if each.offset >= 0}

    def bounds(self) -> Mapping[int, tuple[int, int]]:
        firsts, ends = self._listed(_SPEC.earliest()), self._listed(_SPEC.latest())
        return {partition: (first, ends[partition]) for partition, first in firsts.items()}

    def since(self, time_ms: int) -> Mapping[int, int]:
        """Return each partition's first offset written at this time or later, or its end."""
        found, ends = self._listed(_SPEC.for_timestamp(time_ms)), self.bounds()
        return {each: at if at >= 0 else ends[each][1] for each, at in found.items()}

    def set(self, next_offsets: Mapping[int, int]) -> None:
        """Set the group's offsets; the broker refuses that while it has members."""
        topic, group = self._settings.topic.name, self._settings.group.id
        places = [TopicPartition(topic, each, offset) for each, offset in next_offsets.items()]
        futures = self._admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, places)]
        )
        self._answer(futures[group])

    def _listed(self, spec: Any) -> dict[int, int]:
        futures = self._admin.list_offsets(dict.fromkeys(self._partitions, spec))
        return {each.partition: self._answer(asked).offset for each, asked in futures.items()}

    def _answer(self, future: "Future[Any]") -> Any:
        what = f"asking for group {self._settings.group.id!r}"
        return answer_within(future, self._settings, self._admin, self._last_error, what)


class KafkaTail:
    """``LogTail``: the topic from the group's offsets on, and records read outside it;
    TopicMissing.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._last_error = LastError()
        self._reader = KafkaTopicReader(settings, settings.topic.name)

    def spans(self, stored: Mapping[int, Claim | None]) -> Mapping[int, Span]:
        bounds = self._reader.bounds()
        committed = self._committed(sorted(bounds))
        topic_id = topic_identity(self._settings, self._settings.topic.name)
        spans = {}
        for each, (first, end) in bounds.items():
            claim, known = stored.get(each), committed[each]
            mark = None if claim is None else claim.watermark
            noted = Noted() if mark is None else Noted(mark.next_offset, mark.topic_id)
            found = Found(known.next_offset, first, end, topic_id, known.note.topic_id)
            begun = chosen_beginning(noted, found)
            if begun.complaint and stored:
                logger.warning("partition %s: %s", each, begun.complaint)
            spans[each] = Span(begun.first_offset, begun.next_offset, begun.end_offset)
        return spans

    def members(self) -> int:
        group = self._settings.group.id
        admin = admin_client(self._settings, self._last_error)
        future = admin.describe_consumer_groups(
            [group], request_timeout=self._settings.kafka.connect_timeout_ms / 1000
        )[group]
        what = f"asking who is in group {group!r}"
        described: Any = answer_within(future, self._settings, admin, self._last_error, what)
        return len(described.members)

    def read(self, partition: int, start: int, end: int) -> Iterator[Sequence[LogRecord]]:
        era = era_of(start)
        for records in self._reader.read(partition, broker_offset(start), broker_offset(end)):
            yield [replace(each, offset=kept_offset(era, each.offset)) for each in records]

    def close(self) -> None:
        self._reader.close()

    def _committed(self, partitions: Sequence[int]) -> Mapping[int, Committed]:
        asking = opened(Consumer, self._properties())
        topic = self._settings.topic.name
        try:
            answers = asking.committed(
                [TopicPartition(topic, each) for each in partitions],
                timeout=self._settings.kafka.connect_timeout_ms / 1000,
            )
            return {each.partition: committed_of(each) for each in answers}
        except KafkaException as error:
            what = f"asking for the offsets of group {self._settings.group.id!r}"
            raise translated(error.args[0], self._settings, self._last_error, what) from error
        finally:
            close_client(asking)

    def _properties(self) -> dict[str, Any]:
        chosen = self._settings.kafka.consumer_properties
        return {
            **shared_properties(self._settings, chosen, self._last_error),
            "group.id": self._settings.group.id,
            "enable.auto.commit": False,
        }
