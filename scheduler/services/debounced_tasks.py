"""Tasks that wait until the calls for their ids have been quiet for a while: the last call wins.

A call is a request.  Its row says which call is the last one, and the end of its window is a task
of the same ordering id, which makes the call's task where no later call has taken its place in the
row.  The row is durable before that task is, and which of two calls is the later one is decided by
the times at which they were made, never by the clock of this node: a call that is run again after
a crash decides the same.
"""

from datetime import timedelta

import msgspec

from actors.model.definition import Definition, DefinitionKind
from actors.model.errors import InvalidKey
from actors.model.instant import from_millis
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

_WINDOW_END = "end:"
"""How the uniqueness key of a window's end begins, before that of its call."""


class DebouncedCall(RequestedTask, frozen=True):
    """What a call says, and the end of its window after it."""

    until_ms: int
    """The end of its window; the task is due no earlier."""
    call: str | None = None
    """At the end of a window: which call's it is."""


class LastCall(msgspec.Struct, frozen=True, order=True):
    """The last call of some ids."""

    asked_ms: int
    call: str
    """Its uniqueness key, which no other call has."""


def debounced_call(task: Task, debounce: timedelta, asked_ms: int, unique: str) -> Task:
    """Return the request of a call; InvalidTask where ``debounce`` is not a window."""
    until_ms = asked_ms + window_ms("debounce", debounce)
    key = task.key._replace(scheduled_ms=max(task.key.scheduled_ms, until_ms))
    request = DebouncedCall(
        key=str(key),
        task_data=task.data,
        seal=envelope_in(task.data),
        kind=task.kind,
        priority=task.priority,
        until_ms=until_ms,
    )
    return Task.model_construct(
        ordering_id=name_of(DefinitionKind.DEBOUNCED, task).ordering_id,
        scheduled_time=from_millis(asked_ms),
        uniqueness_key=unique,
        data=request.as_data(),
    )


class DecideDebounced(SystemExecutor):
    """Decides one call, or the end of its window."""

    def __init__(self, dependencies: SystemDependencies) -> None:
        self._dependencies = dependencies

    async def execute(self, task: Task) -> Outcome | None:
        """Note the last call; make its task at the end of its window."""
        try:
            request = msgspec.convert(task.data, DebouncedCall)
            wanted, window_end = request.task, from_millis(request.until_ms)
        except (msgspec.ValidationError, InvalidKey, ValueError, OverflowError) as error:
            return Drop(f"its data is not a call for a debounced task: {error}")
        found = await settled(
            self._dependencies.definitions.find(name_of_request(task.ordering_id))
        )
        last = None if found is None else msgspec.json.decode(found.rule, type=LastCall)
        if request.call is not None:
            # Without a row it has expired, and no call came after this one.
            if last is not None and last.call != request.call:
                return Drop("a later call came before its window ended")
            await settled(self._dependencies.appender.append(wanted))
            return None
        call = LastCall(task.key.scheduled_ms, task.uniqueness_key)
        if last is not None and call < last:
            return Drop("a later call was decided before this one")
        if call != last:
            await self._save(task.ordering_id, found, call, request.until_ms)
        end = msgspec.structs.replace(request, call=call.call)
        await settled(
            self._dependencies.appender.append(
                Task.model_construct(
                    ordering_id=task.ordering_id,
                    scheduled_time=window_end,
                    uniqueness_key=f"{_WINDOW_END}{call.call}",
                    data=end.as_data(),
                )
            )
        )
        return None

    async def _save(
        self, ordering_id: str, found: Definition | None, call: LastCall, until_ms: int
    ) -> None:
        row = Definition(
            name_of_request(ordering_id),
            self.offset_over(found),
            msgspec.json.encode(call),
            expires_ms=until_ms + ROW_KEPT_MS,
        )
        await settled(self._dependencies.definitions.save(row))
