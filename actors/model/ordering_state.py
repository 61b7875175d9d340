"""What an ordering id may do, and what may follow.

Decides which changes there are; any other one is a bug of the tree.  Never says what an id waits
for: that follows from what it has.
"""

from enum import IntEnum, auto


class OrderingMode(IntEnum):
    """What an ordering id may do."""

    RUNNING = auto()
    """Everything."""
    CATCHING_UP = auto()
    """End an attempt of an earlier tree, and begin nothing before the partition may start (P4)."""
    LEAVING = auto()
    """End the task at hand: an operator paused the id."""
    DRAINING = auto()
    """End the task at hand: the partition is given up."""


MODES_AFTER = {
    OrderingMode.RUNNING: (OrderingMode.CATCHING_UP, OrderingMode.LEAVING, OrderingMode.DRAINING),
    OrderingMode.CATCHING_UP: (OrderingMode.RUNNING, OrderingMode.LEAVING, OrderingMode.DRAINING),
    OrderingMode.LEAVING: (OrderingMode.RUNNING, OrderingMode.DRAINING),
    OrderingMode.DRAINING: (),
}
