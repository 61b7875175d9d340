"""The outbox's table as its mover sees it: rows to claim, to delete, and to wait for."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import msgspec


class OutboxRow(msgspec.Struct, frozen=True, gc=False):
    """One committed row."""

    number: int
    """Grows, within an ordering id, in the order of the commits."""
    record: bytes
    """A record of the task log, in the client's form."""
    written_ms: int
    """Time of writing by the writing program's clock, in UTC milliseconds."""


@dataclass(frozen=True, slots=True)
class ClaimedRows:
    """Rows that no other mover has while the claim is held."""

    rows: Sequence[OutboxRow]
    """The oldest rows of each ordering id, in the order of their numbers."""
    newest: Sequence[OutboxRow]
    """The newest row of each key in ``rows``, if more rows of that key wait than are claimed."""
    delete: Callable[[Sequence[int]], None]
    """Removes rows by number, claimed or not, at the latest at the end of the claim."""
    until_ms: float
    """The monotonic time after which no row of the claim may be sent."""


class OutboxLag(msgspec.Struct, frozen=True):
    """The waiting rows of the table."""

    rows: int
    """Counted up to ``ROWS_COUNTED_MAX``."""
    oldest_ms: int | None
    """Time of writing of the oldest row, in UTC milliseconds; None if no row waits."""


ROWS_COUNTED_MAX = 100_000
"""Further rows are not counted, because each count reads them all."""


class OutboxTable(Protocol):
    """The table, used from one thread, except ``wake``.

    Errors: OutboxUnavailable if the database does not answer, SchemaMissing if the table is missing
    or has another version.
    """

    def claim(
        self, rows_max: int, passed_over: Collection[int] = ()
    ) -> "AbstractContextManager[ClaimedRows]":
        """Claim rows within a block; an empty claim if all are claimed, or none wait.

        Rows with a number in ``passed_over`` are ignored. If the block raises, nothing is deleted.
        """

    def lag(self) -> OutboxLag:
        """Return the waiting rows, claimed or not."""

    def wait(self, timeout_ms: int) -> None:
        """Return after ``wake``, when rows may have come, or after this time."""

    def wake(self) -> None:
        """End the current ``wait``, or the next one."""

    def close(self) -> None:
        """Close connections and release claims."""
