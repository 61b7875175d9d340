"""The invariant of tasks of which one is made in a window of time.

It yields one sentence for each violation, as those of ``invariants`` do.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CompletionResult
from tests.simulation.door_facts import DoorFacts
from tests.simulation.judged import Complaints, Run

_REQUESTS = "hourhand:unique:"
WANTED = "u-"
"""Prefix of the ordering ids of tasks that requests ask for."""


@dataclass(frozen=True, slots=True)
class _Request:
    asked_ms: int
    """By its client's clock."""
    until_ms: int
    key: TaskKey
    result: str | None
    """Its result; None while it is open."""


def one_task_is_made_in_a_window(run: Run) -> Complaints:
    """Of several requests for the same ids one makes its task; each that makes none came within
    the window of one that did, and each that says it made one did.
    """
    facts = run.doors
    if facts is None:
        return
    asked = _requests(run, facts)
    wanted = {each.key for requests in asked.values() for each in requests}
    for key in facts.tasks:
        if key.ordering_id.startswith(WANTED) and key not in wanted:
            yield f"{key} was made and nobody asked for it"
    for requests in asked.values():
        made = sorted(
            (each for each in requests if each.key in facts.tasks), key=lambda one: one.asked_ms
        )
        for first, second in pairwise(made):
            if second.asked_ms < first.until_ms:
                yield f"{second.key} was made in the window of {first.key}"
        for each in requests:
            yield from _decided_wrongly(each, made)


def _decided_wrongly(each: _Request, made: Sequence[_Request]) -> Complaints:
    is_made = each in made
    if each.result == CompletionResult.SUCCESS and not is_made:
        yield f"the request for {each.key} is done, and its task was never made"
    if each.result == CompletionResult.DROPPED:
        if is_made:
            yield f"the request for {each.key} made its task, and says that another did"
        elif not any(each.asked_ms < other.until_ms for other in made):
            yield f"{each.key} was not made, and no other was in whose window it came"


def _requests(run: Run, facts: DoorFacts) -> dict[str, list[_Request]]:
    found: dict[str, list[_Request]] = defaultdict(list)
    for record, key in facts.records(_REQUESTS):
        if facts.tasks.get(key) != record.offset:
            continue
        data = json.loads(record.value or b"")["taskData"]
        if "window_of" in data:
            # It ends a window, and asks for nothing.
            continue
        results = [each.result for each in run.completed[key]]
        asked_ms = key.scheduled_ms
        found[key.ordering_id].append(
            _Request(
                asked_ms,
                asked_ms + data["window_ms"],
                TaskKey.parse(data["key"]),
                results[0] if results else None,
            )
        )
    return found
