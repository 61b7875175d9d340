"""Tasks that are to be the only ones of their ids for a while: the request, and who decides it.

Requests are about the same thing where kind, ordering id and uniqueness key are the same.  They
are tasks of one ordering id, so they come one after the other, whichever clients sent them.  They
are decided by the times at which they were asked for, and by the row that the last task's request
left behind, never by the clock of this node: a request that is run again after a crash decides the
same.  The row is durable before the task is made, which is made again then.
"""

import hashlib
from datetime import timedelta
from typing import Any

import msgspec

from actors.model.definition import RESERVED, Definition, DefinitionKind, DefinitionName
from actors.model.display import shown
from actors.model.errors import InvalidKey, InvalidTask
from actors.model.instant import format_instant, from_millis
from actors.model.key import TaskKey
from actors.model.outcome import Drop, Outcome
from actors.model.task import Task
from scheduler.futures.awaiting import settled
from scheduler.node.system_executor import SystemExecutor
from scheduler.services.system_tasks import SystemDependencies

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


_KEPT_MS = 10 * 86_400_000
"""How long a row outlives its window, for requests that reach the log late."""
_ORDERING_IDS = f"{RESERVED}{DefinitionKind.UNIQUE.value}:"


class UniqueMade(msgspec.Struct, frozen=True):
    """What the request that made the last task left behind."""

    key: str
    until_ms: int
    """A request that was asked for before this makes no task."""
    made_by: str
    """The request, told from every other of its ids."""


class DecideUnique(SystemExecutor):
    """Decides one request."""

    def __init__(self, dependencies: SystemDependencies) -> None:
        self._dependencies = dependencies

    async def execute(self, task: Task) -> Outcome | None:
        """Make the task that is asked for, unless one was made within the window before."""
        try:
            request = msgspec.convert(task.data, UniqueRequest)
            wanted = request.task
        except (msgspec.ValidationError, InvalidKey) as error:
            return Drop(f"its data is not a request for a unique task: {error}")
        name = DefinitionName(DefinitionKind.UNIQUE, task.ordering_id.removeprefix(_ORDERING_IDS))
        found = await settled(self._dependencies.definitions.find(name))
        made = None if found is None else msgspec.json.decode(found.rule, type=UniqueMade)
        asked_ms, mark = task.key.scheduled_ms, f"{task.key.scheduled_ms}:{task.uniqueness_key}"
        if made is None or made.made_by != mark:
            if made is not None and asked_ms < made.until_ms:
                until = format_instant(made.until_ms)
                return Drop(f"{made.key} was made before, and is the only one until {until}")
            until_ms = asked_ms + request.window_ms
            row = Definition(
                name,
                self.offset_over(found),
                msgspec.json.encode(UniqueMade(request.key, until_ms, mark)),
                expires_ms=until_ms + _KEPT_MS,
            )
            await settled(self._dependencies.definitions.save(row))
        await settled(self._dependencies.appender.append(wanted))
        return None
