"""Recounts what relay and timers did in a chaos run: missing, early, doubled, out of order.

It reads what the load wrote down and nothing else, and shares no code with the engine.  A
repetition is excused only where a fault struck between its first time and it, or just before; a
callback after a deletion only where it was due, and may have been under way, when a node was
frozen; an early one only while a clock was ahead, or of a timer that a node with a wrong clock
made; a missing one only of a timer that such a node made.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from tests.chaos.doors_history import Arrived, DoorsHistory, Pop, Timer
from tests.judge.history import Fault
from tests.judge.view import Finding

_BEFORE_US = 15_000_000
"""Age of what was under way when a fault struck, at most."""
_AFTER_US = 60_000_000
"""Duration of the effects of a fault after its end: a callback is tried every two seconds."""
_LEAD_MS = 3_000
"""Order is judged where both were acknowledged so long before they were due."""
_UNDER_WAY_US = 3_000_000
"""A callback that was under way when its timer was deleted has arrived by then."""
_WOKEN_US = 1_000_000
"""So soon after a frozen process goes on, it has sent what it was about to send."""


def audit_doors(history: DoorsHistory, faults: Sequence[Fault]) -> dict[str, list[Finding]]:
    """Compare what arrived with what was asked for."""
    by_number: dict[int, list[Arrived]] = defaultdict(list)
    for each in history.arrived:
        by_number[each.number].append(each)
    pops: dict[int, list[Pop]] = defaultdict(list)
    for pop in history.pops:
        pops[pop.number].append(pop)
    return {
        "relay: missing": [
            Finding(f"message {each.number} of {each.key} ({each.partition}/{each.offset})")
            for each in history.sent
            if each.number not in by_number
        ],
        "relay: early": [
            Finding(
                f"message {each.number}, {each.due_wall_ms - first.produced_wall_ms} ms early",
                _ahead(first, faults),
            )
            for each in history.sent
            for first in by_number.get(each.number, ())[:1]
            if first.produced_wall_ms < each.due_wall_ms
        ],
        "relay: doubled": [
            Finding(f"message {later.number}", _cause(earlier.at_us, later.at_us, faults))
            for arrivals in by_number.values()
            for earlier, later in pairwise(arrivals)
        ],
        "relay: out of order": list(_disorder(history, by_number, faults)),
        "timers: missing": list(_missing(history.timers, pops, faults)),
        "timers: early": list(_early(history.timers, pops, faults)),
        "timers: doubled": list(_doubled(pops, faults)),
        "timers: out of order": list(_turned_round(pops)),
        "timers: after deletion": list(_after_deletion(history.timers, pops, faults)),
    }


def _cause(first_us: int, again_us: int, faults: Sequence[Fault]) -> str | None:
    for fault in faults:
        if fault.from_us - _BEFORE_US <= again_us and first_us <= fault.to_us + _AFTER_US:
            return f"{fault.kind} of {fault.target}"
    return None


def _disorder(
    history: DoorsHistory, by_number: Mapping[int, Sequence[Arrived]], faults: Sequence[Fault]
) -> Iterator[Finding]:
    """Find messages of one key and deadline that appeared the other way round."""
    groups: dict[tuple[str, int, int], list[tuple[int, Arrived]]] = defaultdict(list)
    for sent in history.sent:
        in_time = sent.acknowledged_wall_ms + _LEAD_MS <= sent.due_wall_ms
        if in_time and sent.number in by_number:
            place = (sent.key, sent.due_wall_ms, sent.partition)
            groups[place].append((sent.offset, by_number[sent.number][0]))
    for (key, _, _), found in groups.items():
        for (_, one), (_, other) in pairwise(sorted(found, key=lambda pair: pair[0])):
            if one.partition == other.partition and other.offset < one.offset:
                told = f"message {other.number} before {one.number} of {key}"
                # A record that could not be appended is read again, and may then follow others.
                yield Finding(told, _cause(other.at_us, one.at_us, faults))


def _missing(
    timers: Sequence[Timer], pops: Mapping[int, Sequence[Pop]], faults: Sequence[Fault]
) -> Iterator[Finding]:
    for timer in timers:
        if not timer.accepted or timer.deleted_us is not None:
            continue
        there = {pop.sequence for pop in pops.get(timer.number, ())}
        missing = sorted(set(range(1, timer.pops + 1)) - there)
        if missing:
            told = f"timer {timer.number}: pops {missing} of {timer.pops}"
            yield Finding(told, _made_under(timer, faults))


def _early(
    timers: Sequence[Timer], pops: Mapping[int, Sequence[Pop]], faults: Sequence[Fault]
) -> Iterator[Finding]:
    for timer in timers:
        for pop in pops.get(timer.number, ()):
            due_ms = _due_ms(timer, pop)
            if pop.at_wall_ms < due_ms:
                told = f"timer {timer.number}: pop {pop.sequence} {due_ms - pop.at_wall_ms}"
                yield Finding(told, _made_under(timer, faults) or _ahead(pop, faults))


def _made_under(timer: Timer, faults: Sequence[Fault]) -> str | None:
    """Name the wrong clock by which a timer's times were counted."""
    clock = timer.clock_of(faults)
    return f"made by {clock.target} during: {clock.kind}" if clock else None


def _ahead(arrived: Pop | Arrived, faults: Sequence[Fault]) -> str | None:
    """Name a clock that was ahead as this came: its node's, as far as its target knows."""
    for fault in faults:
        if fault.ahead_us > 0 and fault.from_us <= arrived.at_us <= fault.to_us + _UNDER_WAY_US:
            return f"{fault.kind} of {fault.target}"
    return None


def _doubled(pops: Mapping[int, Sequence[Pop]], faults: Sequence[Fault]) -> Iterator[Finding]:
    for number, made in pops.items():
        first: dict[int, Pop] = {}
        for pop in made:
            if pop.sequence in first:
                cause = _cause(first[pop.sequence].at_us, pop.at_us, faults)
                yield Finding(f"timer {number}: pop {pop.sequence} again", cause)
            else:
                first[pop.sequence] = pop


def _turned_round(pops: Mapping[int, Sequence[Pop]]) -> Iterator[Finding]:
    for number, made in pops.items():
        latest = 0
        for pop in made:
            if pop.sequence > latest + 1:
                yield Finding(f"timer {number}: pop {pop.sequence} after pop {latest}")
            latest = max(latest, pop.sequence)


def _after_deletion(
    timers: Sequence[Timer], pops: Mapping[int, Sequence[Pop]], faults: Sequence[Fault]
) -> Iterator[Finding]:
    for timer in timers:
        for pop in pops.get(timer.number, ()) if timer.deleted_us is not None else ():
            if timer.deleted_us is not None and pop.at_us > timer.deleted_us + _UNDER_WAY_US:
                late_ms = (pop.at_us - timer.deleted_us) // 1_000
                told = f"timer {timer.number}: pop {pop.sequence} {late_ms} ms after its deletion"
                yield Finding(told, _frozen_under_way(timer, pop, timer.deleted_us, faults))


def _frozen_under_way(
    timer: Timer, pop: Pop, deleted_us: int, faults: Sequence[Fault]
) -> str | None:
    """Name the node that was frozen while it may have made this callback, and sent it as it woke.

    The pop was due by then, and the timer was deleted while the node was frozen, or so shortly
    before that the callback was under way.
    """
    due_us = pop.at_us - 1_000 * (pop.at_wall_ms - _due_ms(timer, pop))
    for blow in (blow for fault in faults for blow in fault.blows if blow.how == "frozen"):
        was_due = due_us <= blow.struck_us
        was_under_way = blow.from_us - _UNDER_WAY_US <= deleted_us <= blow.to_us
        if was_due and was_under_way and blow.to_us <= pop.at_us <= blow.to_us + _WOKEN_US:
            return f"under way when node {blow.node} (pid {blow.pid}) was frozen"
    return None


def _due_ms(timer: Timer, pop: Pop) -> int:
    return timer.asked_wall_ms + pop.sequence * timer.interval_ms
