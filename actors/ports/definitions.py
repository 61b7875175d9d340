"""Rows of ``definition``: timers, relay ids, recurring schedules.

The contract of ``actors.ports.store`` holds here too: every method returns at once with a
future, and one that resolves means durable (a write) or complete (a read); one that fails with
StoreUnavailable leaves open whether the write happened.  The write time of a row is its own
offset: the higher one stands, whichever arrives first.  Two rows of one name and one offset
are the same row.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

import msgspec

from actors.model.definition import Definition, DefinitionKind, DefinitionName


class DefinitionPage(msgspec.Struct, frozen=True):
    """Definitions of one kind, in a fixed order of the store's own."""

    definitions: Sequence[Definition]
    next_after: str | None
    """Pass it as ``after`` for the next page; None where there is none."""


class DefinitionStore(Protocol):
    """The definitions of an installation, by the partition that owns them."""

    def save(
        self, partition: int, definitions: Sequence[Definition], now_ms: int
    ) -> "Future[None]":
        """Write rows, each replacing what its name held at a lower offset.

        ``now_ms`` is what a row's ``expires_ms`` is counted from, where a store counts.
        """

    def find(
        self, partition: int, names: Sequence[DefinitionName]
    ) -> "Future[Mapping[DefinitionName, Definition]]":
        """Read single rows, ended ones too; a name without a row is absent from the answer."""

    def page(
        self, partition: int, kind: DefinitionKind, after: str | None, limit: int
    ) -> "Future[DefinitionPage]":
        """Read rows of one kind that have not ended, about ``limit`` of them.

        A page may hold fewer, even none, while there are more.  ValueError where a store can
        tell that no page ended at ``after``.  A row that stays as it is
        during a walk through all pages is in exactly one of them.
        """

    def forget(self, partition: int, before_ms: int) -> "Future[None]":
        """Remove rows whose ``expires_ms`` is before a time, where nothing else removes them."""
