"""Finds the task for a command that gives both ids and no time.

Decides it from the rows that were stored before the command, so a replay finds the same one. Never
reads a row, and never decides the command's effect.
"""

from hourhand.actors.model.task.codec import Command, CommandKind
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CommandOutcome, Completion, CompletionResult
from hourhand.actors.model.task.task import StoredTask

PAIR_PAGE_ROWS = 500
"""Rows of an ordering id that are read at once for one uniqueness key."""

_FAILED = frozenset({CompletionResult.FAILURE, CompletionResult.DROPPED})


class PairSearch:
    """The one open task of a pair; if none is open, the last one that was.

    If none is open, a retry means the one failed or dropped task instead, and a replace its own
    new task.
    """

    def __init__(self, command: Command) -> None:
        assert command.by_pair, "a command by key names its task"
        self._command = command
        self._changed: TaskKey | None = None
        """The task that this very command changed before a crash, which left no outcome."""
        self._open: list[TaskKey] = []
        self._failed: list[TaskKey] = []
        self._closed: TaskKey | None = None

    def concerns(self, row: StoredTask) -> bool:
        """True if the command may mean a row: a later record's row did not exist then."""
        return self._command.is_for(row.key) and row.offset < self._command.offset

    def add(self, row: StoredTask, completion: Completion | None) -> None:
        """Consider a row; rows come in key order."""
        key = row.key
        if completion is not None and completion.offset == self._command.offset:
            self._changed = key
        elif completion is None or not completion.closes(row.offset):
            _keep_two(self._open, key)
        else:
            self._closed = key
            if completion.result in _FAILED:
                _keep_two(self._failed, key)

    def found(self) -> TaskKey | CommandOutcome:
        """Return the key of the task, or the outcome if there is no such task."""
        if self._changed is not None:
            return self._changed
        candidates = self._open
        if not candidates and self._command.kind is CommandKind.RETRY:
            candidates = self._failed
        if len(candidates) > 1:
            return CommandOutcome.SEVERAL_TASKS
        if candidates:
            return candidates[0]
        if self._command.kind is CommandKind.REPLACE:
            return self._command.key
        return CommandOutcome.UNKNOWN_PAIR if self._closed is None else self._closed


def _keep_two(keys: list[TaskKey], key: TaskKey) -> None:
    """Keep two keys, which are enough to detect several: there may be any number (P13)."""
    if len(keys) < 2:
        keys.append(key)
