"""The invariants of timers: promises P21 and P22.

Each yields one sentence for each violation, as those of ``invariants`` do.
"""

from collections.abc import Iterator, Mapping, Sequence

from tests.simulation.door_facts import NEVER_MS, DoorFacts, TimerChange
from tests.simulation.door_history import Called
from tests.simulation.judged import Complaints, Run

LOOK_MS_MAX = 2_000.0
"""Age of the look at a timer on which a callback rests, at most, as P22 says."""
PROMPT_MS = 3_000.0
"""Lateness of a pop of a good target while nothing disturbs it, at most."""


def p21_no_pop_is_missing(run: Run) -> Complaints:
    """Every pop of a timer comes, numbered from 1 in order; one comes again only with its own
    number, and only where the callback before failed or was under way when something broke.
    """
    facts = run.doors
    if facts is None:
        return
    calls, answers = facts.calls(), facts.answers()
    known = set()
    for changes in facts.timer_changes().values():
        for place, change in enumerate(changes):
            body = f"{change.timer_id}/{change.number}".encode()
            known.add(body)
            made = calls.get(body, ())
            yield from _in_order(facts, change, made, answers)
            if change is changes[-1]:
                yield from _missing(run, change, made, answers)
            elif facts.unhurt:
                yield from _prompt(facts, change, changes[place + 1], made)
    for body in calls.keys() - known:
        yield f"{body!r} was called and no such timer was ever accepted"


def _in_order(
    facts: DoorFacts, change: TimerChange, made: Sequence[Called], answers: Mapping[int, bool]
) -> Iterator[str]:
    """Judge the numbers of one state's callbacks."""
    tries_max, latest = facts.run.tries_max, 0
    for place, call in enumerate(made):
        before = [each for each in made[:place] if each.number == call.number]
        if call.number > change.pops:
            yield f"{call.body!r} pops {change.pops} times and had pop {call.number}"
        if call.number not in {latest, latest + 1} or not call.number:
            yield f"{call.body!r} had pop {call.number} after pop {latest}"
        if call.number == latest + 1 and latest:
            earlier = [each for each in made[:place] if each.number == latest]
            well = any(answers.get(each.id) for each in earlier)
            failed = sum(answers.get(each.id) is False for each in earlier)
            if not well and failed < tries_max:
                yield f"{call.body!r} went on to pop {call.number} when pop {latest} had failed"
        latest = max(latest, call.number)
        for each in before:
            key, begun = facts.started[each.attempt].key, facts.started[call.attempt]
            # The owner knows of its own key what was stored before it claimed the partition.
            done = begun.done_before or (begun.key != key and facts.done_ms(key) < begun.at_ms)
            if answers.get(each.id) and (facts.unhurt or done):
                yield f"{call.body!r} had pop {call.number} again after it had succeeded"


def _missing(
    run: Run, change: TimerChange, made: Sequence[Called], answers: Mapping[int, bool]
) -> Iterator[str]:
    for number in range(1, change.pops + 1):
        calls = [each for each in made if each.number == number]
        failed = sum(answers.get(each.id) is False for each in calls)
        if not any(answers.get(each.id) for each in calls) and failed < run.tries_max:
            yield (
                f"{change.timer_id}/{change.number} pops {change.pops} times, and pop {number}"
                f" never succeeded: {len(calls)} calls, {failed} failed"
            )


def _prompt(
    facts: DoorFacts, change: TimerChange, after: TimerChange, made: Sequence[Called]
) -> Iterator[str]:
    """Judge a state that was replaced: what was due long before that has come."""
    rule, run = change.rule, facts.run
    if rule is None or rule.uri != "http://good":
        return
    late_ms = PROMPT_MS * run.pace + facts.apart_ms
    for number in range(1, change.pops + 1):
        due_ms = change.start_ms + number * rule.interval_ms - run.wall_at_start_ms
        since_ms = min(due_ms, change.asked_ms)
        judged = due_ms + late_ms < after.asked_ms and facts.calm(since_ms, after.asked_ms)
        if judged and not any(each.number == number for each in made):
            yield f"{change.timer_id}/{change.number} never had pop {number}"


def p22_a_changed_timer_pops_no_more(run: Run) -> Complaints:
    """No pop of an earlier state is begun after a change of the timer was answered, and one that
    had been begun calls no later than it trusts its look at the timer.
    """
    facts = run.doors
    if facts is None:
        return
    calls = facts.calls()
    for changes in facts.timer_changes().values():
        for place, change in enumerate(changes):
            ended_ms = min((c.answered_ms for c in changes[place + 1 :]), default=NEVER_MS)
            for call in calls.get(f"{change.timer_id}/{change.number}".encode(), ()):
                begun_ms = facts.started[call.attempt].at_ms
                if begun_ms > ended_ms:
                    yield (
                        f"pop {call.number} of {call.body!r} began {begun_ms - ended_ms:.0f} ms"
                        " after a later change was answered"
                    )
                elif call.at_ms > ended_ms + LOOK_MS_MAX:
                    yield (
                        f"pop {call.number} of {call.body!r} called {call.at_ms - ended_ms:.0f} ms"
                        " after a later change was answered, in an attempt that began before"
                    )
