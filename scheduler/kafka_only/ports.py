"""Reading, producing and noting how far one came, as one step that happens wholly or not at all."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

import msgspec

from actors.model.codec import Headers
from actors.ports.log import AssignmentListener, Polled, Position, StartPosition


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
        """Which one, counted from 0."""
        self.reason = reason


class Fenced(Exception):
    """Another owner of the partition began: nothing of the transaction took effect."""


class PartitionTransactions(Protocol):
    """The transactions of one partition's owner, used from one thread.

    Their id follows the partition.  After ``begin`` no transaction of an owner before can take
    effect any more, none is under way, and no request of before ends one of later.  Raises
    LogUnavailable where an effect is unknown, or where a request may still be on its way;
    ``begin`` then settles it.
    """

    def begin(self) -> bytes | None:
        """Fence every owner before, and return the marker last committed, if any."""

    def commit(self, outgoing: Sequence[Outgoing], next_offset: int, marker: bytes | None) -> None:
        """Produce records and marker and set the group's next offset, all or nothing.

        With a marker, which says the same and more, the group's offset may follow later.
        Raises Refused, Fenced, LogUnavailable.
        """

    def close(self) -> None:
        """Let go of connections; what is not committed never takes effect."""


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
        """Go on with a partition where it was held."""

    def transactions(self, partition: int) -> PartitionTransactions:
        """Open the transactions of an assigned partition; nothing is asked before ``begin``."""

    def close(self) -> None:
        """Leave the group, revoking what is still assigned."""


class BucketAdmin(Protocol):
    """What is known of the pending topic, and changed in it without stopping anybody.

    Usable from any thread; raises LogUnavailable and TopicMissing.
    """

    def delay_ms_max(self) -> int:
        """Return the longest delay that may wait; SettingsInvalid where retention is too short."""

    def layout(self) -> bytes | None:
        """Return the newest layout that was published; None where there is none."""

    def partition_count(self) -> int:
        """Return how many partitions the pending topic has."""

    def occupancy(self) -> Mapping[int, int]:
        """Return about how many records wait in each partition."""

    def add_partition(self) -> int:
        """Add a partition to pending and marker topic and return the new count."""

    def close(self) -> None:
        """Let go of connections."""


class PendingWriter(Protocol):
    """Appends messages to the pending topic, each on its own; used from any thread."""

    def append_message(
        self, partition: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "Future[Position]":
        """Append a message; the future fails with TaskTooLarge or LogUnavailable."""

    def knows(self, partition: int) -> bool:
        """Whether a partition can be appended to, asking the broker about new ones."""

    def close(self) -> None:
        """Wait (bounded) for what is unacknowledged and let go of connections."""


class BucketStorage(Protocol):
    """Everything that storage with Kafka alone works with; whoever opens a part closes it."""

    def away_until_ms(self, topic: str, key: bytes | None) -> int | None:
        """Return until when (UTC) a target takes no message of a key; None where it may.

        Usable from any thread; LogUnavailable.
        """

    def pending_log(self) -> HeldLog:
        """Open the pending topic, with markers."""

    def in_log(self) -> HeldLog:
        """Open the relay's in-topic, without."""

    def admin(self) -> BucketAdmin:
        """Open what asks and changes the pending topic."""

    def writer(self) -> PendingWriter:
        """Open what clients append by."""
