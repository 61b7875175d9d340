"""Gives user code the data of its attempt, just before it runs.

Decides nothing.
"""

from hourhand.actors.model.execution.interruption import note_attempt
from hourhand.scheduler.node.attempts import RunningAttempt


def tell_attempt(running: RunningAttempt) -> None:
    """Give user code the data of its attempt; setting an attribute may run user code."""
    attempt, executor = running.attempt, running.executor
    note_attempt(attempt)
    executor.attempt = attempt.number
    executor.fence = attempt.epoch
    executor.hourhand_checkpoints = running
