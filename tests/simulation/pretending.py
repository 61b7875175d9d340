"""Data of an outsider in simulated tasks: members with names of ours, and what was asked for.

What a task was given stands in its data too, so user code itself can tell whether all of it
arrived, at the executor that was asked for.  Decides by the task's number alone, so that data is
the same whenever it is asked for.
"""

import zlib

from pydantic import JsonValue

from hourhand.actors.model.task.kind import MEMBER as KIND
from hourhand.actors.model.task.priority import MEMBER as PRIORITY
from hourhand.actors.model.task.sealed import MEMBER as SEALED
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.task.trace import MEMBER as TRACE

_ENVELOPE: JsonValue = {"steps": [{"codec": "aes-gcm", "key": "k1"}], "data": "eA=="}
_LAST: tuple[dict[str, JsonValue], ...] = (
    {KIND: "charge"},
    {KIND: "refund"},
    {PRIORITY: 99},
    {PRIORITY: -5, KIND: "charge"},
    {TRACE: f"00-{32 * 'a'}-{16 * 'b'}-01"},
    {PRIORITY: 99, KIND: "refund", TRACE: f"00-{32 * 'a'}-{16 * 'b'}-01"},
    {},
)
_FIRST: tuple[dict[str, JsonValue], ...] = ({}, {}, {SEALED: _ENVELOPE}, {SEALED: 1})


def pretending(
    data: dict[str, JsonValue], kind: str | None, priority: int | None
) -> dict[str, JsonValue]:
    """Return data that says what its task was given, and pretends to be given more."""
    if "n" not in data:
        # Another producer's task says nothing of it.
        return data
    lot = zlib.crc32(str(data["n"]).encode())
    given: JsonValue = {"kind": kind, "priority": priority}
    first, last = _FIRST[lot % len(_FIRST)], _LAST[lot // 16 % len(_LAST)]
    names: JsonValue = [*first, *data, "given", "members", *last]
    return {**first, **data, "given": given, "members": names, **last}


def complaint_of(task: Task, ran_as: str | None) -> str:
    """Say what of a task is not as it was given; empty where all is, or where nothing says it."""
    given = task.data.get("given")
    if not isinstance(given, dict):
        return ""
    if list(task.data) != task.data["members"]:
        return f"has the members {list(task.data)} of {task.data['members']}"
    expected = (given["kind"], given["kind"], given["priority"])
    found = (task.kind, ran_as, task.priority)
    return "" if found == expected else f"is {found}, and was given {given}"
