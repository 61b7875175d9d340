"""Which attempt runs in this thread or coroutine, and whether it was asked to end.

User code reads the latter as ``cancelled``.  Decides nothing, and ends nothing.
"""

from collections.abc import Callable
from contextvars import ContextVar

from actors.model.attempts import Attempt

_HERE: ContextVar[Attempt | None] = ContextVar("hourhand_attempt", default=None)
_INTERRUPTED: set[Attempt] = set()
"""Attempts that were asked to end and have not.  Beside the attempts, as nearly none is asked."""

_LOOKS: list[Callable[[], bool]] = []
"""What tells that another process asked what runs here to end."""

note_attempt = _HERE.set
"""Say which attempt runs here from now on, None for none."""
current_attempt = _HERE.get
"""Return the attempt that runs here, None where none does."""
ask_to_end = _INTERRUPTED.add
"""Have user code of an attempt see that it is to end, from any thread."""
forget_asked = _INTERRUPTED.discard
"""Forget that an attempt was asked to end, as it has ended."""
look_too = _LOOKS.append
"""Look at something else, too: in a process that runs one piece of work at a time."""


def is_asked_to_end() -> bool:
    """Whether the attempt that runs in this thread or coroutine was asked to end."""
    return _HERE.get() in _INTERRUPTED or any(look() for look in _LOOKS)


class AskedToEnd:
    """Reads as ``is_asked_to_end``; a subclass may have an attribute of the same name."""

    def __get__(self, instance: object, owner: type | None = None) -> bool:
        return is_asked_to_end()
