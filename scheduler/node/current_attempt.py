"""Telling user code which attempt it is, as the last thing before it runs.

Decides nothing.
"""

from actors.model.interruption import note_attempt
from scheduler.node.attempts import RunningAttempt


def tell_attempt(running: RunningAttempt) -> None:
    """Tell user code which attempt it is; setting an attribute may be its own code."""
    attempt, executor = running.attempt, running.executor
    note_attempt(attempt)
    executor.attempt = attempt.number
    executor.fence = attempt.epoch
    executor.hourhand_checkpoints = running
