"""Tasks that a client requests from a node, because only the owner of their ids can decide about
them.

Requests concern the same task if kind, ordering id and uniqueness key are equal. They are tasks of
one ordering id, so they run one after the other, whichever clients sent them. Decides the content
and the ids of a request; its executor decides the result.
"""

import hashlib
from datetime import timedelta
from typing import Annotated, Any

import msgspec

from hourhand.actors.model.definition import DefinitionKind, DefinitionName, ordering_id_parts
from hourhand.actors.model.display import shown
from hourhand.actors.model.errors import InvalidTask
from hourhand.actors.model.expiry import read_expiry
from hourhand.actors.model.key import TaskKey
from hourhand.actors.model.priority import PRIORITY_MAX
from hourhand.actors.model.sealed import SealedData, sealed_with
from hourhand.actors.model.task import Task, expires_of

WINDOW_MS_MAX = 366 * 86_400_000
ROW_KEPT_MS = 10 * 86_400_000
"""Time for which a row outlives the end of its window, for requests that reach the log late."""
_ID_BYTES = 16


class RequestedTask(msgspec.Struct, frozen=True, kw_only=True):
    """The task that a request is about."""

    key: str
    """Its key, as text."""
    task_data: dict[str, Any]
    kind: str | None
    priority: Annotated[int, msgspec.Meta(ge=-PRIORITY_MAX, le=PRIORITY_MAX)] | None = None
    expires: str | None = None
    """The text of its own expiry."""
    seal: SealedData | None = None
    """The envelope of its data, if that is sealed."""

    def as_data(self) -> dict[str, Any]:
        """Return the request as the data of its task."""
        fields = msgspec.structs.asdict(self)
        if fields.pop("seal") is not None:
            fields["seal"] = msgspec.to_builtins(self.seal)
        if self.expires is None:
            # A node of the version before knows no such member.
            del fields["expires"]
        return fields

    @property
    def task(self) -> Task:
        """The requested task; InvalidKey if its key is not valid, ValueError for its expiry."""
        key = TaskKey.parse(self.key)
        return Task.model_construct(
            ordering_id=key.ordering_id,
            scheduled_time=key.scheduled_time,
            uniqueness_key=key.uniqueness_key,
            data=sealed_with(self.task_data, self.seal),
            kind=self.kind,
            priority=self.priority,
            expires=None if self.expires is None else expires_of(read_expiry(self.expires)),
        )


def window_ms(what: str, duration: object) -> int:
    """Return a window in milliseconds; InvalidTask for an invalid one."""
    if not isinstance(duration, timedelta):
        raise InvalidTask(f"{what} is a timedelta, got {shown(duration)}")
    duration_ms = duration // timedelta(milliseconds=1)
    if not 1 <= duration_ms <= WINDOW_MS_MAX:
        raise InvalidTask(f"{what} is from a millisecond to 366 days, got {duration}")
    return duration_ms


def expires_text(task: Task) -> str | None:
    """Return the text of a task's own expiry."""
    return None if task.expiry is None else str(task.expiry)


def name_of(kind: DefinitionKind, task: Task) -> DefinitionName:
    """Return the name of the row with the last decision about a task's ids and kind.

    A digest, because both ids together may be too long for a name.
    """
    ids = msgspec.json.encode([task.kind, task.ordering_id, task.uniqueness_key])
    return DefinitionName(kind, hashlib.blake2b(ids, digest_size=_ID_BYTES).hexdigest())


def name_of_request(ordering_id: str) -> DefinitionName:
    """Return the name of the row by which the requests of an ordering id are decided."""
    parts = ordering_id_parts(ordering_id)
    assert parts is not None, "only requests come here, and their ordering ids are reserved"
    return DefinitionName(DefinitionKind(parts[0]), parts[1])
