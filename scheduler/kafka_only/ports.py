"""Ports to read, produce and record progress, in steps that happen completely or not at all."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

import msgspec

from hourhand.actors.model.task.codec import Headers
from hourhand.actors.ports.log import AssignmentListener, Polled, Position, StartPosition


class Outgoing(msgspec.Struct, frozen=True):
    """A record to produce."""

    topic: str
    partition: int | None
    """None: chosen by the key, as Kafka's own producer does."""
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Refused(Exception):
    """One record can never be produced; nothing of its transaction took effect."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"record {number} of the transaction: {reason}")
        self.number = number
        """The record's position in the transaction, from 0."""
        self.reason = reason


class Fenced(Exception):
    """Another owner of the partition began: nothing of the transaction took effect."""


class PartitionTransactions(Protocol):
    """The transactions of one partition's owner, used from one thread.

    Their id follows the partition. After ``begin`` no earlier owner's transaction can take effect
    or is under way, and no old request can end a later transaction. Raises LogUnavailable if an
    effect is unknown, or if a request may still be on its way; ``begin`` then settles it.
    """

    def begin(self) -> bytes | None:
        """Fence every earlier owner, and return the last committed marker, if any."""

    def commit(self, outgoing: Sequence[Outgoing], next_offset: int, marker: bytes | None) -> None:
        """Produce records and marker and set the group's next offset, all or nothing.

        A marker holds the offset and more, so with one the group's offset may follow later. Raises
        Refused, Fenced, LogUnavailable.
        """

    def close(self) -> None:
        """Close connections; an uncommitted transaction never takes effect."""


class HeldLog(Protocol):
    """The reading side: ``TaskLog`` without commits, with partitions that can be held back.

    Used from one thread, but ``transactions`` from any.
    """

    def subscribe(self, listener: AssignmentListener) -> None:
        """Join the group; partitions arrive through ``listener`` during later polls."""

    def start(self, partition: int, stored_next_offset: int | None) -> StartPosition:
        """Begin to deliver an assigned partition, as ``TaskLog`` does."""

    def poll(self, records_max: int, timeout_ms: int) -> Polled:
        """Return committed records, waiting at most ``timeout_ms`` for the first."""

    def hold(self, partition: int) -> None:
        """Deliver nothing more of a partition until it is released."""

    def release(self, partition: int) -> None:
        """Continue with a partition where it was held."""

    def transactions(self, partition: int) -> PartitionTransactions:
        """Open the transactions of an assigned partition; no request is sent before ``begin``."""

    def close(self) -> None:
        """Leave the group, and revoke partitions that are still assigned."""


class BucketAdmin(Protocol):
    """Reads the pending topic, and changes it while members run.

    Usable from any thread; raises LogUnavailable and TopicMissing.
    """

    def delay_ms_max(self) -> int:
        """Return the longest delay that may wait; SettingsInvalid if retention is too short."""

    def layout(self) -> bytes | None:
        """Return the newest published layout; None if there is none."""

    def partition_count(self) -> int:
        """Return the number of partitions of the pending topic."""

    def occupancy(self) -> Mapping[int, int]:
        """Return the approximate number of waiting records in each partition."""

    def add_partition(self) -> int:
        """Add a partition to pending and marker topic and return the new count."""

    def close(self) -> None:
        """Close the connections."""


class PendingWriter(Protocol):
    """Appends messages to the pending topic, each on its own; used from any thread."""

    def append_message(
        self, partition: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "Future[Position]":
        """Append a message; the future fails with TaskTooLarge or LogUnavailable."""

    def knows(self, partition: int) -> bool:
        """True if a partition can be written; asks the broker about new ones."""

    def close(self) -> None:
        """Wait for unacknowledged records, for a bounded time, and close connections."""


class BucketStorage(Protocol):
    """The parts of storage with Kafka alone; the caller closes each part that it opens."""

    def away_until_ms(self, topic: str, key: bytes | None) -> int | None:
        """Return the time (UTC) until which a target takes no message of a key; None if it takes
        them now.

        Usable from any thread; LogUnavailable.
        """

    def pending_log(self) -> HeldLog:
        """Open the pending topic, with markers."""

    def in_log(self) -> HeldLog:
        """Open the relay's in-topic, without markers."""

    def admin(self) -> BucketAdmin:
        """Open the port that reads and changes the pending topic."""

    def writer(self) -> PendingWriter:
        """Open the writer for clients."""
