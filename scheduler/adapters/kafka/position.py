"""Asks group and broker for the positions at which reading of partitions begins."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.actors.model.values.log_offset import broker_offset
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.adapters.kafka.commits import CommitNote, note_of
from hourhand.scheduler.adapters.kafka.connection import (
    LastError,
    admin_client,
    bounds_of,
    describe_topic,
    opened,
    translated,
)
from hourhand.scheduler.adapters.kafka.topics import identity_of
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.ports.beginning import Beginning, Found, Noted, chosen_beginning
from hourhand.scheduler.ports.store_identity import StoreIdentity, require_one_store
from hourhand.scheduler.runtime.pause import pause

logger = logging.getLogger("hourhand.kafka")

_ANSWER_S_MAX = 1.0
"""Longest wait for one answer: the polling thread waits too, and is needed for the lease of other
partitions. Without an answer the caller asks again."""
_ANSWER_MS_OLD = 2_000
"""An older answer is not used: the store was slow, or the tree had to be built."""
_ASKED_AT_ONCE = 8
_SECOND_LOOKS = 3
_SECOND_LOOK_PAUSE_S = 0.2


class Committed(NamedTuple):
    """A next offset that the group keeps, with the metadata of its commit."""

    next_offset: int | None
    note: CommitNote


def committed_of(answer: TopicPartition) -> Committed:
    """Return the coordinator's answer for a partition; raises KafkaException."""
    if answer.error is not None:
        raise KafkaException(answer.error)
    next_offset = answer.offset if answer.offset >= 0 else None
    return Committed(next_offset, note_of(answer.metadata))


class _PositionQuery(NamedTuple):
    """The pending requests about a partition, and their time (monotonic)."""

    at_ms: float
    committed: "Future[Mapping[int, Committed]]"
    bounds: "Future[tuple[int, int]]"
    topic_id: "Future[str]"


class StartingPositions:
    """Asks for partitions from the moment of their assignment, concurrently, on threads of its own.

    The store claims them at the same time, so a partition that changes hands waits only for the
    slower of the two. It never fetches or joins the group: on the member's own connection every
    answer would wait behind a fetch that waits for records.
    """

    def __init__(
        self,
        properties: dict[str, Any],
        settings: Settings,
        last_error: LastError,
        clock: Clock,
        store: StoreIdentity,
    ) -> None:
        """``store`` identifies the store of this installation."""
        self._consumer: Any = opened(Consumer, properties)
        self._admin = admin_client(settings, last_error)
        self._settings = settings
        self._last_error = last_error
        self._clock = clock
        self._store = store
        self._timeout_s = min(_ANSWER_S_MAX, settings.kafka.connect_timeout_ms / 1000)
        self._pool = ThreadPoolExecutor(_ASKED_AT_ONCE, "hourhand-positions")
        self._asked: dict[int, _PositionQuery] = {}

    def ask(self, partitions: Iterable[int]) -> None:
        """Begin to ask for partitions that will be started soon."""
        now_ms, together = self._clock.monotonic_ms(), tuple(partitions)
        if not together:
            return
        refreshed = self._pool.submit(self._refresh)
        committed = self._pool.submit(self._committed, together)
        topic_id = self.ask_topic_id()

        def bounds(partition: int) -> tuple[int, int]:
            refreshed.result()
            return self._bounds(partition)

        for partition in together:
            asked = self._pool.submit(bounds, partition)
            self._asked[partition] = _PositionQuery(now_ms, committed, asked, topic_id)

    def ask_topic_id(self) -> "Future[str]":
        """Ask for the topic's id; empty if the broker has no ids of topics."""
        return self._pool.submit(self._topic_id)

    def require_own_group(self, partitions: Sequence[int]) -> None:
        """Raise GroupShared if the group is used with another store; LogUnavailable."""
        try:
            self._pool.submit(self._committed, partitions).result(_ANSWER_S_MAX)
        except (KafkaException, FutureTimeoutError):
            # The coordinator may not be known yet: each partition is asked for once more.
            logger.debug("the group's offsets are not known yet")

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop answers for partitions that are gone."""
        for partition in partitions:
            self._asked.pop(partition, None)

    def committed(self) -> dict[int, int]:
        """Return the group's known next offsets, of partitions that are not taken yet."""
        known = {}
        for partition, asked in self._asked.items():
            answer = asked.committed
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                next_offset = answer.result()[partition].next_offset
                if next_offset is not None:
                    known[partition] = next_offset
        return known

    def take(self, partition: int, noted: Noted) -> Beginning:
        """Return the position at which to begin; LogUnavailable if the broker does not answer."""
        asked = self._asked.pop(partition, None)
        try:
            if asked is None or self._clock.monotonic_ms() - asked.at_ms > _ANSWER_MS_OLD:
                # With an old answer, records that arrived since would not be waited for (P4).
                found = self._look(partition)
            else:
                found = _found(asked, partition)
            stored = broker_offset(noted.next_offset or 0)
            # Just after a change of leader a partition may look shorter than it is; with that end
            # all of it would be read again.
            for _ in range(_SECOND_LOOKS):
                if max(found.committed or 0, stored) <= found.end:
                    break
                pause(_SECOND_LOOK_PAUSE_S)
                found = self._look(partition)
        except KafkaException as error:
            what = f"asking where partition {partition} begins"
            raise translated(error.args[0], self._settings, self._last_error, what) from error
        except FutureTimeoutError as error:
            raise LogUnavailable(
                f"Kafka did not say within {_ANSWER_S_MAX:g} s where partition {partition} begins"
            ) from error
        beginning = chosen_beginning(noted, found)
        if beginning.complaint:
            logger.warning("partition %s: %s", partition, beginning.complaint)
        return beginning

    def close(self) -> None:
        """Stop asking."""
        self._pool.shutdown(cancel_futures=True)
        self._consumer.close()

    def _look(self, partition: int) -> Found:
        topic_id = self.ask_topic_id()
        self._refresh()
        committed = self._committed((partition,))[partition]
        bounds = self._bounds(partition)
        told = topic_id.result(_ANSWER_S_MAX)
        return Found(committed.next_offset, *bounds, told, committed.note.topic_id)

    def _topic_id(self) -> str:
        settings = self._settings
        name = settings.topic.name
        return identity_of(describe_topic(settings, name, self._admin, self._last_error))

    def _refresh(self) -> None:
        """Make the driver refresh leaders: it asks the leader that it remembers, and a client that
        reads nothing remembers a dead one for five minutes.
        """
        self._consumer.list_topics(self._settings.topic.name, timeout=self._timeout_s)

    def _committed(self, partitions: Sequence[int]) -> Mapping[int, Committed]:
        topic = self._settings.topic.name
        asked = [TopicPartition(topic, partition) for partition in partitions]
        answers = self._consumer.committed(asked, timeout=self._timeout_s)
        found = {each.partition: committed_of(each) for each in answers}
        for each in found.values():
            require_one_store(self._store, each.note.store, self._settings.group.id, topic)
        return found

    def _bounds(self, partition: int) -> tuple[int, int]:
        return bounds_of(
            self._consumer,
            self._settings,
            self._settings.topic.name,
            partition,
            self._last_error,
            self._timeout_s,
        )


def _found(asked: _PositionQuery, partition: int) -> Found:
    committed = asked.committed.result(_ANSWER_S_MAX)[partition]
    bounds = asked.bounds.result(_ANSWER_S_MAX)
    told = asked.topic_id.result(_ANSWER_S_MAX)
    return Found(committed.next_offset, *bounds, told, committed.note.topic_id)
