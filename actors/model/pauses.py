"""What an operator has paused: everything, partitions, or single ordering ids.

The sheet is one value with a version, replaced as a whole, so two operators never undo each
other's changes unseen.  It decides what is paused and never what becomes of tasks meanwhile.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from actors.model.errors import InvalidTask

PAUSES_MAX = 1_000
"""Pauses of a sheet: every node holds it in memory (P13)."""
SHEET_BYTES_MAX = 400_000
"""Encoded; a sheet is one cell of the store."""


class PauseScope(StrEnum):
    """How much a pause holds up."""

    ALL = "all"
    PARTITION = "partition"
    ORDERING = "ordering"


class Pause(msgspec.Struct, frozen=True, omit_defaults=True):
    """One pause; two of the same scope and target are the same."""

    scope: PauseScope
    partition: int = -1
    """The partition, or that of the ordering id; -1 for everything."""
    ordering_id: str = ""
    paused_ms: int = 0
    who: str = ""
    reason: str = ""

    @property
    def target(self) -> tuple[PauseScope, int, str]:
        """What it holds up."""
        return self.scope, self.partition, self.ordering_id


class PartitionPause(msgspec.Struct, frozen=True):
    """What is paused of one partition."""

    whole: bool = False
    ordering_ids: frozenset[str] = frozenset()


NOT_PAUSED = PartitionPause()


class PauseSheet(msgspec.Struct, frozen=True):
    """All pauses of an installation."""

    version: int = 0
    """Grows with every change."""
    pauses: tuple[Pause, ...] = ()

    def of_partition(self, partition: int) -> PartitionPause:
        """Return what of this sheet concerns one partition."""
        whole = any(
            each.scope is PauseScope.ALL
            or (each.scope is PauseScope.PARTITION and each.partition == partition)
            for each in self.pauses
        )
        ids = frozenset(
            each.ordering_id
            for each in self.pauses
            if each.scope is PauseScope.ORDERING and each.partition == partition
        )
        return PartitionPause(whole, ids) if whole or ids else NOT_PAUSED

    def with_pauses(self, added: Iterable[Pause]) -> "PauseSheet":
        """Return the next sheet; a target that is paused already keeps its first pause.

        Raises InvalidTask where the sheet would be larger than every node can hold.
        """
        merged = {each.target: each for each in self.pauses}
        for each in added:
            merged.setdefault(each.target, each)
        sheet = PauseSheet(self.version + 1, tuple(merged.values()))
        size_bytes = len(encode_sheet(sheet))
        if len(merged) > PAUSES_MAX or size_bytes > SHEET_BYTES_MAX:
            raise InvalidTask(
                f"{len(merged)} pauses of {size_bytes} bytes: {PAUSES_MAX} pauses and"
                f" {SHEET_BYTES_MAX} bytes are allowed; pause the partition instead"
            )
        return sheet

    def without(self, targets: Iterable[tuple[PauseScope, int, str]]) -> "PauseSheet":
        """Return the next sheet, without the pauses of these targets."""
        lifted = set(targets)
        left = tuple(each for each in self.pauses if each.target not in lifted)
        return PauseSheet(self.version + 1, left)


_decoder = msgspec.json.Decoder(PauseSheet)


def encode_sheet(sheet: PauseSheet) -> bytes:
    """Return a sheet as the store keeps it."""
    return msgspec.json.encode(sheet)


def decode_sheet(body: bytes) -> PauseSheet:
    """Return what ``encode_sheet`` wrote; raises msgspec.DecodeError for anything else."""
    return _decoder.decode(body)
