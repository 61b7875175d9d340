"""``TaskLog`` on a Kafka consumer group.

An assigned partition stays paused until ``start`` sets its position. All of the driver's callbacks
run inside ``poll`` or ``close``. While one waits for a revocation to be drained, the driver's own
threads go on sending heartbeats.
"""

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from msgspec.structs import replace

from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.actors.model.values.log_offset import broker_offset, era_of, kept_offset
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import AssignmentListener, Polled, StartPosition
from hourhand.scheduler.adapters.kafka.closing import close_client, close_within
from hourhand.scheduler.adapters.kafka.commits import CommitNote, MembershipLease, OffsetCommits
from hourhand.scheduler.adapters.kafka.connection import (
    LastError,
    admin_client,
    describe_topic,
    opened,
    shared_properties,
)
from hourhand.scheduler.adapters.kafka.fetching import Fetching
from hourhand.scheduler.adapters.kafka.heartbeats import (
    STATISTICS_MS_MAX,
    HeartbeatLease,
    check_session,
)
from hourhand.scheduler.adapters.kafka.open_transactions import OpenTransactions
from hourhand.scheduler.adapters.kafka.position import StartingPositions
from hourhand.scheduler.adapters.kafka.topic_watch import TopicWatch
from hourhand.scheduler.adapters.kafka.topics import identity_of, topic_warnings
from hourhand.scheduler.configuration.settings import GroupSettings, Settings
from hourhand.scheduler.ports.beginning import Noted
from hourhand.scheduler.ports.store_identity import StoreIdentity

logger = logging.getLogger("hourhand.kafka")

_LEAVE_S = 30.0
"""Longer than the driver's wait for a broker that is connected but silent."""
_LEAVE_POLL_S = 0.05
"""Duration of the polls that serve the callback of a revocation."""
_LEFT_POLL_S = 0.01
_LEFT_POLLS_MAX = 100
"""Polls within which a leaving member loses its name in the group."""
_REVOKE_MARGIN_S = 2.0
"""A drained tree may need this much longer to report its end."""
_WAKES_PER_HEARTBEAT = 4
FEW_WAIT_S = 0.002
"""Wait for more records where few come: a single record should arrive soon."""
MANY_WAIT_S = 0.02
"""Wait for more records where many come: less than the delay of reading them one by one."""
MANY_PER_S = 1_000
_WINDOW_MS = 100.0


class PollBatching:
    """The wait of a poll for more records after the first one: longer if many come.

    Every poll costs a round through the tree and, by partition, a request to the store; for a few
    records at a time these cost several times as much as together. It counts the records of one
    member's polls; times are monotonic.
    """

    def __init__(self) -> None:
        self._began_ms = 0.0
        self._records = 0
        self._many = False

    def note(self, records: int, now_ms: float) -> None:
        """Count the records of a poll."""
        self._records += records
        passed_ms = now_ms - self._began_ms
        if passed_ms >= _WINDOW_MS:
            self._many = self._records * 1000 >= MANY_PER_S * passed_ms
            self._began_ms, self._records = now_ms, 0

    @property
    def wait_s(self) -> float:
        """Seconds to wait for more records."""
        return MANY_WAIT_S if self._many else FEW_WAIT_S


class HeartbeatWaker:
    """Wakes the driver's main thread, without which heartbeats come late.

    librdkafka checks whether a heartbeat is due only when something else has woken that thread, at
    worst its timer of one second. Heartbeats then come about half as often as configured, and a
    member learns by a heartbeat that partitions wait for it. Used from the polling thread; times
    are monotonic.
    """

    def __init__(self, consumer: Any, heartbeat_interval_ms: int) -> None:
        self._consumer = consumer
        self._pause_ms = heartbeat_interval_ms / _WAKES_PER_HEARTBEAT
        self._next_ms = 0.0

    def polled(self, now_ms: float) -> None:
        """Wake the driver if it was not woken for a part of the interval."""
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + self._pause_ms
        # An empty commit is the one request that the driver's main thread takes without a wait for
        # the answer, which is that there was nothing.
        with contextlib.suppress(KafkaException):
            self._consumer.commit(offsets=[], asynchronous=True)


def lease_of(group: GroupSettings, clock: Clock) -> MembershipLease:
    """Return the lease for the protocol of a group."""
    return HeartbeatLease(group, clock) if group.protocol == "consumer" else MembershipLease(group)


def open_log(settings: Settings, clock: Clock, installation_id: Callable[[], str]) -> "KafkaLog":
    """Open a member of the group, and log configurations of the brokers that weaken the promises.

    ``installation_id`` returns the id of the store of this installation. Raises LogUnavailable and
    TopicMissing.
    """
    for warning in topic_warnings(settings):
        logger.warning("%s", warning)
    return KafkaLog(settings, clock, installation_id())


class KafkaLog:
    """One member of the group ``settings.group.id`` on ``settings.topic.name``.

    ``subscribe`` raises LogUnavailable and TopicMissing within ``kafka.connect_timeout_ms``, and
    GroupShared if the group is used with another store. During later failures the driver reconnects
    by itself, and the lease ends.
    """

    def __init__(self, settings: Settings, clock: Clock, installation_id: str = "") -> None:
        """``installation_id`` is the id of this installation's store, if there is one."""
        self._settings = settings
        self._store = StoreIdentity(installation_id, _store_name(settings))
        self._clock = clock
        self._topic = settings.topic.name
        self._by_broker = settings.group.protocol == "consumer"
        self._incremental = self._by_broker or settings.group.assignor == "cooperative-sticky"
        self._last_error = LastError()
        self._lease = lease_of(settings.group, clock)
        self._commits = OffsetCommits(
            self._topic, clock, self._lease, settings.group.session_timeout_ms
        )
        self._listener: AssignmentListener | None = None
        self._closed = False
        self._assigned: set[int] = set()
        self._consumer: Any = opened(Consumer, self._properties())
        self._fetching = Fetching(self._consumer, self._topic)
        self._batching = PollBatching()
        self._waker = HeartbeatWaker(self._consumer, settings.group.heartbeat_interval_ms)
        self._positions = StartingPositions(
            self._asking_properties(), settings, self._last_error, clock, self._store
        )
        self._watch = TopicWatch(self._positions.ask_topic_id, clock)
        self._transactions = OpenTransactions(self._known_end)
        self._shifts: dict[int, int] = {}
        """By started partition, the difference between the broker's offsets and the stored ones;
        only for a topic that was deleted and made again."""

    def subscribe(self, listener: AssignmentListener) -> None:
        """Check that brokers and topics are there, then join the group."""
        admin = admin_client(self._settings, self._last_error)
        described = describe_topic(self._settings, self._topic, admin, self._last_error)
        describe_topic(self._settings, self._settings.topic.dead_letter, admin, self._last_error)
        if self._by_broker:
            check_session(self._settings, admin, self._last_error)
        self._positions.require_own_group([each.id for each in described.partitions])
        self._listener = listener
        self._watch.begin(identity_of(described))
        self._join()

    def _join(self) -> None:
        self._consumer.subscribe(
            [self._topic],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )

    def start(
        self, partition: int, stored_next_offset: int | None, stored_topic_id: str = ""
    ) -> StartPosition:
        """Begin to deliver an assigned partition; LogUnavailable if the broker is silent."""
        if partition not in self._assigned:
            # Otherwise its offset would be committed from then on, whoever owns it.
            raise ValueError(f"partition {partition} is not assigned")
        noted = Noted(stored_next_offset, stored_topic_id)
        beginning = self._positions.take(partition, noted)
        if not self._watch.note(beginning.topic_id):
            raise LogUnavailable(f"topic {self._topic!r} was recreated since this node joined")
        self._shifts.pop(partition, None)
        if era := era_of(beginning.next_offset):
            self._shifts[partition] = kept_offset(era, 0)
        next_offset = broker_offset(beginning.next_offset)
        self._commits.note = CommitNote(self._watch.topic_id, self._store)
        self._commits.begin(partition, next_offset)
        self._fetching.begin(partition, next_offset)
        return StartPosition(beginning.next_offset, beginning.end_offset, beginning.topic_id)

    def seek(self, partition: int, next_offset: int | None) -> None:
        if next_offset is None:
            self._fetching.hold(partition)
        else:
            self._fetching.begin(partition, broker_offset(next_offset))

    def poll(self, records_max: int, timeout_ms: int) -> Polled:
        """Serve the group's protocol and return records; LogUnavailable on a fatal error only."""
        now_ms = self._clock.monotonic_ms()
        self._lease.polled(now_ms)
        self._waker.polled(now_ms)
        timeout_s = timeout_ms / 1000
        fetching = self._fetching
        for partition, next_offset in self._positions.committed().items():
            fetching.expect(partition, next_offset)
        if records_max == 0:
            fetching.fetch_ahead(timeout_s)
            polled = Polled()
            self._transactions.restart()
        else:
            fetching.fetch(records_max, timeout_s, self._batching.wait_s)
            polled = fetching.take(records_max)
            self._batching.note(len(polled.records), self._clock.monotonic_ms())
            self._transactions.look(fetching.ends, now_ms)
        self._commits.send_waiting(self._consumer)
        if other := self._watch.other():
            self._begin_anew(other)
            return Polled()
        if self._shifts:
            polled = _shifted(polled, self._shifts)
        waiting = self._transactions.waiting
        return replace(polled, waiting=waiting) if waiting else polled

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        """Request a commit of next offsets; those of other started partitions go along."""
        if not self._closed:
            self._commits.ask(self._consumer, _at_broker(next_offsets))

    def lease_ends_ms(self) -> float:
        """Return when the lease ends, by the clock's monotonic time."""
        return self._lease.ends_ms

    def close(self) -> None:
        """Revoke assigned partitions, leave the group, close connections."""
        if self._closed:
            return
        self._closed = True
        deadline_s = self._settings.tree.recovery.drain_deadline_ms / 1000
        try:
            # A last revocation may have to be drained before the broker is told.
            close_within(self._leave, deadline_s + _REVOKE_MARGIN_S + _LEAVE_S)
        finally:
            close_client(self._positions)
            self._lease.end()

    def _leave(self) -> None:
        """Give up assigned partitions, and only then close: a closing driver may never answer the
        callback of a revocation, which holds the interpreter meanwhile (librdkafka 4527).
        """
        self._consumer.unsubscribe()
        while self._assigned:
            self._consumer.poll(_LEAVE_POLL_S)
        # The driver gives up partitions in the background and leaves after that, unless it is
        # closed first: then the group notices only when the session has expired. Under the consumer
        # protocol it leaves in any case, and keeps its name.
        for _ in range(0 if self._by_broker else _LEFT_POLLS_MAX):
            if not self._consumer.memberid():
                break
            self._consumer.poll(_LEFT_POLL_S)
        self._consumer.close()

    def _known_end(self, partition: int) -> int | None:
        """Return a partition's end as of the last fetch, including uncommitted records."""
        place = TopicPartition(self._topic, partition)
        with contextlib.suppress(KafkaException):
            if bounds := self._consumer.get_watermark_offsets(place, cached=True):
                return int(bounds[1])
        return None

    def _begin_anew(self, topic_id: str) -> None:
        """Give all partitions up, and join again for those of the new topic."""
        logger.warning(
            "topic %r was recreated (id %s, before %s): its partitions are given up and read from"
            " their beginning; what the topic before held unread is gone",
            self._topic,
            topic_id,
            self._watch.topic_id,
        )
        self._consumer.unsubscribe()
        while self._assigned:
            self._consumer.poll(_LEAVE_POLL_S)
        self._lease.end()
        self._commits.abandon()
        self._watch.begin(topic_id)
        self._join()

    def _on_assign(self, consumer: Any, assigned: list[TopicPartition]) -> None:
        partitions = [each.partition for each in assigned]
        self._assigned.update(partitions)
        self._positions.ask(partitions)
        # Paused, and at an arbitrary offset: with a logical one (end, beginning, committed) the
        # driver asks the broker, and the answer may come after the seek of ``start``.
        held = [TopicPartition(self._topic, each, 0) for each in partitions]
        if self._incremental:
            consumer.incremental_assign(held)
        else:
            consumer.assign(held)
        if partitions and self._listener is not None:
            consumer.pause(held)
            self._listener.assigned(partitions)

    def _on_revoke(self, consumer: Any, revoked: list[TopicPartition]) -> None:
        partitions = [each.partition for each in revoked]
        if partitions and self._listener is not None:
            drained = self._drained(self._listener, partitions)
            self._commits.settle(consumer, _at_broker(drained))
        self._let_go(consumer, revoked, partitions)

    def _on_lost(self, consumer: Any, lost: list[TopicPartition]) -> None:
        partitions = [each.partition for each in lost]
        self._lease.end()
        self._commits.abandon()
        logger.warning("membership lost, with partitions %s", sorted(partitions))
        if partitions and self._listener is not None:
            self._listener.lost(partitions)
        self._let_go(consumer, lost, partitions)

    def _drained(
        self, listener: AssignmentListener, partitions: Sequence[int]
    ) -> Mapping[int, int]:
        deadline_ms = self._settings.tree.recovery.drain_deadline_ms
        try:
            return listener.revoking(partitions).result(deadline_ms / 1000 + _REVOKE_MARGIN_S)
        except FutureTimeoutError:
            logger.warning(
                "partitions %s were not drained within %s ms; nothing of them is committed",
                sorted(partitions),
                deadline_ms,
            )
        except Exception:
            # Partitions are given up after any failure: without a commit they are read again.
            logger.exception("draining partitions %s failed", sorted(partitions))
        return {}

    def _let_go(self, consumer: Any, held: list[TopicPartition], partitions: Sequence[int]) -> None:
        self._assigned.difference_update(partitions)
        self._commits.forget(partitions)
        self._positions.forget(partitions)
        self._fetching.forget(partitions)
        if self._incremental:
            consumer.incremental_unassign(held)
        else:
            consumer.unassign()

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        self._commits.answered(error, partitions)

    def _asking_properties(self) -> dict[str, Any]:
        chosen = self._settings.kafka.consumer_properties
        return {
            **shared_properties(self._settings, chosen, self._last_error),
            "group.id": self._settings.group.id,
        }

    def _protocol_properties(self, group: GroupSettings) -> dict[str, Any]:
        if isinstance(self._lease, HeartbeatLease):
            return {
                "statistics.interval.ms": min(STATISTICS_MS_MAX, group.commit_interval_ms),
                "stats_cb": self._lease.observe,
            }
        return {
            "partition.assignment.strategy": group.assignor,
            "session.timeout.ms": group.session_timeout_ms,
            "heartbeat.interval.ms": group.heartbeat_interval_ms,
        }

    def _properties(self) -> dict[str, Any]:
        group = self._settings.group
        if group.session_timeout_ms > group.max_poll_interval_ms:
            raise LogUnavailable(
                f"group.max_poll_interval_ms {group.max_poll_interval_ms} must not be below"
                f" group.session_timeout_ms {group.session_timeout_ms}: Kafka refuses it"
            )
        chosen = {
            # Bounds the fetched records in memory (P13); a full queue is checked again after a few
            # milliseconds instead of a second.
            "queued.max.messages.kbytes": "16384",
            "fetch.queue.backoff.ms": "5",
            **self._settings.kafka.consumer_properties,
        }
        return {
            **shared_properties(self._settings, chosen, self._last_error),
            "group.id": group.id,
            "group.protocol": group.protocol,
            **self._protocol_properties(group),
            "max.poll.interval.ms": group.max_poll_interval_ms,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            # The end of a partition is reported too, which skips control records.
            "enable.partition.eof": True,
            "on_commit": self._on_commit,
        }


def _store_name(settings: Settings) -> str:
    """Return an operator's name for the store."""
    if settings.store == "cassandra":
        return f"keyspace {settings.cassandra.keyspace}"
    return "an embedded folder"


def _at_broker(next_offsets: Mapping[int, int]) -> Mapping[int, int]:
    return {partition: broker_offset(offset) for partition, offset in next_offsets.items()}


def _shifted(polled: Polled, shifts: Mapping[int, int]) -> Polled:
    """Return polled records with offsets in their stored form."""
    reached = {each: shifts.get(each, 0) + offset for each, offset in polled.reached.items()}
    return Polled([_shifted_record(each, shifts) for each in polled.records], reached)


def _shifted_record(record: LogRecord, shifts: Mapping[int, int]) -> LogRecord:
    return replace(record, offset=shifts.get(record.partition, 0) + record.offset)
