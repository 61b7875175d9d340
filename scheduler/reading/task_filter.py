"""Which tasks are chosen: by state, by the error of the last attempt, a user's or Hourhand's own.

Pure; reads nothing.
"""

from collections.abc import Collection
from dataclasses import dataclass

from actors.model.definition import RESERVED
from actors.model.status import AttemptRecord
from scheduler.reading.task_state import TaskState, TaskView

_WELL = frozenset({TaskState.SUCCESS, TaskState.MOVED})


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """What a task must be like."""

    states: Collection[TaskState] = ()
    """In any state where this is empty."""
    error_class: str | None = None
    """Of the last attempt; any, or none, without it."""
    system: bool = True
    """Whether tasks of Hourhand itself are among them: timers, relayed messages, definitions."""

    kinds: Collection[str] = ()
    """In any kind, and in none, where this is empty; a row that is gone has none."""

    @property
    def chooses(self) -> bool:
        """Whether there may be a task that it leaves out for what became of it."""
        return bool(self.states or self.kinds) or self.error_class is not None

    def accepts(self, view: TaskView) -> bool:
        """Whether a task is chosen."""
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
    """Return the last attempt where it failed and nothing ended well after it."""
    last = view.attempts[-1] if view.attempts else None
    return last if last is not None and last.error_class and view.state not in _WELL else None
