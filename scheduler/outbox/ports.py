"""The outbox's table as its mover sees it: rows to claim, to delete, and to wait for."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import msgspec


class OutboxRow(msgspec.Struct, frozen=True, gc=False):
    """One row that was committed."""

    number: int
    """Grows, within an ordering id, in the order of the commits."""
    record: bytes
    """A record of the task log, as the client would append it."""
    written_ms: int
    """When it was written, by the clock of the program that wrote it, in UTC milliseconds."""


@dataclass(frozen=True, slots=True)
class ClaimedRows:
    """Rows that no other mover has while the claim is held."""

    rows: Sequence[OutboxRow]
    """Of each ordering id the oldest ones, in the order of their numbers."""
    newest: Sequence[OutboxRow]
    """The newest row of each key in ``rows``, where more rows of that key wait than are claimed."""
    delete: Callable[[Sequence[int]], None]
    """Removes rows by number, claimed or not, when the claim ends at the latest."""
    until_ms: float
    """The monotonic time after which no row of the claim may be sent any more."""


class OutboxLag(msgspec.Struct, frozen=True):
    """What waits in the table."""

    rows: int
    """Counted to ``ROWS_COUNTED_MAX`` at most."""
    oldest_ms: int | None
    """When the oldest row was written, in UTC milliseconds; None where no row waits."""


ROWS_COUNTED_MAX = 100_000
"""More rows than that are not counted, as each count would read them all."""


class OutboxTable(Protocol):
    """The table, used from one thread, but for ``wake``.

    Errors: OutboxUnavailable where the database does not answer, SchemaMissing where the table is
    not there or has another version.
    """

    def claim(
        self, rows_max: int, passed_over: Collection[int] = ()
    ) -> "AbstractContextManager[ClaimedRows]":
        """Claim rows within a block; there are none where all are claimed, or none wait.

        Rows with a number in ``passed_over`` are treated as if they were not there.  Where the
        block raises, nothing is deleted.
        """

    def lag(self) -> OutboxLag:
        """Return what waits, claimed by a mover or not."""

    def wait(self, timeout_ms: int) -> None:
        """Return after ``wake``, when rows may have come, or after this time."""

    def wake(self) -> None:
        """End the ``wait`` that is under way, or the next one."""

    def close(self) -> None:
        """Let go of connections and claims."""
