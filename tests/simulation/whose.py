"""Data of simulated tasks that says whose it is, and what it was when it was scheduled.

User code and middleware can tell by it whether all of it arrived, at its own task.
"""

import json
import zlib

from pydantic import JsonValue

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.sealed import SealedMembers
from hourhand.actors.model.task.task import Task


def told_whose(key: TaskKey, data: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return data that says whose it is, and can be told from any other."""
    whose = {**data, "of": list[JsonValue](key[1:])}
    return {**whose, "sum": _sum_of(whose)}


def complaint_of(task: Task) -> str:
    """Say what is wrong with a task's data as user code has it; empty where nothing is."""
    if isinstance(task.data, SealedMembers):
        return f"was given to user code sealed: {task.data}"
    data = dict(task.data)
    found, whose = data.pop("sum", None), data.get("of")
    if whose != [task.ordering_id, task.uniqueness_key]:
        return f"has the data of {whose}"
    return "" if found == _sum_of(data) else f"has other data than was sealed: {data}"


def _sum_of(data: dict[str, JsonValue]) -> int:
    return zlib.crc32(json.dumps(data).encode())
