"""The log of accepted records: reading it as a member of a group, and appending to it.

Every record of a partition has an offset, growing, not necessarily dense.  "Next offset"
always means the offset of the next record to read.  The reading side tells offsets as they are
kept (``hourhand.actors.model.values.log_offset``): those of a topic that was recreated are above
all that its predecessor had.  The appending side and ``GroupOffsets`` have the broker's own.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple, Protocol

import msgspec

from hourhand.actors.model.task.codec import Headers, LogRecord
from hourhand.actors.model.values.errors import HourhandError


class Position(NamedTuple):
    """The place of an appended record."""

    partition: int
    offset: int


class StartPosition(msgspec.Struct, frozen=True):
    """The begin of reading of an assigned partition, and the end of its log at that time."""

    next_offset: int
    end_offset: int
    topic_id: str = ""
    """Distinguishes the topic from earlier and later ones of its name; empty if unknown."""


class Polled(msgspec.Struct, frozen=True):
    """The result of one poll."""

    records: Sequence[LogRecord] = ()
    reached: Mapping[int, int] = msgspec.field(default_factory=dict)
    """Partition to next offset, for every partition that advanced: past its last record,
    or past control records up to the end of the log, where there is no record to tell."""
    waiting: Mapping[int, str] = msgspec.field(default_factory=dict)
    """By partition, the reason why nothing more of it can be read, though its log goes on; in each
    poll for as long as that lasts."""


class AssignmentListener(Protocol):
    """Gets changes of ownership, always on the thread that polls."""

    def assigned(self, partitions: Sequence[int]) -> None:
        """These partitions are this member's; nothing of them is delivered before ``start``."""

    def revoking(self, partitions: Sequence[int]) -> "Future[Mapping[int, int]]":
        """These partitions are about to go to another member.

        The log waits for the future, for a bounded time, commits the next offsets that it resolves
        to, and only then releases them. The listener may not wait for the polling thread.
        """

    def lost(self, partitions: Sequence[int]) -> None:
        """These partitions already went to another member: nothing may be committed."""


class TaskLog(Protocol):
    """The reading side, used from one thread.

    ``poll`` returns records of started partitions, each partition's in order. ``commit`` is only a
    request: the lease shows that it was accepted. Errors: LogUnavailable.
    """

    def subscribe(self, listener: AssignmentListener) -> None:
        """Join the group; partitions arrive through ``listener`` during later polls."""

    def start(
        self, partition: int, stored_next_offset: int | None, stored_topic_id: str = ""
    ) -> StartPosition:
        """Begin to deliver an assigned partition.

        From the higher of the group's committed offset and ``stored_next_offset``; without either,
        or if the log no longer holds it, from the earliest record. The same if ``stored_topic_id``
        is another topic's: the era of its offsets is one higher then.
        """

    def seek(self, partition: int, next_offset: int | None) -> None:
        """Deliver a started partition again from ``next_offset``; with None nothing of it until the
        next call, and nothing of it is fetched meanwhile.
        """

    def poll(self, records_max: int, timeout_ms: int) -> Polled:
        """Return up to ``records_max`` records, waiting at most ``timeout_ms`` for the first.

        With 0 records only the group's protocol is served. Listener methods run inside. If the
        topic was made again all partitions are revoked and assigned again: each must be started
        again.
        """

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        """Request a commit of these next offsets, changed or not; one request in flight at a
        time.
        """

    def lease_ends_ms(self) -> float:
        """Return the monotonic time until which no other member can own this member's partitions.

        Read by worker threads too. ``-inf`` without membership, ``inf`` if a lock guards ownership.
        """

    def close(self) -> None:
        """Leave the group, and revoke partitions that are still assigned."""


class AppendListener(Protocol):
    """Gets the result of a record: one of both methods is called, once."""

    def set_result(self, result: Position) -> None:
        """Handle the record's place."""

    def set_exception(self, exception: BaseException) -> None:
        """Handle the reason why the log may not hold it."""


class AppendGroup(Protocol):
    """Records that one thread appends one after another, and whose results it gets together.

    They are numbered from 0 in the order of ``append``, which takes no records after ``settle``.
    Each is on its way when ``append`` returns, or some hundredths of a second later, with others.
    Partitions keep their order, as with ``LogWriter.append``, between a group's records and single
    ones, too.
    """

    def append(self, ordering_id: str, value: bytes) -> None:
        """Append a task record, keyed by its ordering id, to the partition of that id.

        Raises TaskTooLarge, NodeStopped and LogUnavailable if the record was not taken; it then has
        no number.
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
        """Append a record to the task topic; TaskTooLarge if the log refuses its size."""

    def append_for(
        self, appended: AppendListener, partition: int, key: bytes, value: bytes
    ) -> None:
        """Append a record without headers, and call ``appended`` instead of a future."""

    def begin_group(self) -> AppendGroup:
        """Return a group for records of the task topic without single results."""

    def dead_letter(self, record: LogRecord, reason: str) -> "Future[Position]":
        """Append a record to the dead-letter topic, unchanged.

        Headers are added for the reason and for the original topic, partition and offset. If that
        is too large, the letter has only these headers, and one that marks it.
        """

    def flush(self, timeout_ms: int) -> int:
        """Wait for appended records; return the number of unacknowledged ones."""

    def close(self) -> None:
        """Flush within a bounded time and close connections."""


class GroupOffsets(Protocol):
    """The offsets of the nodes' group, for an operator; errors: LogUnavailable."""

    def members(self) -> int:
        """Return the group's number of nodes."""

    def committed(self) -> Mapping[int, int]:
        """Return the group's next offsets, for partitions that have one."""

    def bounds(self) -> Mapping[int, tuple[int, int]]:
        """Return each partition's first offset and the next one to be written."""

    def since(self, time_ms: int) -> Mapping[int, int]:
        """Return the first offset of each partition written at this time or later, or its end."""

    def set(self, next_offsets: Mapping[int, int]) -> None:
        """Set the group's offsets; LogUnavailable while it has members."""
