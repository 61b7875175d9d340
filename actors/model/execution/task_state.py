"""The states of a current task: its wait, and the known facts besides its attempts.

TaskExecutor decides what follows.
"""

from enum import Enum, auto


class Phase(Enum):
    """The wait of a current task."""

    FOLLOWING = auto()
    """It waits for the previous task, in whose batch it may be."""
    CHECKING = auto()
    """It waits for the answer whether its key is closed."""
    WAITING = auto()
    """It waits for the next attempt's time, or a lease."""
    RUNNING = auto()
    """It waits for an allowance, a worker, then user code."""
    RECORDING = auto()
    """It waits for the outcome to be durable."""
    LETTER = auto()
    """It waits for its dead letter to be written."""
    BLOCKED = auto()
    """It waits for an operator, or a node that can run it."""


class Fate(Enum):
    """The known facts about a task besides its attempts."""

    OPEN = auto()
    """No fact: it is tried until it is closed."""
    FINAL = auto()
    """A command has closed it: the attempt may end, and there is no further one."""
    DOUBTED = auto()
    """The store may know more than this tree: unless it is closed, it is read."""
    FOREIGN = auto()
    """Another owner came after its attempt: that is waited for, and its key runs again."""
