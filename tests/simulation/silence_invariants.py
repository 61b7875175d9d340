"""Attempts that make no checkpoint for as long as they may: all of them are told of, and no other.

Yields one sentence for each violation, as ``invariants`` does.
"""

from collections import defaultdict
from itertools import pairwise

from hourhand.actors.model.operations.events import AttemptStuck
from hourhand.actors.model.task.definition import RESERVED
from hourhand.scheduler.node.silence import LOOKED_EVERY_MS, STOOD_STILL_MS
from tests.simulation.history import CheckpointSaid, Happened, Started
from tests.simulation.judged import Complaints, Run

_SLACK_MS = 2 * LOOKED_EVERY_MS + 50.0
"""Time after its limit in which a silence is reported on a node that goes on."""


def what_is_stuck_is_told_of_and_ended(run: Run) -> Complaints:
    """A silence beyond ``stuck_after`` has its event, and no shorter one has; a coroutine and a
    process end with it.
    """
    limit_ms = run.tree.execution.stuck_after_ms
    if limit_ms is None:
        return
    said: dict[int, list[float]] = defaultdict(list)
    for each in run.history.of(CheckpointSaid):
        said[each.progress.number].append(each.at_ms)
    told = _told(run)
    for start in run.started:
        if start.key.ordering_id.startswith(RESERVED):
            continue
        ended = run.ended.get(start.id)
        end_ms = float("inf") if ended is None else ended.at_ms
        heard = [start.at_ms, *(at for at in said[start.id] if at < end_ms)]
        events = [at for at in told[start.node, str(start.key)] if start.at_ms < at <= end_ms]
        for at_ms in events:
            silent_ms = at_ms - max(each for each in heard if each <= at_ms)
            if silent_ms < limit_ms - 1:
                yield f"attempt {start.id} of {start.key} is stuck after {silent_ms:.0f} ms"
        yield from _untold(run, start, events, [*heard, end_ms], limit_ms)


def _untold(
    run: Run, start: Started, events: list[float], heard: list[float], limit_ms: int
) -> Complaints:
    """Yield each silence of an attempt without an event, and what outlives its own."""
    grace_ms = run.tree.execution.kill_grace_ms
    for since_ms, until_ms in pairwise(heard):
        due_ms = since_ms + limit_ms + _SLACK_MS
        if due_ms >= until_ms or until_ms == float("inf") or _stood_still(run, start, since_ms):
            continue
        if not any(since_ms < at <= due_ms for at in events):
            yield f"attempt {start.id} of {start.key} was stuck from {since_ms:.0f} ms, untold"
        elif not start.is_endless and due_ms + grace_ms < until_ms:
            yield f"attempt {start.id} of {start.key} was stuck, and its node did not end it"


def _stood_still(run: Run, start: Started, since_ms: float) -> bool:
    """True if something happened to the node of an attempt, which may have stood still for it."""
    return any(
        each.node in {"", start.node} and each.until_ms + STOOD_STILL_MS >= since_ms
        for each in run.history.of(Happened)
        if each.what not in {"start", "peace", "stop", "stopped"}
    )


def _told(run: Run) -> dict[tuple[str, str], list[float]]:
    """Return when attempts were said to be stuck, by node and task."""
    told: dict[tuple[str, str], list[float]] = defaultdict(list)
    for each in run.noted():
        if isinstance(each.event, AttemptStuck) and each.event.limit == "stuck_after":
            told[each.node, str(each.event.key)].append(each.at_ms)
    return told
