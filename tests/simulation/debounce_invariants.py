"""The invariant of tasks that are made of the last of several calls.

It yields one sentence for each violation, as those of ``invariants`` do.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CompletionResult
from tests.simulation.door_facts import DoorFacts
from tests.simulation.judged import Complaints, Run

_CALLS = "hourhand:debounced:"
CALLED = "d-"
"""Prefix of the ordering ids of tasks that calls are for."""
_OPEN_MS = float("inf")


@dataclass(frozen=True, slots=True)
class _Call:
    own: TaskKey
    """Its place among the calls of its ids: by its client's clock, then by what tells it apart."""
    until_ms: int
    key: TaskKey
    result: str | None
    """Its result; None while it is open."""
    closed_ms: float
    """True wall time at which that was durable; so was which call is the last one."""


def the_last_call_makes_its_task(run: Run) -> Complaints:
    """The last of all calls for the same ids makes its task; one that was replaced in time makes
    none, and only a later call replaces another.
    """
    facts = run.doors
    if facts is None:
        return
    calls = _calls(run, facts)
    wanted = Counter(each.key for each in chain.from_iterable(calls.values()))
    for key in facts.tasks:
        if key.ordering_id.startswith(CALLED) and key not in wanted:
            yield f"{key} was made and nobody called for it"
    for some in calls.values():
        last = some[-1]
        if last.result != CompletionResult.SUCCESS or last.key not in facts.tasks:
            yield f"the last call of its ids, for {last.key}, is {last.result} and made no task"
        for each in some:
            if wanted[each.key] == 1 and each.key in facts.tasks:
                yield from _made_although_replaced(run, each, some)


def _made_although_replaced(run: Run, call: _Call, some: Sequence[_Call]) -> Complaints:
    # The end of a window comes by the clock of the node that runs it.
    end_ms = call.until_ms - run.clocks_apart_ms
    if call.result == CompletionResult.DROPPED:
        yield f"the call for {call.key} made its task, and says that a later one came before"
    for other in some:
        in_time = call.own < other.own and max(call.closed_ms, other.closed_ms) < end_ms
        if in_time and other.result == CompletionResult.SUCCESS:
            yield f"{call.key} was made although the call for {other.key} had replaced it"


def _calls(run: Run, facts: DoorFacts) -> dict[str, list[_Call]]:
    found: dict[str, list[_Call]] = defaultdict(list)
    for record, own in facts.records(_CALLS):
        data = json.loads(record.value or b"")["taskData"]
        if facts.tasks.get(own) != record.offset or data["call"] is not None:
            continue
        closed = run.completed[own][:1]
        found[own.ordering_id].append(
            _Call(
                own,
                data["until_ms"],
                TaskKey.parse(data["key"]),
                closed[0].result if closed else None,
                run.wall_at_start_ms + closed[0].at_ms if closed else _OPEN_MS,
            )
        )
    return {ids: sorted(some, key=lambda each: each.own) for ids, some in found.items()}
