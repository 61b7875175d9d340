"""Tasks that wait until the calls for their ids have been quiet for a while: the last call wins.

A call is a request.  Its row says which call is the last one, and the end of its window is a task
of the same ordering id, which makes the call's task where no later call has taken its place in the
row.  The row is durable before that task is, and which of two calls is the later one is decided by
the times at which they were made, never by the clock of this node: a call that is run again after
a crash decides the same.

The row has no expiry before the last of these windows has ended, which is decided behind every
call of the windows, however late: an outage or pause of weeks makes no second task.  The task that
ends the last window gives the row its expiry, behind the call's task.  If it is tried again so late
that the row may have expired, and finds none, it was done.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import msgspec

from hourhand.actors.model.execution.outcome import Drop
from hourhand.actors.model.task.codec import encode_json
from hourhand.actors.model.task.definition import Definition, DefinitionKind, DefinitionName
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.values.errors import InvalidKey
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.node.system_executor import offset_above
from hourhand.scheduler.services.system.requested_tasks import (
    ROW_KEPT_MS,
    DecideRequested,
    RequestDecision,
    RequestedTask,
    request_task,
    task_members,
    window_ms,
)

_WINDOW_END = "end:"
"""Prefix of the uniqueness key of a window's end; the key of its call follows."""


class DebouncedCall(RequestedTask, frozen=True):
    """The data of a call, and of the end of its window."""

    until_ms: int
    """The end of its window; the task is not due before it."""
    call: str | None = None
    """At the end of a window: the call that opened it."""


class LastCall(msgspec.Struct, frozen=True):
    """The last call of some ids."""

    asked_ms: int
    call: str
    """Its uniqueness key, which is unique among calls."""
    until_ms: int = 0
    """The end of the last window of all calls so far."""
    until_of: str = ""
    """The call that opened that window; of several with one end, that with the last key."""

    def is_after(self, other: "LastCall") -> bool:
        """True if it was made later than another call; False if both are one."""
        return (self.asked_ms, self.call) > (other.asked_ms, other.call)

    def ends_with(self, request: DebouncedCall) -> bool:
        """True if no window of a call ends behind that of a request."""
        return (self.until_ms, self.until_of) <= (request.until_ms, request.call or "")


def debounced_call(task: Task, debounce: timedelta, asked_ms: int, unique: str) -> Task:
    """Return the request of a call; InvalidTask where ``debounce`` is not a window."""
    until_ms = asked_ms + window_ms("debounce", debounce)
    key = task.key._replace(scheduled_ms=max(task.key.scheduled_ms, until_ms))
    request = DebouncedCall(**task_members(task, key), until_ms=until_ms)
    return request_task(DefinitionKind.DEBOUNCED, task, request, asked_ms, unique)


_decode_request = msgspec.json.Decoder(DebouncedCall).decode
_decode_last = msgspec.json.Decoder(LastCall).decode
_encode = msgspec.json.Encoder().encode


class DecideDebounced(DecideRequested):
    """Decides a call, or the end of its window."""

    def decide(
        self, task: StoredTask, name: DefinitionName, found: Definition | None
    ) -> RequestDecision:
        """Record the last call; make its task at the end of its window."""
        try:
            request = _decode_request(task.data)
            wanted, _window_end = request.record(), from_millis(request.until_ms)
        except (msgspec.ValidationError, InvalidKey, ValueError, OverflowError) as error:
            return RequestDecision(Drop(f"its data is not a call for a debounced task: {error}"))
        last = None if found is None else _decode_last(found.rule)
        offset = offset_above(found, task.offset)
        if request.call is not None:
            return self._end(request, wanted, last, partial(Definition, name, offset))
        asked_ms, ordering_id, unique = task.key
        call = LastCall(asked_ms, unique, request.until_ms, unique)
        if last is not None and last.is_after(call):
            return RequestDecision(Drop("a later call was decided before this one"))
        row = None
        if last is None or call.is_after(last):
            row = Definition(name, offset, _encode(_with_last_end(call, last)))
        end = _encode(msgspec.structs.replace(request, call=unique))
        end_key = TaskKey(request.until_ms, ordering_id, f"{_WINDOW_END}{unique}")
        return RequestDecision(row=row, records=((ordering_id, encode_json(end_key, end)),))

    def _end(
        self,
        request: DebouncedCall,
        wanted: tuple[str, bytes],
        last: LastCall | None,
        row: "Callable[..., Definition]",
    ) -> RequestDecision:
        """Make the task of the last call; let the row expire once no window is open."""
        now_ms = self._dependencies.clock.now_ms()
        if last is None and now_ms >= request.until_ms + ROW_KEPT_MS:
            return RequestDecision(
                Drop("its window was ended so long ago that its row has expired")
            )
        expiring = None
        if last is not None and last.ends_with(request):
            expiring = row(_encode(last), expires_ms=now_ms + ROW_KEPT_MS)
        if last is None or last.call == request.call:
            return RequestDecision(records=(wanted,), last_row=expiring)
        return RequestDecision(Drop("a later call came before its window ended"), last_row=expiring)


def _with_last_end(call: LastCall, before: LastCall | None) -> LastCall:
    """Return a call with the end of the last window, which may be that of an earlier one."""
    if before is None or (before.until_ms, before.until_of) < (call.until_ms, call.until_of):
        return call
    return msgspec.structs.replace(call, until_ms=before.until_ms, until_of=before.until_of)
