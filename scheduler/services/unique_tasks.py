"""Tasks that are to be the only ones of their ids for a while: the request, and who decides it.

Requests are about the same thing where kind, ordering id and uniqueness key are the same.  They
are tasks of one ordering id, so they come one after the other, whichever clients sent them.  They
are decided by the times at which they were asked for, and by the row that the last task's request
left behind, never by the clock of this node: a request that is run again after a crash decides the
same.  The row is durable before the task is made, which is made again then.
"""

from datetime import timedelta

import msgspec

from actors.model.definition import Definition, DefinitionKind
from actors.model.errors import InvalidKey
from actors.model.instant import format_instant, from_millis
from actors.model.outcome import Drop, Outcome
from actors.model.sealed import envelope_in
from actors.model.task import Task
from scheduler.futures.awaiting import settled
from scheduler.node.system_executor import SystemExecutor
from scheduler.services.requested_tasks import (
    ROW_KEPT_MS,
    RequestedTask,
    name_of,
    name_of_request,
    window_ms,
)
from scheduler.services.system_tasks import SystemDependencies


class UniqueRequest(RequestedTask, frozen=True):
    """What a request says."""

    window_ms: int
    """No further task is made of requests that come less than this after the one that made it."""


def unique_request(task: Task, unique_for: timedelta, asked_ms: int, unique: str) -> Task:
    """Return the request for a task; InvalidTask where ``unique_for`` is not a window."""
    duration_ms = window_ms("unique_for", unique_for)
    request = UniqueRequest(
        key=str(task.key),
        task_data=task.data,
        seal=envelope_in(task.data),
        kind=task.kind,
        priority=task.priority,
        window_ms=duration_ms,
    )
    return Task.model_construct(
        ordering_id=name_of(DefinitionKind.UNIQUE, task).ordering_id,
        scheduled_time=from_millis(asked_ms),
        uniqueness_key=unique,
        data=request.as_data(),
    )


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
        name = name_of_request(task.ordering_id)
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
                expires_ms=until_ms + ROW_KEPT_MS,
            )
            await settled(self._dependencies.definitions.save(row))
        await settled(self._dependencies.appender.append(wanted))
        return None
