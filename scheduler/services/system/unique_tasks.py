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
from typing import Annotated

import msgspec

from hourhand.actors.model.execution.outcome import Drop
from hourhand.actors.model.task.codec import encode_json
from hourhand.actors.model.task.definition import Definition, DefinitionKind, DefinitionName
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.values.errors import InvalidKey
from hourhand.actors.model.values.instant import INSTANT_MAX_MS, format_instant
from hourhand.scheduler.node.system_executor import offset_above
from hourhand.scheduler.services.system.requested_tasks import (
    ROW_KEPT_MS,
    WINDOW_MS_MAX,
    DecideRequested,
    RequestDecision,
    RequestedTask,
    request_task,
    task_members,
    window_ms,
)

_WINDOW_END = "end:"
"""Prefix of the uniqueness key of a window's end; the key of its first request follows."""


class UniqueRequest(RequestedTask, frozen=True):
    """The data of a request."""

    window_ms: Annotated[int, msgspec.Meta(ge=1, le=WINDOW_MS_MAX)]
    """No task is made of requests that come within this time after the one that made a task."""


def unique_request(task: Task, unique_for: timedelta, asked_ms: int, unique: str) -> Task:
    """Return the request for a task; InvalidTask if ``unique_for`` is not a valid window."""
    duration_ms = window_ms("unique_for", unique_for)
    request = UniqueRequest(**task_members(task, task.key), window_ms=duration_ms)
    return request_task(DefinitionKind.UNIQUE, task, request, asked_ms, unique)


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


_decode_request = msgspec.json.Decoder(UniqueRequest).decode
_decode_end = msgspec.json.Decoder(WindowEnd).decode
_decode_made = msgspec.json.Decoder(UniqueMade).decode
_encode = msgspec.json.Encoder().encode


class DecideUnique(DecideRequested):
    """Decides a request, or ends a window."""

    def decide(
        self, task: StoredTask, name: DefinitionName, found: Definition | None
    ) -> RequestDecision:
        """Make the requested task, unless one was made within the previous window."""
        key = task.key
        if key.uniqueness_key.startswith(_WINDOW_END):
            return self._end(task, found)
        try:
            request = _decode_request(task.data)
            wanted = request.record()
        except (msgspec.ValidationError, InvalidKey, ValueError) as error:
            return RequestDecision(Drop(f"its data is not a request for a unique task: {error}"))
        made = None if found is None else _decode_made(found.rule)
        asked_ms, mark = key.scheduled_ms, f"{key.scheduled_ms}:{key.uniqueness_key}"
        row = None
        if made is None or made.made_by != mark:
            if made is not None and asked_ms < made.until_ms:
                until = format_instant(made.until_ms)
                return RequestDecision(
                    Drop(f"{made.key} was made before, and is the only one until {until}")
                )
            until_ms = min(asked_ms + request.window_ms, INSTANT_MAX_MS)
            made = UniqueMade(request.key, until_ms, mark)
            row = Definition(name, offset_above(found, task.offset), _encode(made))
        end_key = TaskKey(made.until_ms, key.ordering_id, f"{_WINDOW_END}{mark}")
        end = encode_json(end_key, _encode(WindowEnd(mark)))
        return RequestDecision(row=row, records=(wanted, (key.ordering_id, end)))

    def _end(self, task: StoredTask, found: Definition | None) -> RequestDecision:
        """Let the row of a window expire, unless a later window has one of its own."""
        try:
            end = _decode_end(task.data)
        except msgspec.ValidationError as error:
            return RequestDecision(Drop(f"its data is not the end of a window: {error}"))
        if found is None or _decode_made(found.rule).made_by != end.window_of:
            return RequestDecision()
        expires_ms = self._dependencies.clock.now_ms() + ROW_KEPT_MS
        offset = offset_above(found, task.offset)
        return RequestDecision(
            row=Definition(found.name, offset, found.rule, expires_ms=expires_ms)
        )
