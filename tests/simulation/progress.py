"""User code of simulated tasks that makes checkpoints: when it does, and what they hold.

A checkpoint tells whose it is, so that whoever finds one can judge it.  Decides nothing of what
becomes of it.
"""

import zlib
from collections.abc import Callable

import msgspec

from hourhand.actors.model.task.checkpoint_value import checkpoint_text, checkpoint_value
from hourhand.actors.model.task.key import TaskKey
from hourhand.scheduler.node.attempts import RunningAttempt
from tests.simulation.history import Progress

EVERY_MS = 250.0
"""Between two checkpoints of an attempt."""


class CheckpointingAttempt:
    """One attempt that makes checkpoints until it ends, the last one just before that."""

    def __init__(
        self, key: TaskKey, epoch: int, number: int, say: Callable[[Progress], object]
    ) -> None:
        """``number`` is that of its start in the history; ``say`` is told of each checkpoint."""
        self._key, self._epoch, self._number, self._say = key, epoch, number, say
        self._made = 0

    def make(self, take: Callable[[bytes], object]) -> None:
        """Make the next one, which ``take`` is given as text."""
        self._made += 1
        progress = Progress(str(self._key), self._epoch, self._number, self._made)
        self._say(progress)
        take(checkpoint_text(list(progress)))


def is_silent(key: TaskKey, share: float) -> bool:
    """True if the attempts of a task make no checkpoint, where this share of tasks makes none."""
    return zlib.crc32(str(key).encode()) % 100 < 100 * share


def progress_of(text: bytes | None) -> Progress | None:
    """Return what a checkpoint holds; None without one."""
    return None if text is None else msgspec.convert(checkpoint_value(text), Progress)


def found_by(running: RunningAttempt) -> Progress | None:
    """Return the checkpoint that an attempt is given; None for none."""
    return progress_of(running.found)
