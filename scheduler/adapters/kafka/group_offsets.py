"""The offsets of the node's group as an operator sees and sets them, while no node runs.

Decides nothing about where to begin; never joins the group.
"""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import OffsetSpec

from scheduler.adapters.kafka.connection import (
    LastError,
    admin_client,
    answer_within,
    describe_topic,
)
from scheduler.configuration.settings import Settings

_SPEC: Any = OffsetSpec
"""Its methods have no types."""


class KafkaGroupOffsets:
    """Implements ``actors.ports.log.GroupOffsets``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._last_error = LastError()
        self._admin: Any = admin_client(settings, self._last_error)
        topic = settings.topic.name
        found = describe_topic(settings, topic, self._admin, self._last_error)
        self._partitions = [TopicPartition(topic, each.id) for each in found.partitions]

    def members(self) -> int:
        """Return how many nodes the group has now."""
        futures = self._admin.describe_consumer_groups([self._settings.group.id])
        return len(self._answer(futures[self._settings.group.id]).members)

    def committed(self) -> Mapping[int, int]:
        """Return the group's next offsets, where it has any."""
        asked = ConsumerGroupTopicPartitions(self._settings.group.id, self._partitions)
        futures = self._admin.list_consumer_group_offsets([asked])
        answer = self._answer(futures[self._settings.group.id])
        return {each.partition: each.offset for each in answer.topic_partitions if each.offset >= 0}

    def bounds(self) -> Mapping[int, tuple[int, int]]:
        """Return each partition's first offset and the one that comes next."""
        firsts, ends = self._listed(_SPEC.earliest()), self._listed(_SPEC.latest())
        return {partition: (first, ends[partition]) for partition, first in firsts.items()}

    def since(self, time_ms: int) -> Mapping[int, int]:
        """Return the first offset of each partition written at this time or later, or its end."""
        found, ends = self._listed(_SPEC.for_timestamp(time_ms)), self.bounds()
        return {each: at if at >= 0 else ends[each][1] for each, at in found.items()}

    def set(self, next_offsets: Mapping[int, int]) -> None:
        """Have the group begin there; refused by the broker while it has members."""
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
