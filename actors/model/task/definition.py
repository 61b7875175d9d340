"""The row of a timer, a relay id or a recurring schedule, which says which tasks are its own.

A definition is owned by the partition of its ordering id and changed only by tasks of that ordering
id, so it has one writer. Its generation is the log offset of the record that made it: a task with
another generation belongs to an earlier definition and is not run.
"""

from enum import StrEnum
from typing import NamedTuple

import msgspec

RESERVED = "hourhand:"
"""Prefix of ordering ids that belong to Hourhand itself and never reach a user's executor."""


class DefinitionKind(StrEnum):
    """The kinds of definitions."""

    RELAY = "relay"
    TIMER = "timer"
    RECURRING = "recurring"
    DECLARED = "declared"
    """The recurring schedules that an application or a file declares."""
    PARKED = "parked"
    """A message that is too long for its task; it is not a definition."""
    UNIQUE = "unique"
    """Time of the last task of some ids, of which one is made in a window of time."""
    DEBOUNCED = "debounced"
    """The last call for a debounced task of some ids."""
    GROUP = "group"
    """The ends of the tasks that one task follows."""


class DefinitionName(NamedTuple):
    """The identity of a definition."""

    kind: DefinitionKind
    id: str

    @property
    def ordering_id(self) -> str:
        """The ordering id whose partition owns the definition and whose tasks change it."""
        return f"{RESERVED}{self.kind.value}:{self.id}"


class Definition(msgspec.Struct, frozen=True):
    """One row of ``definition``."""

    name: DefinitionName
    offset: int
    """Offset of the record that made this row: its generation, and its write time."""
    rule: bytes
    """Its content as JSON; empty if the definition has ended."""
    next_ms: int | None = None
    """Its next due time, for display; tasks decide what runs."""
    expires_ms: int | None = None
    """Time at which the row may be deleted; None keeps it."""

    @property
    def ended(self) -> bool:
        """True if it has ended and nothing of it runs any more."""
        return not self.rule


def ordering_id_parts(ordering_id: str) -> tuple[str, str] | None:
    """Return kind and id of a reserved ordering id; None for a user's."""
    if not ordering_id.startswith(RESERVED):
        return None
    kind, _, rest = ordering_id.removeprefix(RESERVED).partition(":")
    return kind, rest
