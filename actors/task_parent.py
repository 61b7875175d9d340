"""The view that a task at hand has of its ordering id.

Decides nothing: it is the port between a task and its OrderingExecutor, which never knows the
steps of a task.
"""

from typing import Protocol, TypeVar

from hourhand.actors.ports.runner import Executable

RoleT_contra = TypeVar("RoleT_contra", contravariant=True)


class TaskParent(Protocol[RoleT_contra]):
    """The receiver of those steps of a task that concern other tasks of its ordering id."""

    @property
    def is_paused(self) -> bool:
        """True if no attempt may begin: the id is paused, or its partition is given up."""

    def begin_run(self, role: RoleT_contra, executable: Executable) -> None:
        """Begin the tasks that may share a batch with a task, behind it."""

    def void_run(self, role: RoleT_contra) -> None:
        """Void the attempts in the batch behind a task that is not done: they run later (P4)."""

    def mark_slow(self, role: RoleT_contra) -> None:
        """Leave the tasks behind a task to the store, because it takes long."""

    def end(self, role: RoleT_contra, *, is_closed: bool) -> None:
        """Remove a task from hand that is closed, or that runs elsewhere or later."""
