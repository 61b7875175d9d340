"""Asks group and broker what decides where reading of a partition begins."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from actors.model.errors import LogUnavailable
from actors.model.log_offset import broker_offset
from actors.ports.clock import Clock
from scheduler.adapters.kafka.commits import CommitNote, note_of
from scheduler.adapters.kafka.connection import (
    LastError,
    admin_client,
    bounds_of,
    describe_topic,
    opened,
    translated,
)
from scheduler.adapters.kafka.topics import identity_of
from scheduler.configuration.settings import Settings
from scheduler.consumer.beginning import Beginning, Found, Noted, chosen_beginning
from scheduler.consumer.store_identity import StoreIdentity, require_one_store
from scheduler.process.pause import pause

logger = logging.getLogger("hourhand.kafka")

_ANSWER_S_MAX = 1.0
"""Longest wait for one answer: the polling thread waits too, and is needed for the lease of what
is read already.  Who gets none asks again."""
_ANSWER_MS_OLD = 2_000
"""An answer so old is not taken: the store took its time, or the tree had to be built."""
_ASKED_AT_ONCE = 8
_SECOND_LOOKS = 3
_SECOND_LOOK_PAUSE_S = 0.2


class Committed(NamedTuple):
    """A next offset that the group keeps, and what was noted with it."""

    next_offset: int | None
    note: CommitNote


def committed_of(answer: TopicPartition) -> Committed:
    """Return what the coordinator answered for a partition; raises KafkaException."""
    if answer.error is not None:
        raise KafkaException(answer.error)
    next_offset = answer.offset if answer.offset >= 0 else None
    return Committed(next_offset, note_of(answer.metadata))


class _PositionQuery(NamedTuple):
    """What is asked for a partition, and when (monotonic time)."""

    at_ms: float
    committed: "Future[Mapping[int, Committed]]"
    bounds: "Future[tuple[int, int]]"
    topic_id: "Future[str]"


class StartingPositions:
    """Asks for partitions from the moment they are assigned, side by side, on threads of its own.

    Meanwhile the store is asked to claim them, so that a partition that changes hands waits for
    the slower of the two.  Fetches nothing and never joins the group: on the member's own
    connection every answer would wait behind a fetch that waits for records.
    """

    def __init__(
        self,
        properties: dict[str, Any],
        settings: Settings,
        last_error: LastError,
        clock: Clock,
        store: StoreIdentity,
    ) -> None:
        """``store`` is what the group is read for."""
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
        """Begin to ask for partitions that are about to be started."""
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
        """Ask which topic of its name there is; empty where the broker does not name topics."""
        return self._pool.submit(self._topic_id)

    def require_own_group(self, partitions: Sequence[int]) -> None:
        """Raise GroupShared where the group was read for another store; LogUnavailable."""
        try:
            self._pool.submit(self._committed, partitions).result(_ANSWER_S_MAX)
        except (KafkaException, FutureTimeoutError):
            # The coordinator may still be looked for: each partition is asked for once more.
            logger.debug("the group's offsets are not known yet")

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop what was asked for partitions that are gone."""
        for partition in partitions:
            self._asked.pop(partition, None)

    def committed(self) -> dict[int, int]:
        """Return the next offsets that the group is known to have, of partitions not taken yet."""
        known = {}
        for partition, asked in self._asked.items():
            answer = asked.committed
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                next_offset = answer.result()[partition].next_offset
                if next_offset is not None:
                    known[partition] = next_offset
        return known

    def take(self, partition: int, noted: Noted) -> Beginning:
        """Choose where to begin; LogUnavailable where the broker does not answer."""
        asked = self._asked.pop(partition, None)
        try:
            if asked is None or self._clock.monotonic_ms() - asked.at_ms > _ANSWER_MS_OLD:
                # What came to the log since would not be waited for (P4).
                found = self._look(partition)
            else:
                found = _found(asked, partition)
            stored = broker_offset(noted.next_offset or 0)
            # Just after a change of leader a partition may look shorter than it is; believing
            # that would mean to read all of it again.
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
        """Ask no more."""
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
        """Have the driver look who leads: it asks the leader it remembers, and a client that reads
        nothing remembers one that is gone for five minutes.
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
