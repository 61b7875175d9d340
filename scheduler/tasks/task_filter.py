"""A filter for tasks: by state, by the error of the last attempt, a user's or Hourhand's own.

Pure; reads nothing.
"""

from collections.abc import Collection
from dataclasses import dataclass

from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.task.status import AttemptRecord
from hourhand.scheduler.tasks.task_state import TaskState, TaskView

_WELL = frozenset({TaskState.SUCCESS, TaskState.MOVED})


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """The conditions for a task."""

    states: Collection[TaskState] = ()
    """The allowed states; empty for all."""
    error_class: str | None = None
    """The error class of the last attempt; None for any, or none."""
    system: bool = True
    """True to include tasks of Hourhand itself: timers, relayed messages, definitions."""

    kinds: Collection[str] = ()
    """The allowed kinds; empty for all, and for tasks without a kind. A deleted row has no kind."""

    @property
    def chooses(self) -> bool:
        """True if it may exclude a task because of its state or error."""
        return bool(self.states or self.kinds) or self.error_class is not None

    def accepts(self, view: TaskView) -> bool:
        """True if a task matches."""
        if self.states and view.state not in self.states:
            return False
        if not self.system and view.key.ordering_id.startswith(RESERVED):
            return False
        if self.kinds and (view.task is None or view.task.kind not in self.kinds):
            return False
        if self.error_class is None:
            return True
        failed = last_error(view)
        return failed is not None and failed.error_class == self.error_class


def last_error(view: TaskView) -> AttemptRecord | None:
    """Return the last attempt if it failed and the task did not end well after it."""
    last = view.attempts[-1] if view.attempts else None
    return last if last is not None and last.error_class and view.state not in _WELL else None
