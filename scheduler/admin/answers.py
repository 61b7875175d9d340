"""Tasks, receipts and outcomes as operators see them: the structs that API and command line share.

Decides the fields and their names: as in the log's records where both have one, in camel case.
Times are RFC 3339. Null is unknown; a field that does not apply is left out.
"""

import json
from base64 import b64encode
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, TypedDict, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from hourhand.actors.model.operations.oversight import RunningTask
from hourhand.actors.model.task.checkpoint_value import progress_of
from hourhand.actors.model.task.json_text import shown_value
from hourhand.actors.model.task.links import EndRecord
from hourhand.actors.model.task.sealed import sealing_of
from hourhand.actors.model.task.status import (
    AttemptRecord,
    AttemptResult,
    CommandOutcome,
    Completion,
    CompletionResult,
    RecordedOutcome,
)
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.model.task.task_result import StoredResult
from hourhand.actors.model.values.instant import INSTANT_MAX_MS, INSTANT_MIN_MS, format_instant
from hourhand.scheduler.tasks.inspector import TaskListing, TaskState, TaskView
from hourhand.scheduler.tasks.receipt import CommandReceipt, Receipt
from hourhand.scheduler.tasks.task_filter import last_error

_SHOWN_BYTES_MAX = 10_000
_ERROR_CHARS_MAX = 300

Instant = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
KeyText = Annotated[str, Meta(extra_json_schema={"format": "task-key"})]
NameText = Annotated[str, Meta(extra_json_schema={"format": "task-name"})]
"""A key, or a pair: ``ORDERING_ID,UNIQUENESS_KEY``, both encoded as in a key."""

Known = TypeVar("Known")


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An answer of the API, or a part of one; the command line prints the same."""


class ShownReceipt(Answer, frozen=True):
    """The place of a task or command in the log."""

    key: NameText
    """The key; for a command by pair, the pair."""
    partition: int
    offset: int

    @classmethod
    def of(cls, receipt: CommandReceipt) -> Self:
        """Show a receipt."""
        name = receipt.key if isinstance(receipt, Receipt) else receipt.pair
        return cls(key=str(name), partition=receipt.partition, offset=receipt.offset)


_NO_SINGLE_TASK = frozenset({CommandOutcome.UNKNOWN_PAIR, CommandOutcome.SEVERAL_TASKS})


class ShownOutcome(Answer, frozen=True, kw_only=True):
    """The outcome of a command; ``undecided`` while no node has read it."""

    outcome: str
    key: KeyText | UnsetType = UNSET
    """The task's key; left out if a pair names no single task."""
    new_key: KeyText | UnsetType = UNSET
    several: list[KeyText] | UnsetType = UNSET
    """The first tasks with both ids of a pair, if there are several."""
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
    """The reason why a key is closed, and its time."""

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
    snoozed: int | UnsetType = UNSET
    """Times that it was put off so far, while it is not over."""
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
            snoozed=attempt.snoozed or UNSET,
            fence=attempt.fence,
        )


class ShownCheckpoint(Answer, frozen=True, kw_only=True):
    """The newest checkpoint of a task."""

    attempt: int
    """The number of the attempt that made it."""
    made: Instant | UnsetType = UNSET
    done: float | UnsetType = UNSET
    """The part of ``total`` that is done; both are left out if the value does not have them."""
    total: float | UnsetType = UNSET
    value: Annotated[Any, Meta(description="The checkpoint, any JSON value.")] = UNSET
    sealed: str | UnsetType = UNSET
    """For a sealed checkpoint, its codec and the id of its key; the value is not shown then."""

    @classmethod
    def told(cls, running: RunningTask) -> "ShownCheckpoint | UnsetType":
        """Show the last checkpoint of an attempt that runs, as its node reports it."""
        made = running.checkpoint
        if made is None:
            return UNSET
        return cls(
            attempt=running.attempt,
            made=or_unset(instant_text(made.made_ms)),
            done=or_unset(made.done),
            total=or_unset(made.total),
        )

    @classmethod
    def of(cls, checkpoint: TaskCheckpoint, *, data: bool = True) -> Self:
        """Show a checkpoint, with its value if ``data`` is True."""
        sealed = sealing_of(checkpoint.body)
        value = None if sealed is not None else shown_value(checkpoint.body)
        progress = progress_of(value)
        return cls(
            attempt=checkpoint.attempt,
            made=or_unset(instant_text(checkpoint.made_ms)),
            done=UNSET if progress is None else progress.done,
            total=UNSET if progress is None else progress.total,
            value=value if data and sealed is None else UNSET,
            sealed=or_unset(sealed),
        )


class ShownResult(Answer, frozen=True, kw_only=True):
    """The value that a task ended with."""

    attempt: int
    """The number of the attempt that returned it."""
    kept_until: Instant | UnsetType = UNSET
    value: Annotated[Any, Meta(description="The result, any JSON value.")] = UNSET
    sealed: str | UnsetType = UNSET
    """For a sealed result, its codec and the id of its key; the value is not shown then."""
    gone: bool = False
    """True if its time is over, and the value is forgotten."""

    @classmethod
    def of(cls, result: StoredResult, *, data: bool = True) -> Self:
        """Show a result, with its value if ``data`` is True."""
        body = result.body
        sealed = sealing_of(body)
        has_value = data and sealed is None and bool(body)
        return cls(
            attempt=result.attempt,
            kept_until=or_unset(instant_text(result.kept_until_ms)),
            value=shown_value(body) if has_value else UNSET,
            sealed=or_unset(sealed),
            gone=not body,
        )


class ShownError(Answer, frozen=True):
    """The error of the last attempt, cut."""

    error_class: str
    error_message: str


class ShownExecution(Answer, frozen=True):
    """An attempt that runs, as its node reports it."""

    attempt: int
    node: str
    started: Instant | None = None
    """The time when its user code was called."""
    where: str | None = None
    """``thread``, ``loop``, ``process`` or ``batch``."""
    checkpoint: ShownCheckpoint | UnsetType = UNSET
    """The last one that this attempt has made, without its value."""
    stuck: bool = False
    """True if it has made none for longer than its kind allows."""


class ShownLimit(Answer, frozen=True):
    """The limit that a due task waits for, as its node reports it."""

    limit: str
    """The limit's name: the kind, ``#`` and its place in the declaration."""
    value: str
    """The value of the limit's key; empty where it has none."""
    since: Instant
    node: str


class WaitReason(StrEnum):
    """The reasons why a task does not run."""

    NO_NODE = "no-node"
    """No node owns its partition."""
    PAUSED = "paused"
    """An operator has paused its ordering id, its partition, or everything."""
    NOT_DUE = "not-due"
    """Its time has not come."""
    NO_EXECUTOR = "no-executor"
    """The node that owns it cannot run it; another one may."""
    BLOCKED = "blocked"
    """It used up its attempts, and an operator must decide about it."""
    RETRYING = "retrying"
    """Its next attempt has a time, which has not come."""
    SNOOZED = "snoozed"
    """Its code asked to be called again at a time, which has not come."""
    BEHIND = "behind"
    """Another task of its ordering id runs first."""
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
    """The task that runs first."""
    command: str | UnsetType = UNSET
    """A command that helps, if there is one."""


class ShownThen(Answer, frozen=True, kw_only=True):
    """The follower of a task."""

    key: KeyText
    on: Literal["success", "any"]
    """The ends that bring it: ``success``, or ``any``."""


class ShownEnd(Answer, frozen=True, kw_only=True):
    """The end of a task, as its follower was told."""

    key: KeyText
    state: str
    finished: Instant
    attempts: int
    reason: str | UnsetType = UNSET

    @classmethod
    def of(cls, ended: EndRecord) -> Self:
        """Show an end without its result, which the task itself has."""
        return cls(
            key=ended.key,
            state=ended.state,
            finished=ended.finished,
            attempts=ended.attempts,
            reason=or_unset(ended.reason),
        )


class _Linked(TypedDict, total=False):
    then: ShownThen
    after: list[ShownEnd]


class ShownTask(Answer, frozen=True):
    """All that is known about a task."""

    key: KeyText
    ordering_id: str
    scheduled_time: Instant
    uniqueness_key: str
    partition: int
    state: TaskState
    kind: str | UnsetType = UNSET
    """The kind, which chooses the executor; left out for the default one."""
    priority: int | UnsetType = UNSET
    """The task's own priority, if it has one."""
    expires: Instant | UnsetType = UNSET
    """The time of the task's own expiry, if it has one: no attempt starts from then on."""
    then: ShownThen | UnsetType = UNSET
    """The task that follows this one, if one does."""
    after: list[ShownEnd] | UnsetType = UNSET
    """The ends of the tasks that this one follows, if it follows any."""
    task_data: Annotated[Any, Meta(description="The task's JSON object.")] = UNSET
    sealed: str | UnsetType = UNSET
    """For sealed data, its codec and the id of its key; the data itself is not shown then."""
    offset: int | UnsetType = UNSET
    completion: ShownCompletion | UnsetType = UNSET
    attempts: list[ShownAttempt] | UnsetType = UNSET
    checkpoint: ShownCheckpoint | UnsetType = UNSET
    """The newest checkpoint, of a single task that made one."""
    result: ShownResult | UnsetType = UNSET
    """The value that a single task ended with, if it ended with one."""
    running: ShownExecution | UnsetType = UNSET
    limited: ShownLimit | UnsetType = UNSET
    waits: list[ShownWait] | UnsetType = UNSET
    """The reasons why an open task does not run; the first one should be fixed first."""
    attempt_count: int | UnsetType = UNSET
    last_error: ShownError | UnsetType = UNSET
    """The error of the last attempt, unless the task ended well after it."""

    @classmethod
    def of(cls, view: TaskView, *, data: bool = True) -> Self:
        """Show a task, with its data if ``data`` is True."""
        task, completion, failed = view.task, view.completion, last_error(view)
        sealed = None if task is None else sealing_of(task.body)
        made, returned = view.checkpoint, view.result
        return cls(
            key=str(view.key),
            ordering_id=view.key.ordering_id,
            scheduled_time=format_instant(view.key.scheduled_ms),
            uniqueness_key=view.key.uniqueness_key,
            partition=view.partition,
            state=view.state,
            kind=UNSET if task is None else or_unset(task.kind),
            priority=UNSET if task is None else or_unset(task.priority),
            expires=UNSET if task is None else or_unset(_expires_text(task)),
            **_shown_links(task),
            task_data=json.loads(task.data) if task and data and sealed is None else UNSET,
            sealed=or_unset(sealed),
            offset=UNSET if task is None else task.offset,
            completion=UNSET if completion is None else ShownCompletion.of(completion),
            attempts=[ShownAttempt.of(each) for each in view.attempts],
            checkpoint=UNSET if made is None else ShownCheckpoint.of(made, data=data),
            result=UNSET if returned is None else ShownResult.of(returned, data=data),
            last_error=UNSET if failed is None else _shown_error(failed),
        )


_EXECUTED = frozenset({TaskState.RUNNING, TaskState.CANCELLING})


def executed_task(
    task: ShownTask,
    executions: Mapping[str, ShownExecution],
    limits: Mapping[str, ShownLimit] = {},
) -> ShownTask:
    """Return a task with the attempt that runs, or the limit it waits for, as its node reports.

    Its state already includes the nodes' reports.
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
        """Show a page of tasks, with their data if ``data`` is True."""
        return cls(
            tasks=[ShownTask.of(view, data=data) for view in listing.tasks],
            next_after=None if listing.next_after is None else str(listing.next_after),
        )


class ShownBytes(Answer, frozen=True):
    """Bytes, cut; as base64 if they are not text."""

    text: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET
    size_bytes: int | UnsetType = msgspec.field(default=UNSET, name="bytes")
    """The full number of bytes, if they are cut."""


def _expires_text(task: StoredTask) -> str | None:
    expiry = task.expiry
    return None if expiry is None else instant_text(expiry.instant_ms(task.key.scheduled_ms))


def _shown_links(task: StoredTask | None) -> _Linked:
    links = None if task is None else task.links
    if links is None:
        return {}
    shown: _Linked = {}
    if links.then is not None:
        shown["then"] = ShownThen(key=str(links.then.key), on=links.then.on)
    if links.after:
        shown["after"] = [ShownEnd.of(each) for each in links.after]
    return shown


def _shown_error(attempt: AttemptRecord) -> ShownError:
    message = (attempt.error_message or "")[:_ERROR_CHARS_MAX]
    return ShownError(error_class=attempt.error_class or "", error_message=message)


def shown_bytes(value: bytes | None) -> ShownBytes | None:
    """Return bytes as they are shown; None for None."""
    if value is None:
        return None
    cut = value[:_SHOWN_BYTES_MAX]
    size_bytes = len(value) if len(cut) < len(value) else UNSET
    try:
        return ShownBytes(text=cut.decode(), size_bytes=size_bytes)
    except UnicodeDecodeError:
        return ShownBytes(base64=b64encode(cut).decode(), size_bytes=size_bytes)


def or_unset(value: Known | None) -> Known | UnsetType:
    """Return a value, or UNSET in place of None; UNSET fields are left out."""
    return UNSET if value is None else value


def instant_text(time_ms: int | None) -> str | None:
    """Return a time as text; None for None, and for a time after the year 9999."""
    if time_ms is None or not INSTANT_MIN_MS <= time_ms <= INSTANT_MAX_MS:
        return None
    return format_instant(time_ms)
