"""Which attempt runs in this thread or coroutine, for whoever writes a line about it.

Set by the runner as the last thing before user code.  Decides nothing.
"""

from contextvars import ContextVar

from actors.model.attempts import Attempt
from actors.ports.runner import Executable

_CURRENT: ContextVar[Attempt | None] = ContextVar("hourhand_attempt", default=None)

note_attempt = _CURRENT.set
"""Say which attempt runs here from now on, None for none."""
current_attempt = _CURRENT.get
"""Return the attempt that runs here, None where none does."""


def tell_attempt(attempt: Attempt, executor: Executable) -> None:
    """Tell user code which attempt it is; setting an attribute may be its own code."""
    note_attempt(attempt)
    executor.attempt = attempt.number
    executor.fence = attempt.epoch
