"""A task and its attempts as a user's program reads them.

Decides the fields: times as aware datetimes, data as it was scheduled. ``task_state`` derives the
state from a key's row, completion and attempts.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

import msgspec

from hourhand.actors.model.task.json_text import shown_value
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.links import Links
from hourhand.actors.model.task.sealed import is_sealed
from hourhand.actors.model.task.status import AttemptRecord, AttemptResult
from hourhand.actors.model.task.task_end import TaskEnd
from hourhand.actors.model.values.instant import (
    INSTANT_MAX_MS,
    INSTANT_MIN_MS,
    from_millis,
    to_millis,
)
from hourhand.actors.model.values.public import public
from hourhand.scheduler.tasks.task_state import OPEN_STATES, TaskState, TaskView


@public("hourhand")
class Absence(StrEnum):
    """The reason why nothing is stored of a task."""

    NOT_STORED_YET = "not_stored_yet"
    """The log holds its record, and no node has stored it yet: is one running?"""
    UNSEEN = "unseen"
    """It was never scheduled, or no node has stored it yet: only a receipt can distinguish
    these."""
    GONE = "gone"
    """It can no longer run: it ended so long ago that it was deleted, its record could not be read
    and is a dead letter, or it was due long ago and never scheduled."""


@public("hourhand")
class AttemptInfo(msgspec.Struct, frozen=True):
    """One attempt at a task."""

    attempt: int
    """1 for the first."""
    result: AttemptResult
    started_time: datetime
    finished_time: datetime | None = None
    """None while it runs, and if its process died."""
    next_attempt_time: datetime | None = None
    """None if no further attempt follows."""
    error_class: str | None = None
    error_message: str | None = None
    error_stack: str | None = None
    snoozed: int = 0
    """Times that it was put off so far, while it is not over."""
    fence: int = 0
    """Grows with every owner of the partition; ``TaskExecutor.fence`` is the same."""

    @classmethod
    def of(cls, record: AttemptRecord) -> Self:
        """Return a stored attempt in this form."""
        started = _time(record.started_ms)
        assert started is not None, "an attempt begins by the machine's clock"
        return cls(
            attempt=record.attempt,
            result=record.result,
            started_time=started,
            finished_time=_time(record.finished_ms),
            next_attempt_time=_time(record.next_attempt_ms),
            error_class=record.error_class,
            error_message=record.error_message,
            error_stack=record.error_stack,
            snoozed=record.snoozed,
            fence=record.fence,
        )


@public("hourhand")
class TaskInfo(msgspec.Struct, frozen=True):
    """A stored task; a first attempt that runs right now still shows as pending."""

    key: TaskKey
    state: TaskState
    data: dict[str, Any] | None = None
    """The data of the task; None if it was deleted, which happens some time after the task's end,
    if nothing is stored, and if it is sealed and this client cannot open it."""
    kind: str | None = None
    """The kind of task; None for the default executor's, and if the data is None."""
    priority: int | None = None
    """The task's own priority; None for its kind's, and if the data is None."""
    expires_time: datetime | None = None
    """The time of the task's own expiry; None without one, and if the data is None."""
    attempts: tuple[AttemptInfo, ...] = ()
    finished_time: datetime | None = None
    """The time at which the task was closed; None while it is open."""
    moved_to: TaskKey | None = None
    """The task's new key, if its state is ``moved``."""
    reason: str | None = None
    """The reason of its end, if a ``Drop`` or an operator gave one."""
    absence: Absence | None = None
    """The reason why nothing is stored; None unless the state is ``unknown``."""
    checkpoint: Any = None
    """The newest checkpoint that its code made; None without one, where it is sealed, and in a
    listing."""
    result: Any = None
    """The value that it ended with; None without one, once its time is over, where it is sealed,
    and in a listing that did not ask for results."""
    result_sealed: str | None = None
    """The reason why this client cannot open the result; None if it could, or there is none."""
    then: TaskKey | None = None
    """The task that follows once this one has ended; None without one, and if the data is None."""
    after: tuple[TaskEnd, ...] = ()
    """The ends of the tasks that this one follows."""
    sealed: str | None = None
    """The reason why this client cannot open the data: its codec, the id of the key, and the
    missing part. None if it could."""

    @property
    def is_open(self) -> bool:
        """True if it is stored and may still run."""
        return self.state in OPEN_STATES

    @property
    def is_closed(self) -> bool:
        """True if its end is stored, or its move to another key."""
        return self.state is not TaskState.UNKNOWN and self.state not in OPEN_STATES

    @property
    def finished_ms(self) -> int:
        """The time at which the task was closed in milliseconds since 1970; 0 while it is open."""
        return 0 if self.finished_time is None else to_millis(self.finished_time)

    @property
    def error(self) -> str | None:
        """The error of the last attempt, such as ``ValueError: no such invoice``."""
        last = self.attempts[-1] if self.attempts else None
        if last is None or last.error_class is None:
            return None
        return f"{last.error_class}: {last.error_message or ''}".removesuffix(": ")

    @classmethod
    def of(cls, view: TaskView) -> Self:
        """Return a key with stored rows in this form."""
        closed = None if view.state in OPEN_STATES else view.completion
        moved_ms = None if closed is None else closed.moved_to_ms
        links = (None if view.task is None else view.task.links) or Links()
        return cls(
            key=view.key,
            state=view.state,
            data=None if view.task is None else view.task.to_task().data,
            kind=None if view.task is None else view.task.kind,
            priority=None if view.task is None else view.task.priority,
            expires_time=_expires_time(view),
            attempts=shown_attempts(view.attempts),
            finished_time=None if closed is None else _time(closed.finished_ms),
            moved_to=None if moved_ms is None else view.key._replace(scheduled_ms=moved_ms),
            reason=None if closed is None else closed.reason,
            checkpoint=_checkpoint(view),
            then=None if links.then is None else links.then.key,
            after=tuple(each.read() for each in links.after),
        )


def _expires_time(view: TaskView) -> datetime | None:
    expiry = None if view.task is None else view.task.expiry
    return None if expiry is None else _time(expiry.instant_ms(view.key.scheduled_ms))


def _checkpoint(view: TaskView) -> object:
    if view.checkpoint is None or is_sealed(view.checkpoint.body):
        return None
    return shown_value(view.checkpoint.body)


def shown_attempts(records: Sequence[AttemptRecord]) -> tuple[AttemptInfo, ...]:
    """Return attempts in this form, in their order."""
    return tuple(AttemptInfo.of(each) for each in records)


def _time(time_ms: int | None) -> datetime | None:
    """Return an instant; None for None, and for a time outside of the years 1 to 9999."""
    if time_ms is None or not INSTANT_MIN_MS <= time_ms <= INSTANT_MAX_MS:
        return None
    return from_millis(time_ms)
