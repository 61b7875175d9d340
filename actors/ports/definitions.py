"""Rows of ``definition``: timers, relay ids, recurring schedules.

The contract of ``hourhand.actors.ports.store`` holds here too: every method returns at once with a
future, and one that resolves means durable (a write) or complete (a read); one that fails with
StoreUnavailable leaves open whether the write happened.  The write time of a row is its own
offset: the higher one stands, whichever arrives first.  Two rows of one name and one offset
are the same row.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

import msgspec

from hourhand.actors.model.task.definition import Definition, DefinitionKind, DefinitionName


class DefinitionPage(msgspec.Struct, frozen=True):
    """Definitions of one kind, in a fixed order of the store's own."""

    definitions: Sequence[Definition]
    next_after: str | None
    """The value of ``after`` for the next page; None if there is none."""


class DefinitionStore(Protocol):
    """The definitions of an installation, by the partition that owns them."""

    def save(
        self, partition: int, definitions: Sequence[Definition], now_ms: int
    ) -> "Future[None]":
        """Write rows, each replacing its name's row with a lower offset.

        A row's ``expires_ms`` is counted from ``now_ms``, in stores that count.
        """

    def find(
        self, partition: int, names: Sequence[DefinitionName]
    ) -> "Future[Mapping[DefinitionName, Definition]]":
        """Read single rows, including ended ones; a name without a row is absent from the
        answer.
        """

    def page(
        self, partition: int, kind: DefinitionKind, after: str | None, limit: int
    ) -> "Future[DefinitionPage]":
        """Read rows of one kind that have not ended, about ``limit`` of them.

        A page may be short, or even empty, while there are more. ValueError if a store can tell
        that no page ended at ``after``. A row that stays unchanged during a walk through all pages
        is in exactly one of them.
        """

    def forget(self, partition: int, before_ms: int) -> "Future[None]":
        """Remove rows whose ``expires_ms`` is before a time, unless something else removes them."""
