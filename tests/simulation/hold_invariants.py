"""What must hold while something of one partition fails, or all dead letters: that it is felt
where it fails, and only there, and that nothing is lost of it.

It looks at what happened and what nodes told; it changes nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from hourhand.actors.model.operations.events import PartitionAssigned, RetriesExhausted, TreeRebuilt
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.window.band import ON_TIME_SHARE
from hourhand.actors.model.window.flow_queues import SLOTS_PART
from tests.simulation.history import (
    CLOCK_FAR,
    CLOCK_RIGHT,
    HELD,
    LETTERS_FAIL,
    Completed,
    Happened,
)
from tests.simulation.judged import Complaints, Run

HARMLESS = ("start", "stop", "stopped", "peace", HELD)

_Flow = str
"""Kind, priority and tenant of tasks that take turns together."""


def held_spans(run: Run, partition: int, recovery_ms: float) -> list[tuple[float, float]]:
    """Return from when to when a partition may be late, as it was held."""
    spans = [
        (each.at_ms, each.until_ms + recovery_ms)
        for each in run.history.of(Happened)
        if each.what == f"{HELD}{partition}"
    ]
    return [*spans, *_letter_spans(run, partition, recovery_ms)]


def crowded_spans(run: Run, recovery_ms: float) -> dict[int, list[tuple[float, float]]]:
    """Return, by partition, from when to when tasks that wait or take long kept so many slots that
    others, or those of one flow, had none: isolation has a size.
    """
    slots = run.tree.window.slots
    # The rest is for ids without a backlog.
    most = slots - slots // ON_TIME_SHARE
    has_flows = any(start.tenant for start in run.started)
    spans: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for partition, turns in _slot_turns(run).items():
        taken: Counter[_Flow] = Counter()
        since_ms: float | None = None
        for at_ms, change, flow in sorted(turns):
            taken[flow] += change
            free = most - taken.total()
            is_crowded = free <= 0 or (has_flows and SLOTS_PART * max(taken.values()) >= free)
            if is_crowded and since_ms is None:
                since_ms = at_ms
            elif not is_crowded and since_ms is not None:
                spans[partition].append((since_ms, at_ms + recovery_ms))
                since_ms = None
    return spans


def _slot_turns(run: Run) -> dict[int, list[tuple[float, int, _Flow]]]:
    """Return, by partition, when a task that keeps its slot for long takes and returns it."""
    ends: dict[int, list[float]] = defaultdict(list)
    for each in run.noted():
        if isinstance(each.event, PartitionAssigned):
            ends[each.event.partition].append(each.at_ms)
    last_ms = max((each.at_ms for each in run.history.of(Happened)), default=0.0)
    slots: dict[tuple[int, TaskKey, float], tuple[float, _Flow]] = {}
    for start in run.started:
        closed = (each.at_ms for each in run.completed[start.key])
        later = (at_ms for at_ms in (*closed, *ends[start.partition]) if at_ms > start.queued_ms)
        slot = start.partition, start.key, min(later, default=last_ms)
        flow = f"{start.kind} {start.priority} {start.tenant}"
        slots.setdefault(slot, (start.queued_ms, flow))
    turns: dict[int, list[tuple[float, int, _Flow]]] = defaultdict(list)
    for (partition, _, end_ms), (since_ms, flow) in slots.items():
        if end_ms - since_ms >= run.tree.window.slow_attempt_ms:
            turns[partition] += [(since_ms, 1, flow), (end_ms, -1, flow)]
    return turns


def _letter_spans(run: Run, partition: int, recovery_ms: float) -> Iterator[tuple[float, float]]:
    """Yield from when to when a partition waits for dead letters of records that stand in it.

    A task that is used up is none of these: its ordering id waits, nobody else.
    """
    needs = [*run.truth.poison(partition), *run.truth.homeless(partition)]
    needed_ms = [run.truth.appended_ms(partition, each) - run.wall_at_start_ms for each in needs]
    merged: list[tuple[float, float]] = []
    for each in run.history.of(Happened):
        if each.what == LETTERS_FAIL:
            # A record from before it may be read again after it.
            first_ms, last_ms = each.at_ms - recovery_ms, each.until_ms + recovery_ms
            if merged and first_ms <= merged[-1][1]:
                first_ms, before_ms = merged.pop()
                last_ms = max(last_ms, before_ms)
            merged.append((first_ms, last_ms))
    for first_ms, last_ms in merged:
        within = [at_ms for at_ms in needed_ms if first_ms <= at_ms <= last_ms]
        if within:
            # The clocks of those who append differ.
            yield min(within) - run.clocks_apart_ms, last_ms


def what_is_used_up_has_its_letter(run: Run) -> Complaints:
    """A task whose retries are used up is closed when its dead letter is written, not before."""
    used_up_ms: dict[TaskKey, float] = {}
    for noted in run.noted():
        match noted.event:
            case RetriesExhausted(key=key, on_exhausted="dead_letter"):
                used_up_ms.setdefault(key, noted.at_ms)
            case _:
                pass
    for closed in run.history.of(Completed):
        is_failure = closed.result == CompletionResult.FAILURE
        since_ms = used_up_ms.get(closed.key, float("inf"))
        if is_failure and since_ms <= closed.at_ms and not closed.has_letter:
            yield f"{closed.key} was closed at {closed.at_ms:.0f} before its dead letter was there"


def disturbed_spans(run: Run, recovery_ms: float) -> list[tuple[float, float]]:
    """Return from when to when all may be late, for what happened to more than a partition."""
    spans = [(0.0, recovery_ms)]
    spans += [
        (each.at_ms, each.until_ms + recovery_ms)
        for each in run.history.of(Happened)
        if each.what != "peace" and not each.what.startswith(HELD)
    ]
    spans += [
        (each.at_ms, each.at_ms + recovery_ms)
        for each in run.noted()
        if isinstance(each.event, TreeRebuilt | PartitionAssigned)
    ]
    return spans


def clock_spans(run: Run, node: str, recovery_ms: float) -> Iterator[tuple[float, float]]:
    """Yield from when to when the clock of a node's machine was hours or days off."""
    machine = node.partition(".")[0]
    far_since_ms: float | None = None
    for each in run.history.of(Happened):
        if each.node.partition(".")[0] != machine:
            continue
        if each.what.startswith(CLOCK_FAR) and far_since_ms is None:
            far_since_ms = each.at_ms
        elif each.what.startswith(CLOCK_RIGHT) and far_since_ms is not None:
            yield far_since_ms, each.at_ms + recovery_ms
            far_since_ms = None


def holds_rebuild_nothing(run: Run) -> Complaints:
    """If nothing else happens, no tree is thrown away for what holds a partition."""
    happened = list(run.history.of(Happened))
    if all(each.what.startswith(HARMLESS) for each in happened):
        for noted in run.noted():
            if isinstance(noted.event, TreeRebuilt):
                yield f"{noted.node} was rebuilt at {noted.at_ms:.0f}: {noted.event.cause}"
