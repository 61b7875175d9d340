"""Tasks, receipts and outcomes as operators see them: the structs that API and command line share.

Decides which fields there are and what they are called: as in the log's records where both have
one, in camel case.  Times are RFC 3339.  Null is unknown; what does not apply is left out.
"""

import json
from base64 import b64encode
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Self, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from actors.model.instant import INSTANT_MAX_MS, INSTANT_MIN_MS, format_instant
from actors.model.sealed import sealing_of
from actors.model.status import (
    AttemptRecord,
    AttemptResult,
    CommandOutcome,
    Completion,
    CompletionResult,
    RecordedOutcome,
)
from scheduler.reading.inspector import TaskListing, TaskState, TaskView
from scheduler.reading.task_filter import last_error
from scheduler.records.receipt import CommandReceipt, Receipt

_SHOWN_BYTES_MAX = 10_000
_ERROR_CHARS_MAX = 300

Instant = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
KeyText = Annotated[str, Meta(extra_json_schema={"format": "task-key"})]
NameText = Annotated[str, Meta(extra_json_schema={"format": "task-name"})]
"""A key, or a pair: ``ORDERING_ID,UNIQUENESS_KEY``, both encoded as in a key."""

Known = TypeVar("Known")


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the API answers and the command line prints, or a part of it."""


class ShownReceipt(Answer, frozen=True):
    """Where the log holds a task or command."""

    key: NameText
    """Of a command by pair the pair."""
    partition: int
    offset: int

    @classmethod
    def of(cls, receipt: CommandReceipt) -> Self:
        """Show a receipt."""
        name = receipt.key if isinstance(receipt, Receipt) else receipt.pair
        return cls(key=str(name), partition=receipt.partition, offset=receipt.offset)


_NO_SINGLE_TASK = frozenset({CommandOutcome.UNKNOWN_PAIR, CommandOutcome.SEVERAL_TASKS})


class ShownOutcome(Answer, frozen=True, kw_only=True):
    """What a command achieved; ``undecided`` while no node has read it."""

    outcome: str
    key: KeyText | UnsetType = UNSET
    """Left out where a pair names no single task."""
    new_key: KeyText | UnsetType = UNSET
    several: list[KeyText] | UnsetType = UNSET
    """The first tasks that have both ids of a pair, where they are several."""
    receipt: ShownReceipt | UnsetType = UNSET

    @classmethod
    def of(cls, outcome: RecordedOutcome | None, receipt: CommandReceipt | None) -> Self:
        """Show an outcome, with the receipt where there is one."""
        shown_receipt = UNSET if receipt is None else ShownReceipt.of(receipt)
        if outcome is None:
            return cls(outcome="undecided", receipt=shown_receipt)
        new_key, several = outcome.new_key, [*map(str, outcome.several)]
        return cls(
            outcome=outcome.outcome.value,
            key=UNSET if outcome.outcome in _NO_SINGLE_TASK else str(outcome.key),
            new_key=UNSET if new_key is None else str(new_key),
            several=several or UNSET,
            receipt=shown_receipt,
        )


class ShownCompletion(Answer, frozen=True, kw_only=True):
    """How a key was closed."""

    result: CompletionResult
    offset: int
    attempts: int
    started: Instant | UnsetType = UNSET
    finished: Instant | UnsetType = UNSET
    moved_to: Instant | UnsetType = UNSET
    reason: str | UnsetType = UNSET

    @classmethod
    def of(cls, completion: Completion) -> Self:
        """Show a completion."""
        return cls(
            result=completion.result,
            offset=completion.offset,
            attempts=completion.attempts,
            started=or_unset(instant_text(completion.started_ms)),
            finished=or_unset(instant_text(completion.finished_ms)),
            moved_to=or_unset(instant_text(completion.moved_to_ms)),
            reason=or_unset(completion.reason),
        )


class ShownAttempt(Answer, frozen=True, kw_only=True):
    """One attempt of a task."""

    attempt: int
    result: AttemptResult
    started: Instant | UnsetType = UNSET
    finished: Instant | UnsetType = UNSET
    next_attempt: Instant | UnsetType = UNSET
    error_class: str | UnsetType = UNSET
    error_message: str | UnsetType = UNSET
    error_stack: str | UnsetType = UNSET
    fence: int

    @classmethod
    def of(cls, attempt: AttemptRecord) -> Self:
        """Show an attempt."""
        return cls(
            attempt=attempt.attempt,
            result=attempt.result,
            started=or_unset(instant_text(attempt.started_ms)),
            finished=or_unset(instant_text(attempt.finished_ms)),
            next_attempt=or_unset(instant_text(attempt.next_attempt_ms)),
            error_class=or_unset(attempt.error_class),
            error_message=or_unset(attempt.error_message),
            error_stack=or_unset(attempt.error_stack),
            fence=attempt.fence,
        )


class ShownError(Answer, frozen=True):
    """Why the last attempt failed, cut."""

    error_class: str
    error_message: str


class ShownExecution(Answer, frozen=True):
    """An attempt that runs, as its node says."""

    attempt: int
    node: str
    started: Instant | None = None
    """When its user code was called."""


class ShownLimit(Answer, frozen=True):
    """What a due task waits for, as its node says."""

    limit: str
    """The limit's name: the kind, ``#`` and its place in the declaration."""
    value: str
    """The value of the limit's key; empty where it has none."""
    since: Instant
    node: str


class WaitReason(StrEnum):
    """Why a task does not run."""

    NO_NODE = "no-node"
    """No node owns its partition."""
    PAUSED = "paused"
    """An operator has paused its ordering id, its partition, or everything."""
    NOT_DUE = "not-due"
    """Its time has not come."""
    NO_EXECUTOR = "no-executor"
    """The node that owns it cannot run it, and another one may."""
    BLOCKED = "blocked"
    """It used up its attempts, and an operator decides what becomes of it."""
    RETRYING = "retrying"
    """Its next attempt has a time."""
    BEHIND = "behind"
    """Another task of its ordering id comes first."""
    LIMITED = "limited"
    """It is due and waits because of a limit."""
    NO_WORKER = "no-worker"
    """It is due, and its node has not begun it: all workers are busy, or it is being read."""


class ShownWait(Answer, frozen=True, kw_only=True):
    """One reason why a task does not run."""

    reason: WaitReason
    told: str
    """The reason in words."""
    behind: KeyText | UnsetType = UNSET
    """The task that comes first."""
    command: str | UnsetType = UNSET
    """The command that helps, where there is one."""


class ShownTask(Answer, frozen=True):
    """Everything known of a task."""

    key: KeyText
    ordering_id: str
    scheduled_time: Instant
    uniqueness_key: str
    partition: int
    state: TaskState
    kind: str | UnsetType = UNSET
    """Which of several executors runs it, where it names one."""
    priority: int | UnsetType = UNSET
    """Its own, where it has one."""
    task_data: Annotated[Any, Meta(description="The JSON object the task came with.")] = UNSET
    sealed: str | UnsetType = UNSET
    """How the data is sealed, with the id of the key, where it is: then it is not shown."""
    offset: int | UnsetType = UNSET
    completion: ShownCompletion | UnsetType = UNSET
    attempts: list[ShownAttempt] | UnsetType = UNSET
    running: ShownExecution | UnsetType = UNSET
    limited: ShownLimit | UnsetType = UNSET
    waits: list[ShownWait] | UnsetType = UNSET
    """Why it does not run, where it is open and does not: what to mend first comes first."""
    attempt_count: int | UnsetType = UNSET
    last_error: ShownError | UnsetType = UNSET
    """Where the last attempt failed and nothing ended well after it."""

    @classmethod
    def of(cls, view: TaskView, *, data: bool = True) -> Self:
        """Show a task, with its data where that may be seen."""
        task, completion, failed = view.task, view.completion, last_error(view)
        sealed = None if task is None else sealing_of(task.body)
        return cls(
            key=str(view.key),
            ordering_id=view.key.ordering_id,
            scheduled_time=format_instant(view.key.scheduled_ms),
            uniqueness_key=view.key.uniqueness_key,
            partition=view.partition,
            state=view.state,
            kind=UNSET if task is None else or_unset(task.kind),
            priority=UNSET if task is None else or_unset(task.priority),
            task_data=json.loads(task.data) if task and data and sealed is None else UNSET,
            sealed=or_unset(sealed),
            offset=UNSET if task is None else task.offset,
            completion=UNSET if completion is None else ShownCompletion.of(completion),
            attempts=[ShownAttempt.of(each) for each in view.attempts],
            last_error=UNSET if failed is None else _shown_error(failed),
        )


_EXECUTED = frozenset({TaskState.RUNNING, TaskState.CANCELLING})


def executed_task(
    task: ShownTask,
    executions: Mapping[str, ShownExecution],
    limits: Mapping[str, ShownLimit] = {},
) -> ShownTask:
    """Return a task with the attempt that runs, or what it waits for, as its node says.

    Its state was told with what nodes say already.
    """
    if task.state in _EXECUTED:
        return replace(task, running=or_unset(executions.get(task.key)))
    if task.state is TaskState.LIMITED:
        return replace(task, limited=or_unset(limits.get(task.key)))
    return task


class ShownTasks(Answer, frozen=True):
    """Tasks in key order."""

    tasks: list[ShownTask]
    next_after: KeyText | None

    @classmethod
    def of(cls, listing: TaskListing, *, data: bool = True) -> Self:
        """Show a page of tasks, with their data where that may be seen."""
        return cls(
            tasks=[ShownTask.of(view, data=data) for view in listing.tasks],
            next_after=None if listing.next_after is None else str(listing.next_after),
        )


class ShownBytes(Answer, frozen=True):
    """Bytes, cut; those that are not text in base64."""

    text: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET
    size_bytes: int | UnsetType = msgspec.field(default=UNSET, name="bytes")
    """How many there are, where they are cut."""


def _shown_error(attempt: AttemptRecord) -> ShownError:
    message = (attempt.error_message or "")[:_ERROR_CHARS_MAX]
    return ShownError(error_class=attempt.error_class or "", error_message=message)


def shown_bytes(value: bytes | None) -> ShownBytes | None:
    """Show bytes, where there are any."""
    if value is None:
        return None
    cut = value[:_SHOWN_BYTES_MAX]
    size_bytes = len(value) if len(cut) < len(value) else UNSET
    try:
        return ShownBytes(text=cut.decode(), size_bytes=size_bytes)
    except UnicodeDecodeError:
        return ShownBytes(base64=b64encode(cut).decode(), size_bytes=size_bytes)


def or_unset(value: Known | None) -> Known | UnsetType:
    """Return a value; UNSET, which is left out, for None."""
    return UNSET if value is None else value


def instant_text(time_ms: int | None) -> str | None:
    """Return a time as text; None for none, and for one beyond every calendar."""
    if time_ms is None or not INSTANT_MIN_MS <= time_ms <= INSTANT_MAX_MS:
        return None
    return format_instant(time_ms)
