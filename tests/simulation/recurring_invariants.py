"""The invariant of recurring schedules: promise P23.

It yields one sentence for each violation, as those of ``invariants`` do.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from hourhand.actors.model.instant import parse_instant
from hourhand.actors.model.key import TaskKey
from hourhand.scheduler.services.recurring.rule import RecurringRule
from tests.simulation.door_facts import NEVER_MS, SLACK_MS, Change, DoorFacts
from tests.simulation.history import RowStored, Started
from tests.simulation.judged import Complaints, Run


@dataclass(frozen=True, slots=True)
class _Occurrence:
    key: TaskKey
    due_ms: int
    """The time it stands for, by the wall clock."""
    triggered: bool
    stored_ms: float


@dataclass(frozen=True, slots=True)
class _Life:
    """A rule from when it was set until something replaced it."""

    set_by: Change
    rule: RecurringRule
    later: Sequence[Change]
    """What came after it, in the order of the log, up to the next one that ends it."""


def p23_each_occurrence_comes_once(run: Run) -> Complaints:
    """Each time of a rule makes one task as the overlap policy says, and no other time does;
    what is older than the catch-up window makes none.
    """
    facts = run.doors
    if facts is None:
        return
    made = _occurrences(facts)
    ticks = _ticks(run)
    for name, asked in facts.schedule_changes().items():
        changes = list(_without_repeated(asked))
        lives = list(_lives(changes))
        occurrences = made.get(name, [])
        for each in occurrences:
            yield from _invented(facts, each, lives, changes)
        for life in lives:
            yield from _left_out(facts, life, occurrences, ticks[name])
            own = [
                each
                for each in occurrences
                if not each.triggered
                and [one for one in lives if _may_make(facts, one, each.due_ms)] == [life]
            ]
            yield from _against_policy(facts.run, life.rule, own, ticks[name], facts.closed_ms)


def _occurrences(facts: DoorFacts) -> dict[str, list[_Occurrence]]:
    stored: dict[TaskKey, float] = {}
    for row in facts.run.history.of(RowStored):
        stored.setdefault(row.key, row.at_ms)
    found: dict[str, list[_Occurrence]] = defaultdict(list)
    for key in facts.tasks:
        if key.ordering_id.startswith("s-"):
            name, _, text = key.uniqueness_key.partition("@")
            due_ms = parse_instant(text.removesuffix("!"))
            at_ms = stored.get(key, NEVER_MS)
            found[name].append(_Occurrence(key, due_ms, text.endswith("!"), at_ms))
    return found


def _ticks(run: Run) -> dict[str, list[Started]]:
    """Return the attempts of ticks and changes, by the schedule's name."""
    found: dict[str, list[Started]] = defaultdict(list)
    for each in run.started:
        _, _, name = each.key.ordering_id.partition("hourhand:recurring:")
        if name:
            found[name].append(each)
    return found


def _without_repeated(changes: Sequence[Change]) -> Iterator[Change]:
    """Leave out what sets a schedule to the rule that it has, which changes nothing."""
    rule = None
    for change in changes:
        if change.kind == "set":
            if change.rule == rule:
                continue
            rule = change.rule
        elif change.kind == "delete":
            rule = None
        yield change


def _lives(changes: Sequence[Change]) -> Iterator[_Life]:
    for place, change in enumerate(changes):
        if change.kind == "set":
            later = []
            for other in changes[place + 1 :]:
                later.append(other)
                if other.kind in {"set", "delete"}:
                    break
            yield _Life(change, RecurringRule.model_validate(change.rule or {}), later)


def _invented(
    facts: DoorFacts, each: _Occurrence, lives: Sequence[_Life], changes: Sequence[Change]
) -> Iterator[str]:
    if each.triggered:
        if not any(c.kind == "trigger" and c.asked_ms == each.due_ms for c in changes):
            yield f"{each.key} was made and nobody triggered it"
    elif not any(_may_make(facts, life, each.due_ms) for life in lives):
        yield f"{each.key} was made at a time that no rule names"


def _may_make(facts: DoorFacts, life: _Life, due_ms: int) -> bool:
    """Whether a rule names a time while it may have been in force."""
    anchor_ms = life.set_by.asked_ms
    if due_ms <= anchor_ms or life.rule.next_after(due_ms - 1, anchor_ms) != due_ms:
        return False
    margin_ms = facts.apart_ms + SLACK_MS * facts.run.pace
    dead_from_ms = NEVER_MS
    for change in life.later:
        if change.kind == "resume" and change.asked_ms < due_ms:
            dead_from_ms = NEVER_MS
        elif change.kind in {"pause", "set", "delete"}:
            dead_from_ms = min(dead_from_ms, facts.wall_ms(change.done_ms))
    return due_ms < dead_from_ms + margin_ms


def _alive_times(life: _Life) -> Iterator[int]:
    """Yield the times at which a rule is certainly due."""
    anchor_ms, from_ms, resting = life.set_by.asked_ms, life.set_by.asked_ms, False
    ends = [c for c in life.later if c.kind in {"pause", "resume", "set", "delete"}]
    for change in [*ends, None]:
        if not resting:
            before_ms = NEVER_MS if change is None else change.asked_ms
            if change is not None and change.kind == "set":
                # What is due in that millisecond is still the earlier rule's.
                before_ms += 1
            for due_ms in life.rule.times_after(from_ms, anchor_ms):
                if due_ms >= before_ms:
                    break
                yield due_ms
        if change is not None:
            resting = change.kind == "pause" or (resting and change.kind != "resume")
            from_ms = change.asked_ms if change.kind == "resume" and not resting else from_ms
            if change.kind in {"set", "delete"}:
                return


def _left_out(
    facts: DoorFacts, life: _Life, occurrences: Sequence[_Occurrence], ticks: Sequence[Started]
) -> Iterator[str]:
    """Find times that made no task though the policy has no reason for it."""
    rule, made = life.rule, {each.due_ms for each in occurrences if not each.triggered}
    taken = sum(each.due_ms > life.set_by.asked_ms for each in occurrences)
    if life.set_by.done_ms == NEVER_MS or (rule.count_max and taken >= rule.count_max):
        return
    for due_ms in _alive_times(life):
        if due_ms in made or _is_passed_over(rule, ticks, due_ms):
            continue
        attempts = _makers(ticks, due_ms)
        if not attempts:
            yield f"{life.set_by.name} had no tick at {due_ms}"
            continue
        allowed = {"allow": NEVER_MS, "skip": 1, "buffer_one": 2}[rule.overlap]
        blocked = any(
            _open_count(facts, occurrences, due_ms, each.at_ms) >= allowed for each in attempts
        )
        if not blocked:
            yield f"{life.set_by.name} ({rule.overlap}) left {due_ms} out for no reason"


def _makers(ticks: Sequence[Started], due_ms: int) -> Sequence[Started]:
    """Return what may have made the task of a time: its tick, or a change that was asked later."""
    return [
        each
        for each in ticks
        if each.key.scheduled_ms == due_ms
        or (each.key.scheduled_ms > due_ms and each.key.uniqueness_key.startswith("change:"))
    ]


def _is_passed_over(rule: RecurringRule, ticks: Sequence[Started], due_ms: int) -> bool:
    """Whether a tick came so late that the time was older than the catch-up window."""
    return any(each.wall_ms + SLACK_MS - rule.catch_up_ms > due_ms for each in ticks)


def _open_count(
    facts: DoorFacts, occurrences: Sequence[_Occurrence], due_ms: int, at_ms: float
) -> int:
    """Count the occurrences that were not closed at a moment: earlier ones, and what an earlier
    rule had made for later.
    """
    closed = facts.closed_ms
    return sum(
        (each.due_ms < due_ms or each.stored_ms < at_ms)
        and each.due_ms != due_ms
        and closed(each.key) >= at_ms
        for each in occurrences
    )


def _against_policy(
    run: Run,
    rule: RecurringRule,
    own: Sequence[_Occurrence],
    ticks: Sequence[Started],
    closed_ms: Callable[[TaskKey], float],
) -> Iterator[str]:
    """Find tasks of one rule that were made beside too many open ones, too late, or more than
    asked for.
    """
    allowed = {"allow": 10**9, "skip": 1, "buffer_one": 2}[rule.overlap]
    for each in own:
        attempts = _makers(ticks, each.due_ms)
        if not attempts:
            yield f"{each.key} was made by no tick"
            continue
        if min(tick.wall_ms for tick in attempts) > each.due_ms + rule.catch_up_ms:
            yield f"{each.key} was made though it was older than the catch-up window"
        beside = [
            sum(
                other.due_ms < each.due_ms
                and other.stored_ms < tick.at_ms
                and closed_ms(other.key) > _end_ms(run, tick)
                for other in own
            )
            for tick in attempts
        ]
        if min(beside) >= allowed:
            yield f"{each.key} ({rule.overlap}) was made beside {min(beside)} open ones"
    if rule.count_max is not None:
        numbers = count(1)
        for each, number in zip(sorted(own, key=lambda o: o.due_ms), numbers, strict=False):
            if number > rule.count_max:
                yield f"{each.key} is number {number} of {rule.count_max}"


def _end_ms(run: Run, tick: Started) -> float:
    ended = run.ended.get(tick.id)
    return NEVER_MS if ended is None else ended.at_ms
