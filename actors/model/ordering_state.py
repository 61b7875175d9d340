"""The states of an OrderingExecutor: what it waits for, what it may do, and what may follow.

Decides which transitions there are; whatever else happens is a bug of the tree.
"""

from enum import IntEnum, auto


class OrderingPhase(IntEnum):
    """What an ordering id waits for."""

    IDLE = auto()
    """A task, or leave to go on."""
    BUSY = auto()
    """The end of the task at hand."""
    HELD = auto()
    """The same, which takes long: all others are in the store."""
    LOADING = auto()
    """A page of what was left to the store."""
    WAITING = auto()
    """The time of the first task that was left to the store."""
    RETURNING = auto()
    """Its parent's word whether a lane goes on."""


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


PHASES_AFTER = {
    OrderingPhase.IDLE: (
        *(OrderingPhase.BUSY, OrderingPhase.LOADING, OrderingPhase.WAITING),
        OrderingPhase.RETURNING,
    ),
    OrderingPhase.BUSY: (OrderingPhase.IDLE, OrderingPhase.HELD),
    OrderingPhase.HELD: (OrderingPhase.IDLE,),
    OrderingPhase.LOADING: (OrderingPhase.IDLE,),
    OrderingPhase.WAITING: (OrderingPhase.IDLE, OrderingPhase.BUSY, OrderingPhase.LOADING),
    OrderingPhase.RETURNING: (OrderingPhase.IDLE,),
}
MODES_AFTER = {
    OrderingMode.RUNNING: (
        *(OrderingMode.CATCHING_UP, OrderingMode.LEAVING, OrderingMode.DRAINING),
    ),
    OrderingMode.CATCHING_UP: (
        *(OrderingMode.RUNNING, OrderingMode.LEAVING, OrderingMode.DRAINING),
    ),
    OrderingMode.LEAVING: (OrderingMode.DRAINING,),
    OrderingMode.DRAINING: (),
}
