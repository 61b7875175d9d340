"""The log of accepted records: reading it as a member of a group, and appending to it.

Every record of a partition has an offset, growing, not necessarily dense.  "Next offset"
always means the offset of the next record to read.  The reading side tells offsets as they are
kept (``actors.model.log_offset``): those of a topic that was made anew are above all that its
predecessor had.  The appending side and ``GroupOffsets`` have the broker's own.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple, Protocol

import msgspec

from actors.model.codec import Headers, LogRecord
from actors.model.errors import HourhandError


class Position(NamedTuple):
    """Where an appended record stands."""

    partition: int
    offset: int


class StartPosition(msgspec.Struct, frozen=True):
    """Where reading of an assigned partition begins, and where its log ended just then."""

    next_offset: int
    end_offset: int
    topic_id: str = ""
    """Tells the topic from others of its name, before and after; empty where nobody can."""


class Polled(msgspec.Struct, frozen=True):
    """What one poll brought."""

    records: Sequence[LogRecord] = ()
    reached: Mapping[int, int] = msgspec.field(default_factory=dict)
    """Partition to next offset, for every partition that advanced: past its last record,
    or past control records up to the end of the log, where there is no record to tell."""
    waiting: Mapping[int, str] = msgspec.field(default_factory=dict)
    """Partition to why nothing more of it can be read, though its log goes on; told with each poll
    for as long as that lasts."""


class AssignmentListener(Protocol):
    """Told of changes of ownership, always on the thread that polls."""

    def assigned(self, partitions: Sequence[int]) -> None:
        """These partitions are this member's; nothing of them is delivered before ``start``."""

    def revoking(self, partitions: Sequence[int]) -> "Future[Mapping[int, int]]":
        """These partitions are about to go to another member.

        The log waits for the future (bounded), commits the next offsets it resolves to, and
        only then lets go.  The listener may not wait for the polling thread.
        """

    def lost(self, partitions: Sequence[int]) -> None:
        """These partitions went to another member already: nothing may be committed."""


class TaskLog(Protocol):
    """The reading side, used from one thread.

    ``poll`` returns records of started partitions, each partition's in order.  ``commit``
    only asks: that it was accepted shows in the lease.  Errors: LogUnavailable.
    """

    def subscribe(self, listener: AssignmentListener) -> None:
        """Join the group; partitions arrive through ``listener`` during later polls."""

    def start(
        self, partition: int, stored_next_offset: int | None, stored_topic_id: str = ""
    ) -> StartPosition:
        """Begin to deliver an assigned partition.

        From the higher of the group's committed offset and ``stored_next_offset``; without
        either, or where the log no longer holds it, from the earliest record.  So it does where
        ``stored_topic_id`` is another topic's: the era of what it delivers is one higher then.
        """

    def seek(self, partition: int, next_offset: int | None) -> None:
        """Deliver a started partition once more, from ``next_offset``; with None nothing of it
        until the next call, and nothing of it is fetched meanwhile.
        """

    def poll(self, records_max: int, timeout_ms: int) -> Polled:
        """Return up to ``records_max`` records, waiting at most ``timeout_ms`` for the first.

        With 0 records only membership is served.  Listener methods run inside.  Where the topic
        was made anew all partitions are revoked and assigned again: each is to be started anew.
        """

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        """Ask to store these next offsets, changed or not; one request in flight at a time."""

    def lease_ends_ms(self) -> float:
        """Return the monotonic time until which no other member can own what this one owns.

        Read by worker threads too.  ``-inf`` without membership, ``inf`` where a lock
        guards ownership.
        """

    def close(self) -> None:
        """Leave the group, revoking what is still assigned."""


class AppendListener(Protocol):
    """Hears what became of a record: one of both, once."""

    def set_result(self, result: Position) -> None:
        """Take where the record stands."""

    def set_exception(self, exception: BaseException) -> None:
        """Take why the log may not hold it."""


class AppendGroup(Protocol):
    """Records that one thread appends one after another, and hears of together.

    They are numbered from 0 in the order of ``append``, which takes records of a group that is
    settled no more.  Each is on its way when ``append`` returns, or some hundredths of a second
    later, with others.  Partitions keep their order, as with ``LogWriter.append``, between a
    group's records and single ones, too.
    """

    def append(self, ordering_id: str, value: bytes) -> None:
        """Append a task record, keyed by its ordering id, to the partition of that id.

        Raises TaskTooLarge, NodeStopped and LogUnavailable where the record was not taken;
        it then has no number.
        """

    def settle(self) -> Mapping[int, HourhandError]:
        """Wait, as long as for a future, until each record is acknowledged or has failed.

        Return the failures by number.
        """


class LogWriter(Protocol):
    """The appending side, used from any thread.

    Futures resolve when all in-sync replicas hold the record, and fail with LogUnavailable
    within a bounded time.  Appends of one partition keep their order.
    """

    def partition_count(self) -> int:
        """Return the topic's number of partitions; bounded wait, LogUnavailable, TopicMissing."""

    def append(
        self, partition: int, key: bytes, value: bytes, headers: Headers = ()
    ) -> "Future[Position]":
        """Append a record to the task topic; TaskTooLarge where the log refuses its size."""

    def append_for(
        self, appended: AppendListener, partition: int, key: bytes, value: bytes
    ) -> None:
        """Append a record without headers, and have ``appended`` told in place of a future."""

    def begin_group(self) -> AppendGroup:
        """Return a group for records of the task topic that nobody needs to hear of singly."""

    def dead_letter(self, record: LogRecord, reason: str) -> "Future[Position]":
        """Append a record to the dead-letter topic, unchanged.

        Headers are added for the reason and for the topic, partition and offset it stood at.
        Where that is too large, the letter has these headers alone, and one that says so.
        """

    def flush(self, timeout_ms: int) -> int:
        """Wait for what was appended; return how many records are still unacknowledged."""

    def close(self) -> None:
        """Flush within a bounded time and let go of connections."""


class GroupOffsets(Protocol):
    """The offsets of the nodes' group, for an operator; errors: LogUnavailable."""

    def members(self) -> int:
        """Return how many nodes the group has now."""

    def committed(self) -> Mapping[int, int]:
        """Return the group's next offsets, where it has any."""

    def bounds(self) -> Mapping[int, tuple[int, int]]:
        """Return each partition's first offset and the one that comes next."""

    def since(self, time_ms: int) -> Mapping[int, int]:
        """Return the first offset of each partition written at this time or later, or its end."""

    def set(self, next_offsets: Mapping[int, int]) -> None:
        """Have the group begin there; LogUnavailable while it has members."""
