"""Groups of tasks with one follower: what a producer sends for them, the same at every door.

Decides what can be a group, and its records: a request, and the tasks, each of which reports its
end to the group as its follower.  The log may have them in any order.  It sends nothing, and never
decides when the follower is due (``services.system.grouped_tasks``).
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Annotated, NamedTuple

import msgspec

from hourhand.actors.model.task.codec import encode_task
from hourhand.actors.model.task.definition import DefinitionKind, DefinitionName
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.links import EndRecord, On, Then, follower_record
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.model.values.instant import format_instant, from_millis
from hourhand.scheduler.tasks.admission import checked_end, followed, refuse_large, several

MEMBERS_MAX = 500
"""Most members of a group: its row is written once for each."""
_ID_BYTES = 16
_EARLIEST = format_instant(0)

Admitted = tuple[TaskKey, bytes]
"""The key and the record of a task that was checked."""


class GroupRequest(msgspec.Struct, frozen=True, tag_field="group", tag="made"):
    """The data of the task that makes a group."""

    members: Annotated[int, msgspec.Meta(ge=1, le=MEMBERS_MAX)]
    follower: str
    """The follower's whole record, as JSON."""
    on: On


class GroupReport(msgspec.Struct, frozen=True, tag_field="group", tag="ended"):
    """The data of the task that reports the end of a member."""

    member: int


class GroupRecords(NamedTuple):
    """Everything that is sent for a group."""

    request: Admitted
    members: list[Admitted]
    """In the order of the tasks."""


def grouped(
    admit: Callable[[Task], Admitted],
    tasks: Iterable[Task],
    then: Task,
    on: object,
    *,
    now_ms: int,
    record_bytes_max: int,
) -> GroupRecords:
    """Return the records of a group whose tasks ``admit`` checks; CallerError where it refuses one,
    InvalidTask for tasks that cannot be a group, TaskTooLarge.
    """
    some = list(islice(several(tasks, "group"), MEMBERS_MAX + 1))
    if len(some) > MEMBERS_MAX:
        raise InvalidTask(f"a group has at most {MEMBERS_MAX} tasks: let each do more of the work")
    members, follower = [admit(each) for each in some], admit(then)
    records = group_of(members, follower, on, now_ms)
    keys = [key for key, _ in members]
    for _, record in (records.request, *records.members):
        refuse_large(record, record_bytes_max)
    refuse_large(_bare_follower(keys, follower[1]), record_bytes_max)
    return records


def group_of(
    members: Sequence[Admitted], follower: Admitted, on: object, now_ms: int
) -> GroupRecords:
    """Return the records of a group; InvalidTask for tasks that cannot be one."""
    keys = [key for key, _ in members]
    if not keys:
        raise InvalidTask("a group has one task at least, got none")
    if len(set(keys)) < len(keys):
        twice = next(key for at, key in enumerate(keys) if key in keys[:at])
        raise InvalidTask(f"a task is a member of a group once, got {twice} twice")
    request = GroupRequest(len(keys), follower[1].decode(), checked_end(on))
    text = msgspec.json.encode([[str(each) for each in (*keys, follower[0])], on])
    digest = hashlib.blake2b(text, digest_size=_ID_BYTES).hexdigest()
    ordering_id = DefinitionName(DefinitionKind.GROUP, digest).ordering_id

    def own(unique: str, data: GroupRequest | GroupReport) -> Admitted:
        task = Task.model_construct(
            ordering_id=ordering_id,
            scheduled_time=from_millis(now_ms),
            uniqueness_key=unique,
            data=msgspec.to_builtins(data),
        )
        return task.key, encode_task(task)

    records: list[Admitted] = []
    for number, (key, record) in enumerate(members):
        if key == follower[0]:
            raise InvalidTask(f"a task cannot follow itself: {key} is a member of its group")
        report = own(f"member-{number:03d}", GroupReport(number))
        records.append((key, followed(key, record, *report, "any")))
    # It sorts before the reports.
    return GroupRecords(own("group", request), records)


def _bare_follower(keys: Sequence[TaskKey], follower: bytes) -> bytes:
    """Return the record of a follower that is told no more than how each member ended."""
    longest = max(CompletionResult, key=len).value
    ends = (EndRecord(str(key), longest, _EARLIEST, attempts=10**9) for key in keys)
    return follower_record(Then(msgspec.Raw(follower)), *ends)
