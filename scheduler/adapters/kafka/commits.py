"""Offset commits: one in flight, each tied to the moment it was sent.

Every commit has a number in its metadata, which the answer returns. So an answer that comes late,
after a loss of membership or out of order, is never taken for the answer to a later commit, which
would extend the lease beyond the coordinator's grant. The metadata also name the topic, because the
group may keep an offset of a deleted one, and the store of the installation. The lease is the time
for which this member may rely on owning its partitions.
"""

import logging
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.configuration.settings import GroupSettings
from hourhand.scheduler.ports.store_identity import StoreIdentity

logger = logging.getLogger("hourhand.kafka")

_NOTE = re.compile(r"\d+;topic=(\w*);store=(\w*);(.*)", re.ASCII)


class CommitNote(NamedTuple):
    """The content of a commit's metadata; all fields are empty if another program wrote them."""

    topic_id: str = ""
    store: StoreIdentity = StoreIdentity()

    def text(self, number: int) -> str:
        """Return the metadata of a commit."""
        return f"{number};topic={self.topic_id};store={self.store.id};{self.store.name}"


def note_of(metadata: str | None) -> CommitNote:
    """Read a commit's metadata."""
    found = _NOTE.fullmatch(metadata or "")
    return (
        CommitNote() if found is None else CommitNote(found[1], StoreIdentity(*found.group(2, 3)))
    )


class MembershipLease:
    """The end of the lease, as monotonic milliseconds; written by the polling thread alone.

    Only arithmetic on given times. Another member can own a partition of ours once the coordinator
    gave us up: because it heard nothing for the session timeout, or because we did not poll for the
    poll interval. An accepted offset commit proves that we were a member when it was sent, so that
    moment counts, not the answer's.
    """

    def __init__(self, group: GroupSettings) -> None:
        self._session_reach_ms = group.session_timeout_ms - group.lease_margin_ms
        self._poll_reach_ms = group.max_poll_interval_ms - group.lease_margin_ms
        self._accepted_sent_ms = -math.inf
        self._polled_ms = -math.inf
        self.ends_ms = -math.inf
        """One float, replaced as a whole, so that other threads need no lock to read it."""

    def polled(self, now_ms: float) -> None:
        """Note the begin of a poll."""
        self._polled_ms = now_ms
        self._renew()

    def accepted(self, sent_ms: float) -> None:
        """Note that the coordinator accepted a commit that was sent at ``sent_ms``."""
        self._accepted_sent_ms = max(self._accepted_sent_ms, sent_ms)
        self._renew()

    def end(self) -> None:
        """Note the end of the membership; only a commit sent from now on renews the lease."""
        self._accepted_sent_ms = -math.inf
        self._renew()

    def _renew(self) -> None:
        self.ends_ms = min(
            self._accepted_sent_ms + self._session_reach_ms,
            self._polled_ms + self._poll_reach_ms,
        )


class OffsetCommits:
    """The offsets that this member asks the coordinator to store, and its answers.

    Used from the polling thread. ``positions`` holds the next offset of every started partition:
    all of them go with each commit, so that there is always one to send.
    """

    def __init__(
        self, topic: str, clock: Clock, lease: MembershipLease, answer_timeout_ms: int
    ) -> None:
        self._topic = topic
        self._clock = clock
        self._lease = lease
        self._answer_timeout_ms = answer_timeout_ms
        self._positions: dict[int, int] = {}
        self._accepted: dict[int, int] = {}
        """The offsets of these partitions in the coordinator's last answer."""
        self.note = CommitNote()
        """The metadata of each commit."""
        self._number = 0
        self._in_flight: tuple[str | None, float] | None = None
        self._waiting = False

    def begin(self, partition: int, next_offset: int) -> None:
        """Note that a partition was started at an offset."""
        self._positions[partition] = next_offset
        self._accepted.pop(partition, None)

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop partitions that went to another member."""
        for partition in partitions:
            self._positions.pop(partition, None)
            self._accepted.pop(partition, None)

    def abandon(self) -> None:
        """Ignore the pending answer: it belongs to a membership that ended."""
        self._in_flight = None
        self._waiting = False
        self._accepted.clear()

    def ask(self, consumer: Any, next_offsets: Mapping[int, int]) -> None:
        """Send a commit now, or when the one in flight is answered."""
        for partition, next_offset in next_offsets.items():
            if partition in self._positions:
                self._positions[partition] = next_offset
        if self._in_flight is not None:
            _, sent_ms = self._in_flight
            if self._clock.monotonic_ms() < sent_ms + self._answer_timeout_ms:
                self._waiting = True
                return
        self._send(consumer)

    def answered(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """Handle the coordinator's answer; called by the driver on the polling thread."""
        note = next((each.metadata for each in partitions), None)
        if self._in_flight is None or note != self._in_flight[0]:
            return
        sent_ms = self._in_flight[1]
        self._in_flight = None
        failed = error or next((each.error for each in partitions if each.error), None)
        if failed is None:
            self._lease.accepted(sent_ms)
            kept = {each.partition: each.offset for each in partitions}
            self._accepted.update({p: o for p, o in kept.items() if p in self._positions})
        else:
            logger.warning("offset commit refused: %s: %s", failed.name(), failed.str())

    def send_waiting(self, consumer: Any) -> None:
        """Send the commit that was requested while another was in flight."""
        if self._waiting and self._in_flight is None:
            self._send(consumer)

    def settle(self, consumer: Any, next_offsets: Mapping[int, int]) -> None:
        """Commit the last offsets of partitions that are given up, and wait for the answer, unless
        the coordinator already has them: the next owner waits as long.

        The driver bounds the wait: by the session timeout without a coordinator, by its socket
        timeout with a silent one. It lets no other thread commit inside a callback. After a failed
        commit the next owner reads records again.
        """
        held = {p: o for p, o in next_offsets.items() if p in self._positions}
        offsets = {p: o for p, o in held.items() if self._accepted.get(p) != o}
        if not offsets:
            return
        sent_ms = self._clock.monotonic_ms()
        try:
            answer = consumer.commit(offsets=self._partitions(offsets), asynchronous=False)
        except KafkaException as error:
            logger.warning("the final commit of %s failed: %s", offsets, error)
            return
        refused = next((each.error for each in answer if each.error), None)
        if refused is None:
            self._lease.accepted(sent_ms)
        else:
            logger.warning("the final commit of %s was refused: %s", offsets, refused.str())

    def _send(self, consumer: Any) -> None:
        self._waiting = False
        if not self._positions:
            return
        offsets = self._partitions(self._positions)
        self._in_flight = (offsets[0].metadata, self._clock.monotonic_ms())
        try:
            consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            self._in_flight = None
            logger.warning("offset commit not sent: %s", error)

    def _partitions(self, offsets: Mapping[int, int]) -> list[TopicPartition]:
        self._number += 1
        note = self.note.text(self._number)
        return [
            TopicPartition(self._topic, partition, offset, note)
            for partition, offset in offsets.items()
        ]
