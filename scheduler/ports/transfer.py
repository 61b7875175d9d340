"""The port for moving a whole installation: rows that no other port shows, notes, and the log's
tail.

Nodes never call it. Every method waits; errors are StoreUnavailable and LogUnavailable. A store
that is being filled keeps a note of its progress, and a number of partitions that no topic has, so
that no node begins on half of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from hourhand.actors.model.operations.ownership import Claim
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.definition import Definition
from hourhand.actors.model.task.status import RecordedOutcome

UNFINISHED = 0
"""The number of partitions of a store that is still being filled."""


class OutcomeRow(NamedTuple):
    """The outcome of a command, and the place of its record in the log."""

    partition: int
    offset: int
    outcome: RecordedOutcome


class Span(NamedTuple):
    """The records of one partition in the log."""

    first: int
    """The first offset that is still there."""
    next: int
    """The next one to read: every record before it has had its effect."""
    end: int
    """The one that comes next."""


class TransferStore(Protocol):
    """One installation's store, as a job that moves all of it needs it."""

    def is_empty(self) -> bool:
        """True if no row of a task, completion, definition, outcome or owner is stored."""

    def read_note(self) -> str | None:
        """Return the note of a job that fills this store; None if there is none."""

    def write_note(self, note: str) -> bool:
        """Keep a note, and nodes out; False where a node has begun with the store."""

    def finish(self, partition_count: int | None) -> None:
        """Store the number of partitions and forget the note: nodes may begin.

        With None no number is left: as before the first note.
        """

    def scan_definitions(self, partition: int) -> Iterator[Sequence[Definition]]:
        """Yield a partition's definitions in pieces, ended and parked ones too."""

    def scan_outcomes(self, share: int, shares: int) -> Iterator[Sequence[OutcomeRow]]:
        """Yield one of ``shares`` parts of all outcomes, in pieces, in no order."""

    def close(self) -> None:
        """Close connections or files."""


class LogTail(Protocol):
    """The log for a job that moves it: read outside the group, which must be at rest."""

    def spans(self, stored: Mapping[int, Claim | None]) -> Mapping[int, Span]:
        """Return the span of every partition of the log.

        ``stored`` has the store's claims. Offsets, also those of ``read``, are in their stored
        form.
        """

    def members(self) -> int:
        """Return the group's current number of nodes; 0 where a lock keeps nodes out."""

    def read(self, partition: int, start: int, end: int) -> Iterator[Sequence[LogRecord]]:
        """Yield the records with ``start`` <= offset < ``end``, in order and in pieces."""

    def close(self) -> None:
        """Close connections or files."""
