"""An ordering id, as its tasks at hand know it.

Decides nothing: it is the port between a task and its OrderingExecutor, which never knows how a
task goes on.
"""

from typing import Protocol, TypeVar

from actors.ports.runner import Executable

RoleT_contra = TypeVar("RoleT_contra", contravariant=True)


class TaskParent(Protocol[RoleT_contra]):
    """Is told of the steps of a task that concern other tasks of its ordering id."""

    @property
    def is_ending(self) -> bool:
        """Whether nothing begins any more."""

    def begin_run(self, role: RoleT_contra, executable: Executable) -> None:
        """Begin what may be in one batch with a task, behind it."""

    def void_run(self, role: RoleT_contra) -> None:
        """Have what is in the batch behind a task that is not done take its turn later (P4)."""

    def mark_slow(self, role: RoleT_contra) -> None:
        """Leave what waits behind a task to the store: it takes long."""

    def end(self, role: RoleT_contra, *, is_closed: bool) -> None:
        """Let go of a task that is closed, or no longer its business."""
