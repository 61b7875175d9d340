"""An operator's pauses: of everything, partitions, or single ordering ids.

Values only: ``hourhand.actors.model.operations.operator_config`` combines them.
"""

from enum import StrEnum

import msgspec


class PauseScope(StrEnum):
    """The scope of a pause."""

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
        """The target of the pause."""
        return self.scope, self.partition, self.ordering_id


class PartitionPause(msgspec.Struct, frozen=True):
    """The pauses of one partition."""

    whole: bool = False
    ordering_ids: frozenset[str] = frozenset()


NOT_PAUSED = PartitionPause()
