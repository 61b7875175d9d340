"""One TaskExecutor between a probe for its parent and one for the tracker."""

from dataclasses import replace

from tenacity import wait_fixed

from actors.following_tasks import FollowingTasks
from actors.held_executors import HeldExecutors
from actors.kernel.ref import Ref
from actors.messages import (
    AttemptRecorded,
    AttemptTask,
    CheckTask,
    CompletionRecorded,
    RecordAttempt,
    RecordCompletion,
    TaskChecked,
    TaskWithdrawn,
    WithdrawTask,
)
from actors.model.attempts import Attempt, Ending
from actors.model.backoff import OnExhausted, RetryPolicy
from actors.model.commands import Withdrawal, WithdrawalResult
from actors.model.errors import UnknownKind
from actors.model.outcome import Outcome
from actors.model.settings import ExecutionSettings, TreeSettings
from actors.model.task import StoredTask, Task
from actors.model.task_executor import TaskExecutor
from actors.task_executor import TaskExecutorRole
from tests.builders import a_stored_task
from tests.unit.probes import Harness, Probe

WAIT_MS = 20_000

TASK = a_stored_task(due_in_ms=0, offset=3)


class Job(TaskExecutor):
    """A user's executor; the fake runner never calls it."""

    def execute(self, task: Task) -> Outcome | None:
        """Never called here."""
        raise AssertionError(f"{task.key} was run")


AWKWARD_NAMES = ("_context", "_task", "_phase", "_effects", "_parent")


class Awkward(Job):
    """A subclass with attributes named like the kernel's and the role's own, and no super()."""

    def __init__(self) -> None:
        for name in AWKWARD_NAMES:
            setattr(self, name, "mine")


class Bench:
    """One TaskExecutor between a probe for its parent and one for the tracker."""

    def __init__(
        self,
        executor: TaskExecutor | None = None,
        *,
        attempts_max: int = 3,
        on_exhausted: OnExhausted = "skip",
    ) -> None:
        self.harness = Harness(
            TreeSettings(execution=ExecutionSettings(lease_retry_ms=200, timeout_ms=7_000))
        )
        self.parent = Probe()
        self.tracker = self.harness.tracker
        self.runner = self.harness.runner
        self.role = executor or Job()
        if executor is None:
            self.role.retry = RetryPolicy(attempts_max, wait_fixed(20), on_exhausted)
        self.kinds: dict[str | None, TaskExecutor] = {None: self.role}
        """The executors of this node; it knows no other kind."""
        self.made: list[str | None] = []
        effects = replace(self.harness.effects, make_executor=self._make)
        role = TaskExecutorRole(
            effects,
            self.harness.ownership,
            self.parent,
            siblings=self.harness.siblings,
            executors=HeldExecutors(effects),
            following=FollowingTasks(effects, self.harness.siblings.known_completions),
        )
        self.ref: Ref = self.harness.spawn(role, meets=False)

    def _make(self, _ordering_id: str, kind: str | None) -> TaskExecutor:
        if kind not in self.kinds:
            raise UnknownKind(f"kind {kind!r} is not known here")
        self.made.append(kind)
        return self.kinds[kind]

    def tell(self, message: object) -> None:
        """Let the role handle a message."""
        self.ref.tell(message)
        self.harness.run()

    def answer_check(self, *, closed: bool = False) -> None:
        """Answer the role's question whether the key is closed."""
        check = self.tracker.take(CheckTask)
        self.tell(TaskChecked(check.task.key, closed, check.task.offset))

    def begin(self, task: StoredTask = TASK) -> Attempt:
        """Bring the role to running its task."""
        self.tell(AttemptTask(task))
        self.answer_check()
        return self.runner.only

    def end(self, ending: Ending = Ending.DONE, *, retry_after_ms: int | None = None) -> None:
        """End the attempt that runs."""
        now_ms = self.harness.clock.now_ms()
        self.runner.end(ending, retry_after_ms=retry_after_ms, at_ms=now_ms)
        self.harness.run()

    def record_attempt(self) -> RecordAttempt:
        """Make the attempt durable."""
        message = self.tracker.take(RecordAttempt)
        self.tell(AttemptRecorded(message.record.key))
        return message

    def record_completion(self) -> RecordCompletion:
        """Make the completion durable."""
        message = self.tracker.take(RecordCompletion)
        self.tell(CompletionRecorded(message.completion.key, message.completion.result))
        return message

    def fail_once(self) -> RecordAttempt:
        """Let the attempt fail, durably."""
        self.end(Ending.FAILED)
        return self.record_attempt()

    def withdraw(self, withdrawal: Withdrawal = Withdrawal.CLOSE) -> Probe:
        """Ask for the key; the answer is in the probe."""
        asker = Probe()
        self.tell(WithdrawTask(TASK.key, withdrawal, asker))
        return asker


def holding_of(asker: Probe) -> WithdrawalResult:
    """Return the one answer to a withdrawal."""
    assert len(asker.messages) == 1, "every withdrawal is answered once"
    return asker.take(TaskWithdrawn).result
