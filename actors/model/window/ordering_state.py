"""The modes of an ordering id, and the allowed changes between them.

Any other change is a bug of the tree. Its wait follows from its state, not from its mode.
"""

from enum import IntEnum, auto


class OrderingMode(IntEnum):
    """The mode of an ordering id."""

    RUNNING = auto()
    """Everything is allowed."""
    PAUSED = auto()
    """An operator paused the id: end the current task, and leave all others to the store."""
    DRAINING = auto()
    """The partition is given up: end the current task, and leave all others to the store."""


MODES_AFTER = {
    OrderingMode.RUNNING: (OrderingMode.PAUSED, OrderingMode.DRAINING),
    OrderingMode.PAUSED: (OrderingMode.RUNNING, OrderingMode.DRAINING),
    OrderingMode.DRAINING: (),
}
