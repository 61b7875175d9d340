"""A request for a task that is to be the only one of its ids for a while, as a task of our own.

Decides which requests are about the same thing: those of one kind, ordering id and uniqueness key.
Whether the task is made is decided where the request runs.
"""

import hashlib
from datetime import timedelta
from typing import Any

import msgspec

from actors.model.definition import DefinitionKind, DefinitionName
from actors.model.display import shown
from actors.model.errors import InvalidTask
from actors.model.instant import from_millis
from actors.model.key import TaskKey
from actors.model.task import Task

WINDOW_MS_MAX = 366 * 86_400_000
_ID_BYTES = 16


class UniqueRequest(msgspec.Struct, frozen=True):
    """What a request says."""

    key: str
    """The task's key, as text."""
    task_data: dict[str, Any]
    kind: str | None
    window_ms: int
    """No further task is made of requests that come less than this after the one that made it."""

    @property
    def task(self) -> Task:
        """The task that is asked for."""
        key = TaskKey.parse(self.key)
        return Task.model_construct(
            ordering_id=key.ordering_id,
            scheduled_time=key.scheduled_time,
            uniqueness_key=key.uniqueness_key,
            data=self.task_data,
            kind=self.kind,
        )


def window_ms(unique_for: object) -> int:
    """Return a window in milliseconds; InvalidTask where it is not one."""
    if not isinstance(unique_for, timedelta):
        raise InvalidTask(f"unique_for is a timedelta, got {shown(unique_for)}")
    duration_ms = unique_for // timedelta(milliseconds=1)
    if not 1 <= duration_ms <= WINDOW_MS_MAX:
        raise InvalidTask(f"unique_for is from a millisecond to 366 days, got {unique_for}")
    return duration_ms


def request_task(task: Task, duration_ms: int, asked_ms: int, unique: str) -> Task:
    """Return the task that asks for another one."""
    request = UniqueRequest(str(task.key), task.data, task.kind, duration_ms)
    return Task.model_construct(
        ordering_id=name_of(task).ordering_id,
        scheduled_time=from_millis(asked_ms),
        uniqueness_key=unique,
        data=msgspec.structs.asdict(request),
    )


def name_of(task: Task) -> DefinitionName:
    """Return the name of the row that says when a task of these ids was made last.

    A digest, because both ids together may be longer than one may be.
    """
    ids = msgspec.json.encode([task.kind, task.ordering_id, task.uniqueness_key])
    return DefinitionName(
        DefinitionKind.UNIQUE, hashlib.blake2b(ids, digest_size=_ID_BYTES).hexdigest()
    )
