"""The states of a task at hand: what it waits for, and what is known of it besides its attempts.

Decides nothing: TaskExecutor says what follows.
"""

from enum import Enum, auto


class Phase(Enum):
    """What a task at hand waits for."""

    FOLLOWING = auto()
    """The task before it, in whose batch it may be."""
    CHECKING = auto()
    """Whether its key is closed already."""
    WAITING = auto()
    """The next attempt's time, or a lease."""
    RUNNING = auto()
    """An allowance, a worker, then user code."""
    RECORDING = auto()
    """The outcome to be durable."""
    LETTER = auto()
    """Its dead letter to be written."""
    BLOCKED = auto()
    """An operator, or a node that can run it."""


class Fate(Enum):
    """What is known of a task besides its attempts."""

    OPEN = auto()
    """Nothing: it is tried until it is closed."""
    FINAL = auto()
    """A command has closed it: the attempt may end, and there is no other one."""
    DOUBTED = auto()
    """The store may know more of it than this tree was told: unless it is closed, it is read."""
    FOREIGN = auto()
    """Another owner came after its attempt: that is waited for, and its key runs again."""
