"""The newest checkpoint of a task, as stores keep it and as the tree carries it.

Decides which of two is the newer one.  Never decides what a checkpoint may hold, nor when one
becomes durable.
"""

import msgspec

from hourhand.actors.model.task.key import TaskKey


class TaskCheckpoint(msgspec.Struct, frozen=True, gc=False):
    """One row of ``task_checkpoint``: the newest one of a task."""

    key: TaskKey
    attempt: int
    """Number of the attempt that made it."""
    made_ms: int
    """When it was made, in milliseconds since 1970."""
    body: bytes
    """The row's text: a JSON object with the value, or with the envelope of a sealed one."""
    fence: int = 0
    """Owner epoch of the node that ran the attempt."""

    def later_of(self, other: "TaskCheckpoint | None") -> "TaskCheckpoint":
        """Return the one that was made later; this one where that cannot be told."""
        if other is None or other.order <= self.order:
            return self
        return other

    @property
    def order(self) -> tuple[int, int, int]:
        """Sorts the checkpoints of one task: by owner first, as the clocks of two are apart."""
        return self.fence, self.attempt, self.made_ms
