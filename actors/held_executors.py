"""The executors of one busy ordering id, one for each kind, and the attempts they make.

Decides what runs a task and what an attempt of it carries: the lane of an id and its mailbox use
the same rules.  Never calls user code, and never decides what becomes of an attempt.
"""

from actors.model.attempts import Attempt, StartRecorder
from actors.model.known_completions import KnownCompletions
from actors.model.ownership import Ownership
from actors.model.task import FRESH, StoredTask
from actors.ports.effects import Effects
from actors.ports.runner import Executable


class HeldExecutors:
    """Kept while the ordering id is busy.

    They serve one task at a time: where an id runs several at once, each has its own.
    """

    __slots__ = ("_by_kind", "_effects")

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self._by_kind: dict[str | None, Executable] = {}

    def of(self, task: StoredTask) -> Executable:
        """Return what runs a task; raises CannotRunHere where nothing here does."""
        kind = task.kind
        known = self._by_kind.get(kind)
        if known is None:
            known = self._effects.make_executor(task.key.ordering_id, kind)
            self._by_kind[kind] = known
        return known

    def attempt(
        self,
        task: StoredTask,
        executable: Executable,
        ownership: Ownership,
        record_starts: StartRecorder,
        *,
        is_unordered: bool = False,
        follows: Attempt | None = None,
    ) -> tuple[Attempt, Executable]:
        """Return the next attempt of a task, and what runs it.

        Where the start must be durable before user code runs, it carries ``record_starts``.
        """
        attempts = task.attempts
        suspect = attempts.suspect
        attempt = Attempt(
            task,
            ownership.partition,
            ownership.epoch,
            attempts.last + 1,
            suspect,
            self._effects.settings.execution.timeout_ms,
            record_starts if suspect or task.overdue_when_loaded else None,
            is_unordered,
            follows,
        )
        return attempt, executable


def is_plain(task: StoredTask, known: KnownCompletions, effects: Effects) -> bool:
    """Whether a lane may begin a task: never tried, known from memory to be open, and none that
    others follow in its batch.
    """
    alone = not effects.run_tasks_max or effects.run_tasks_of(task) == 1
    return task.attempts is FRESH and alone and known.is_closed(task) is False
