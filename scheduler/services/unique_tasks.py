"""Tasks that are to be the only ones of their ids for a while: the request, and who decides it.

Requests are about the same thing where kind, ordering id and uniqueness key are the same.  They
are tasks of one ordering id, so they come one after the other, whichever clients sent them.  They
are decided by the times at which they were asked for, and by the row that the last task's request
left behind, never by the clock of this node: a request that is run again after a crash decides the
same.  The row is durable before the task is made, which is made again then.

The row outlives all requests that it decides, however late they are decided: it has no expiry
before a task of the same ordering id, due at the window's end, gives it one.  That task comes
behind every request of the window, so an outage or pause of weeks makes no second task.
"""

from datetime import timedelta

import msgspec

from hourhand.actors.model.definition import Definition, DefinitionKind, DefinitionName
from hourhand.actors.model.errors import InvalidKey
from hourhand.actors.model.instant import INSTANT_MAX_MS, format_instant, from_millis
from hourhand.actors.model.outcome import Drop, Outcome
from hourhand.actors.model.sealed import envelope_in
from hourhand.actors.model.task import Task
from hourhand.scheduler.futures.awaiting import settled
from hourhand.scheduler.node.system_executor import SystemExecutor
from hourhand.scheduler.services.requested_tasks import (
    ROW_KEPT_MS,
    RequestedTask,
    expires_text,
    name_of,
    name_of_request,
    window_ms,
)
from hourhand.scheduler.services.system_tasks import SystemDependencies

_WINDOW_END = "end:"
"""Prefix of the uniqueness key of a window's end; the key of its first request follows."""


class UniqueRequest(RequestedTask, frozen=True):
    """The data of a request."""

    window_ms: int
    """No task is made of requests that come within this time after the one that made a task."""


def unique_request(task: Task, unique_for: timedelta, asked_ms: int, unique: str) -> Task:
    """Return the request for a task; InvalidTask if ``unique_for`` is not a valid window."""
    duration_ms = window_ms("unique_for", unique_for)
    request = UniqueRequest(
        key=str(task.key),
        task_data=task.data,
        seal=envelope_in(task.data),
        kind=task.kind,
        priority=task.priority,
        expires=expires_text(task),
        window_ms=duration_ms,
    )
    return Task.model_construct(
        ordering_id=name_of(DefinitionKind.UNIQUE, task).ordering_id,
        scheduled_time=from_millis(asked_ms),
        uniqueness_key=unique,
        data=request.as_data(),
    )


class UniqueMade(msgspec.Struct, frozen=True):
    """The row that is left by the request which made the last task."""

    key: str
    until_ms: int
    """A request from before this time makes no task."""
    made_by: str
    """The uniqueness key of the request."""


class WindowEnd(msgspec.Struct, frozen=True):
    """The data of the task at the end of a window; older nodes do not take it for a request."""

    window_of: str
    """The request that opened it."""


class DecideUnique(SystemExecutor):
    """Decides one request, or ends a window."""

    def __init__(self, dependencies: SystemDependencies) -> None:
        self._dependencies = dependencies

    async def execute(self, task: Task) -> Outcome | None:
        """Make the requested task, unless one was made within the previous window."""
        name = name_of_request(task.ordering_id)
        try:
            if "window_of" in task.data:
                await self._end(name, msgspec.convert(task.data, WindowEnd))
                return None
            request = msgspec.convert(task.data, UniqueRequest)
            wanted = request.task
        except (msgspec.ValidationError, InvalidKey, ValueError) as error:
            return Drop(f"its data is not a request for a unique task: {error}")
        found = await settled(self._dependencies.definitions.find(name))
        made = None if found is None else msgspec.json.decode(found.rule, type=UniqueMade)
        asked_ms, mark = task.key.scheduled_ms, f"{task.key.scheduled_ms}:{task.uniqueness_key}"
        if made is None or made.made_by != mark:
            if made is not None and asked_ms < made.until_ms:
                until = format_instant(made.until_ms)
                return Drop(f"{made.key} was made before, and is the only one until {until}")
            until_ms = min(asked_ms + request.window_ms, INSTANT_MAX_MS)
            made = UniqueMade(request.key, until_ms, mark)
            row = Definition(name, self.offset_over(found), msgspec.json.encode(made))
            await settled(self._dependencies.definitions.save(row))
        await settled(self._dependencies.appender.append(wanted))
        end = Task.model_construct(
            ordering_id=task.ordering_id,
            scheduled_time=from_millis(made.until_ms),
            uniqueness_key=f"{_WINDOW_END}{mark}",
            data=msgspec.structs.asdict(WindowEnd(mark)),
        )
        await settled(self._dependencies.appender.append(end))
        return None

    async def _end(self, name: DefinitionName, end: WindowEnd) -> None:
        """Let the row of a window expire, unless a later window has one of its own."""
        found = await settled(self._dependencies.definitions.find(name))
        if (
            found is None
            or msgspec.json.decode(found.rule, type=UniqueMade).made_by != end.window_of
        ):
            return
        expires_ms = self._dependencies.clock.now_ms() + ROW_KEPT_MS
        row = Definition(name, self.offset_over(found), found.rule, expires_ms=expires_ms)
        await settled(self._dependencies.definitions.save(row))
