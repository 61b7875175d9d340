"""The attempt that runs in this thread or coroutine, and a request to end it.

User code reads the request as ``cancelled``. Decides nothing, and ends nothing.
"""

from collections.abc import Callable
from contextvars import ContextVar

from hourhand.actors.model.execution.attempts import Attempt

_HERE: ContextVar[Attempt | None] = ContextVar("hourhand_attempt", default=None)
_INTERRUPTED: set[Attempt] = set()
"""Attempts that were asked to end and have not ended. Kept beside the attempts, because hardly any
is asked."""

_LOOKS: list[Callable[[], bool]] = []
"""Functions that return True if another process asked the current attempt to end."""

note_attempt = _HERE.set
"""Set the attempt that runs here from now on, None for none."""
current_attempt = _HERE.get
"""Return the attempt that runs here, None if none does."""
ask_to_end = _INTERRUPTED.add
"""Show user code of an attempt that it should end, from any thread."""
forget_asked = _INTERRUPTED.discard
"""Forget the request for an attempt that has ended."""
look_too = _LOOKS.append
"""Add a function to ask: in a process that runs one piece of work at a time."""


def is_asked_to_end() -> bool:
    """True if the attempt that runs in this thread or coroutine was asked to end."""
    return _HERE.get() in _INTERRUPTED or any(look() for look in _LOOKS)


class AskedToEnd:
    """Reads as ``is_asked_to_end``; a subclass may have an attribute of the same name."""

    def __get__(self, instance: object, owner: type | None = None) -> bool:
        return is_asked_to_end()
