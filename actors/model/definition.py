"""What a timer, a relay id or a recurring schedule is: the row that says which tasks are its own.

A definition is owned by the partition of its ordering id and changed only by tasks of that
ordering id, so it has one writer.  Its generation is the log offset of the record that made
it: a task that carries another generation belongs to an earlier definition and is not run.
"""

from enum import StrEnum
from typing import NamedTuple

import msgspec

RESERVED = "hourhand:"
"""Ordering ids that begin so belong to Hourhand itself and never reach a user's executor."""


class DefinitionKind(StrEnum):
    """Whose definition it is."""

    RELAY = "relay"
    TIMER = "timer"
    RECURRING = "recurring"
    PARKED = "parked"
    """No definition: a message that is too long for its task."""
    UNIQUE = "unique"
    """When a task of some ids was made last, of which one is made in a window of time."""
    DEBOUNCED = "debounced"
    """Which call for a task of some ids was the last one."""


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
    """What it says, as JSON; empty where the definition has ended."""
    next_ms: int | None = None
    """When it is due next, for those who look; tasks decide what runs."""
    expires_ms: int | None = None
    """When the row may vanish by itself; None keeps it."""

    @property
    def ended(self) -> bool:
        """Whether nothing of it is to run any more."""
        return not self.rule


def ordering_id_parts(ordering_id: str) -> tuple[str, str] | None:
    """Return kind and id of a reserved ordering id; None for a user's."""
    if not ordering_id.startswith(RESERVED):
        return None
    kind, _, rest = ordering_id.removeprefix(RESERVED).partition(":")
    return kind, rest
