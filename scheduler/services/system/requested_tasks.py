"""Tasks that a client requests from a node, because only the owner of their ids can decide about
them.

Requests concern the same task if kind, ordering id and uniqueness key are equal. They are tasks of
one ordering id, so they run one after the other, whichever clients sent them. Decides the content
and the ids of a request; its executor decides the result.
"""

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, NamedTuple

import msgspec

from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.task.codec import encode_parts
from hourhand.actors.model.task.definition import (
    Definition,
    DefinitionKind,
    DefinitionName,
    ordering_id_parts,
)
from hourhand.actors.model.task.expiry import read_expiry
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.priority import PRIORITY_MAX
from hourhand.actors.model.task.sealed import SealedData, envelope_in, sealed_with
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.node.system_executor import TaskEnds
from hourhand.scheduler.runtime.steps import Steps
from hourhand.scheduler.services.system.stepped_executor import SteppedExecutor
from hourhand.scheduler.services.system.system_tasks import SystemDependencies

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

    def record(self) -> tuple[str, bytes]:
        """Return the ordering id and the record of the requested task; InvalidKey if its key is
        not valid, ValueError for its expiry.
        """
        key = TaskKey.parse(self.key)
        data = sealed_with(self.task_data, self.seal)
        expiry = None if self.expires is None else read_expiry(self.expires)
        return key.ordering_id, encode_parts(key, data, self.kind, self.priority, expiry)


def window_ms(what: str, duration: object) -> int:
    """Return a window in milliseconds; InvalidTask for an invalid one."""
    if not isinstance(duration, timedelta):
        raise InvalidTask(f"{what} is a timedelta, got {shown(duration)}")
    duration_ms = duration // timedelta(milliseconds=1)
    if not 1 <= duration_ms <= WINDOW_MS_MAX:
        raise InvalidTask(f"{what} is from a millisecond to 366 days, got {duration}")
    return duration_ms


def task_members(task: Task, key: TaskKey) -> dict[str, Any]:
    """Return the members of a request that say which task is asked for, under this key."""
    return {
        "key": str(key),
        "task_data": task.data,
        "seal": envelope_in(task.data),
        "kind": task.kind,
        "priority": task.priority,
        "expires": None if task.expiry is None else str(task.expiry),
    }


def request_task(
    kind: DefinitionKind, task: Task, request: RequestedTask, asked_ms: int, unique: str
) -> Task:
    """Return the task that asks for another one, by the row of that one's ids."""
    return Task.model_construct(
        ordering_id=name_of(kind, task).ordering_id,
        scheduled_time=from_millis(asked_ms),
        uniqueness_key=unique,
        data=request.as_data(),
    )


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


class RequestDecision(NamedTuple):
    """The result of a request: what becomes of it, and what is made durable, in this order."""

    outcome: Outcome | None = None
    row: Definition | None = None
    records: Sequence[tuple[str, bytes]] = ()
    """Ordering ids and records."""
    last_row: Definition | None = None


class DecideRequested(SteppedExecutor):
    """Decides requests, each by the row of its ordering id; reads and writes go together."""

    def __init__(self, dependencies: SystemDependencies) -> None:
        self._dependencies = dependencies

    @abstractmethod
    def decide(
        self, task: StoredTask, name: DefinitionName, found: Definition | None
    ) -> RequestDecision:
        """Decide a request, or what follows from one, by its row."""

    def steps(self, tasks: Sequence[StoredTask]) -> Steps[TaskEnds]:
        """Read the rows, decide, and make all that follows durable."""
        book, append = self._dependencies.definitions, self._dependencies.appender.append_record
        names = [name_of_request(task.key.ordering_id) for task in tasks]
        rows: Sequence[Definition] = yield book.find_all(names)
        found = {row.name: row for row in rows}
        decisions: list[RequestDecision] = []
        ends: list[Outcome | BaseException | None] = []
        for task, name in zip(tasks, names, strict=True):
            decision, end = self._decided(task, name, found.get(name))
            decisions.append(decision)
            ends.append(end)
        first = [each.row for each in decisions if each.row is not None]
        if first:
            yield book.save_all(first)
        appended = [
            (number, append(*record))
            for number, decision in enumerate(decisions)
            for record in decision.records
        ]
        for number, durable in appended:
            try:
                yield durable
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001 - it belongs to this task alone
                ends[number] = error
        last = [
            each.last_row
            for each, end in zip(decisions, ends, strict=True)
            if each.last_row is not None and not isinstance(end, BaseException)
        ]
        if last:
            yield book.save_all(last)
        return ends

    def _decided(
        self, task: StoredTask, name: DefinitionName, found: Definition | None
    ) -> tuple[RequestDecision, Outcome | BaseException | None]:
        """Decide one request; an error is the end of this request alone."""
        try:
            decision = self.decide(task, name, found)
        except Exception as error:  # noqa: BLE001 - others are decided with it
            return RequestDecision(), error
        return decision, decision.outcome
