"""The user's executors of one busy ordering id, one for each kind, and the attempts they make.

Decides what runs a task and what an attempt of it carries: the lane of an id and its mailbox use
the same rules.  Never decides what becomes of an attempt.
"""

from actors.model.attempts import Attempt, StartRecorder
from actors.model.backoff import RetryPolicy
from actors.model.errors import CannotRunHere
from actors.model.executor_attributes import (
    FailingExecutor,
    attribute_complaint,
    policy_of,
    timeout_ms_of,
)
from actors.model.known_completions import KnownCompletions
from actors.model.ownership import Ownership
from actors.model.sealed import is_sealed
from actors.model.task import FRESH, StoredTask
from actors.model.task_executor import TaskExecutor
from actors.ports.effects import Effects
from actors.ports.runner import Executable


class HeldExecutors:
    """Made when the first task of a kind is to run, kept while the ordering id is busy.

    They serve one task at a time: where an id runs several at once, each has its own.
    """

    __slots__ = ("_by_kind", "_effects")

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self._by_kind: dict[str | None, TaskExecutor] = {}

    def of(self, task: StoredTask) -> Executable:
        """Return what runs a task; raises CannotRunHere where nothing here does.

        A constructor that raises is a failed attempt of each task, not a failure of the tree.
        """
        if is_sealed(task.body):
            self._effects.require_codecs(task.body)
        kind = task.kind
        if (known := self._by_kind.get(kind)) is not None:
            return known
        try:
            executor = _constructed(self._effects, task.key.ordering_id, kind)
        except CannotRunHere:
            raise
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            return FailingExecutor(error)
        self._by_kind[kind] = executor
        return executor

    def policy_of(self, task: StoredTask) -> RetryPolicy:
        """Return the retry policy of a task; the default one where nothing here runs it."""
        try:
            return policy_of(self.of(task))
        except CannotRunHere:
            return RetryPolicy()

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
        timeout_ms = self._effects.settings.execution.timeout_ms
        try:
            timeout_ms = timeout_ms_of(executable, timeout_ms)
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            executable = FailingExecutor(error)
        attempts = task.attempts
        suspect = attempts.suspect
        attempt = Attempt(
            task,
            ownership.partition,
            ownership.epoch,
            attempts.last + 1,
            suspect,
            timeout_ms,
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


def _constructed(effects: Effects, ordering_id: str, kind: str | None) -> TaskExecutor:
    """Call the user's factory; TypeError where what it returns cannot run a task."""
    executor = effects.make_executor(ordering_id, kind)
    if not isinstance(executor, TaskExecutor):
        returned = type(executor).__name__
        raise TypeError(f"the executor factory returned a {returned}, which is not a TaskExecutor")
    if complaint := attribute_complaint(executor):
        raise TypeError(f"{type(executor).__qualname__}.{complaint}")
    return executor
