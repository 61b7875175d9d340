"""Telling user code which attempt it is, as the last thing before it runs.

Decides nothing.
"""

from actors.model.attempts import Attempt
from actors.model.interruption import note_attempt
from actors.ports.runner import Executable


def tell_attempt(attempt: Attempt, executor: Executable) -> None:
    """Tell user code which attempt it is; setting an attribute may be its own code."""
    note_attempt(attempt)
    executor.attempt = attempt.number
    executor.fence = attempt.epoch
