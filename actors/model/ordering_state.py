"""The modes of an ordering id, and the allowed changes between them.

Any other change is a bug of the tree. Its wait follows from its state, not from its mode.
"""

from enum import IntEnum, auto


class OrderingMode(IntEnum):
    """The mode of an ordering id."""

    RUNNING = auto()
    """Everything is allowed."""
    CATCHING_UP = auto()
    """End an attempt of an earlier tree, and begin nothing before the partition may start (P4)."""
    LEAVING = auto()
    """End the current task: an operator paused the id."""
    DRAINING = auto()
    """End the current task: the partition is given up."""


MODES_AFTER = {
    OrderingMode.RUNNING: (OrderingMode.CATCHING_UP, OrderingMode.LEAVING, OrderingMode.DRAINING),
    OrderingMode.CATCHING_UP: (OrderingMode.RUNNING, OrderingMode.LEAVING, OrderingMode.DRAINING),
    OrderingMode.LEAVING: (OrderingMode.RUNNING, OrderingMode.DRAINING),
    OrderingMode.DRAINING: (),
}
