"""Tasks that wait until the calls for their ids have been quiet for a while: the last call wins.

A call is a request.  Its row says which call is the last one, and the end of its window is a task
of the same ordering id, which makes the call's task where no later call has taken its place in the
row.  The row is durable before that task is, and which of two calls is the later one is decided by
the times at which they were made, never by the clock of this node: a call that is run again after
a crash decides the same.

The row has no expiry before the last of these windows has ended, which is decided behind every
call of the windows, however late: an outage or pause of weeks makes no second task.  A further
task gives the row its expiry, behind the one that ends the last window.  So the end of a window
finds the row, however often and however late it is tried.
"""

from datetime import timedelta

import msgspec

from hourhand.actors.model.definition import Definition, DefinitionKind
from hourhand.actors.model.errors import InvalidKey
from hourhand.actors.model.instant import from_millis
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
"""Prefix of the uniqueness key of a window's end; the key of its call follows."""
_EXPIRY = "over:"
"""Prefix of the key of the task that lets the row expire; it sorts behind each window's end."""


class DebouncedCall(RequestedTask, frozen=True):
    """The data of a call, and of the end of its window."""

    until_ms: int
    """The end of its window; the task is not due before it."""
    call: str | None = None
    """At the end of a window: the call that opened it."""
    over: bool = False
    """True once its window was ended: the row may expire if no other window is open."""


class LastCall(msgspec.Struct, frozen=True):
    """The last call of some ids."""

    asked_ms: int
    call: str
    """Its uniqueness key, which is unique among calls."""
    until_ms: int = 0
    """The end of the last window of all calls so far."""

    def is_after(self, other: "LastCall") -> bool:
        """True if it was made later than another call; False if both are one."""
        return (self.asked_ms, self.call) > (other.asked_ms, other.call)


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
        expires=expires_text(task),
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
        """Record the last call; make its task at the end of its window."""
        try:
            request = msgspec.convert(task.data, DebouncedCall)
            _wanted, _window_end = request.task, from_millis(request.until_ms)
        except (msgspec.ValidationError, InvalidKey, ValueError, OverflowError) as error:
            return Drop(f"its data is not a call for a debounced task: {error}")
        found = await settled(
            self._dependencies.definitions.find(name_of_request(task.ordering_id))
        )
        last = None if found is None else msgspec.json.decode(found.rule, type=LastCall)
        if request.over:
            if last is not None and last.until_ms <= request.until_ms:
                expires_ms = self._dependencies.clock.now_ms() + ROW_KEPT_MS
                await self._save(task.ordering_id, found, last, expires_ms)
            return None
        if request.call is not None:
            # A missing row has expired, and no call came after this one.
            return await self._end(task, request, last)
        call = LastCall(task.key.scheduled_ms, task.uniqueness_key, request.until_ms)
        if last is not None and last.is_after(call):
            return Drop("a later call was decided before this one")
        if last is None or call.is_after(last):
            if last is not None:
                until_ms = max(last.until_ms, request.until_ms)
                call = msgspec.structs.replace(call, until_ms=until_ms)
            await self._save(task.ordering_id, found, call, None)
        end = msgspec.structs.replace(request, call=call.call)
        await self._append_behind(task, end, f"{_WINDOW_END}{call.call}")
        return None

    async def _end(
        self, task: Task, request: DebouncedCall, last: LastCall | None
    ) -> Outcome | None:
        """Make the task of the last call; let the row expire once no window is open."""
        is_last = last is None or last.call == request.call
        if is_last:
            await settled(self._dependencies.appender.append(request.task))
        if last is not None and last.until_ms <= request.until_ms:
            over = msgspec.structs.replace(request, over=True)
            await self._append_behind(task, over, f"{_EXPIRY}{request.call}")
        return None if is_last else Drop("a later call came before its window ended")

    async def _append_behind(self, task: Task, request: DebouncedCall, unique: str) -> None:
        """Have what a request asks for done at the end of its window, behind this task."""
        await settled(
            self._dependencies.appender.append(
                Task.model_construct(
                    ordering_id=task.ordering_id,
                    scheduled_time=from_millis(request.until_ms),
                    uniqueness_key=unique,
                    data=request.as_data(),
                )
            )
        )

    async def _save(
        self, ordering_id: str, found: Definition | None, call: LastCall, expires_ms: int | None
    ) -> None:
        row = Definition(
            name_of_request(ordering_id),
            self.offset_over(found),
            msgspec.json.encode(call),
            expires_ms=expires_ms,
        )
        await settled(self._dependencies.definitions.save(row))
