"""Values for tests, each with everything a test does not care about filled in.

Times are told as ``due_in_ms`` from ``NOW_MS``, so no test reads a clock to build a task.
"""

from datetime import UTC, datetime, timedelta

import msgspec
from pydantic import JsonValue

from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.checkpoint_value import NO_ATTEMPT, AttemptCheckpoints
from hourhand.actors.model.task.codec import CommandKind, Headers, LogRecord, encode_task
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.task.task import FRESH, AttemptState, StoredTask, Task
from hourhand.scheduler.ports.lifecycle import LifecycleEvent

NOW = datetime(2026, 2, 9, 1, 41, 12, 959_000, tzinfo=UTC)
"""The moment tests take for now, unless their clock says otherwise."""
NOW_MS = 1_770_601_272_959
"""``NOW`` in UTC milliseconds."""
CHANGING = tuple(kind for kind in CommandKind if kind is not CommandKind.REPLACE)
"""The commands that change a task and bring no new one."""


class Idle(TaskExecutor):
    """User code that does nothing, and ends well."""

    def execute(self, task: Task) -> None:
        """Do nothing."""


def a_key(
    *, due_in_ms: int = 60_000, ordering_id: str = "customer-7", uniqueness_key: str = "invoice-42"
) -> TaskKey:
    """Return a key due ``due_in_ms`` after ``NOW_MS``."""
    return TaskKey(NOW_MS + due_in_ms, ordering_id, uniqueness_key)


def a_task(
    *,
    due_in_ms: int = 60_000,
    ordering_id: str = "customer-7",
    uniqueness_key: str = "invoice-42",
    data: dict[str, JsonValue] | None = None,
    kind: str | None = None,
    priority: int | None = None,
) -> Task:
    """Return a task as a user writes it, due ``due_in_ms`` after ``NOW``."""
    return Task(
        ordering_id=ordering_id,
        scheduled_time=NOW + timedelta(milliseconds=due_in_ms),
        uniqueness_key=uniqueness_key,
        data={"invoice": 42} if data is None else data,
        kind=kind,
        priority=priority,
    )


def a_stored_task(
    *,
    due_in_ms: int = 60_000,
    ordering_id: str = "customer-7",
    uniqueness_key: str = "invoice-42",
    data: bytes = b'{"invoice":42}',
    offset: int = 0,
    attempts: AttemptState = FRESH,
    overdue_when_loaded: bool = False,
) -> StoredTask:
    """Return a row of the schedule, made by the record at ``offset``."""
    key = a_key(due_in_ms=due_in_ms, ordering_id=ordering_id, uniqueness_key=uniqueness_key)
    return StoredTask(key, data, offset, attempts, overdue_when_loaded)


def a_completion(
    *,
    key: TaskKey | None = None,
    result: CompletionResult = CompletionResult.SUCCESS,
    offset: int = 0,
    attempts: int = 1,
    moved_to_ms: int | None = None,
    for_good: bool = False,
    reason: str | None = None,
) -> Completion:
    """Return a completion of ``key`` (by default ``a_key()``), ended at ``NOW_MS``."""
    return Completion(
        key or a_key(),
        result,
        offset,
        attempts=attempts,
        started_ms=NOW_MS - 5,
        finished_ms=NOW_MS,
        moved_to_ms=moved_to_ms,
        for_good=for_good,
        reason=reason,
    )


def an_attempt(
    *,
    task: StoredTask | None = None,
    partition: int = 0,
    epoch: int = 1,
    number: int = 1,
    suspect: bool = False,
    timeout_ms: int | None = None,
) -> Attempt:
    """Return an attempt at ``task`` (by default one that is due) by the owner of ``epoch``."""
    return Attempt(
        task or a_stored_task(due_in_ms=0),
        partition,
        epoch,
        number,
        suspect=suspect,
        timeout_ms=timeout_ms,
    )


def a_record(
    *,
    task: Task | None = None,
    value: bytes | None = None,
    partition: int = 0,
    offset: int = 0,
    timestamp_ms: int = NOW_MS,
    headers: Headers = (),
) -> LogRecord:
    """Return the log's record of ``task``, or one that holds ``value`` as it is."""
    written = task or a_task()
    return LogRecord(
        partition,
        offset,
        timestamp_ms,
        written.ordering_id.encode(),
        encode_task(written) if value is None else value,
        headers,
    )


class RecordingExecutable:
    """A user's executor that notes every task and answers with the next prepared outcome."""

    def __init__(self, *outcomes: Outcome | Exception | None) -> None:
        self.attempt = 0
        self.fence = 0
        self.hourhand_checkpoints: AttemptCheckpoints = NO_ATTEMPT
        self.ran: list[Task] = []
        self._outcomes = list(outcomes)

    def execute(self, task: Task) -> Outcome | None:
        """Note the task; return or raise the next prepared outcome, done when none is left."""
        self.ran.append(task)
        outcome = self._outcomes.pop(0) if self._outcomes else None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


decode_event = msgspec.json.Decoder(LifecycleEvent).decode
"""Reads a record of the topic of lifecycle events."""
