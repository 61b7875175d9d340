"""The invariant of recurring schedules that an application declares: promise P23.

It replays declarations and changes by a model of its own, in the order in which they were closed,
which is that of their ordering ids, and yields one sentence for each violation.
"""

import json
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.instant import parse_instant
from hourhand.scheduler.services.recurring.rule import RecurringRule
from tests.simulation.declared_sets import DECLARED, NAMES, OWNER
from tests.simulation.door_facts import NEVER_MS, SLACK_MS, DoorFacts
from tests.simulation.judged import Complaints, Run

LEASE_MS = 900_000
"""A set that was replaced is held back for this time after the newer one was last declared."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A task that a declaration or change is."""

    asked_ms: int
    done_ms: float
    result: str | None
    data: Mapping[str, Any]

    @property
    def applied(self) -> bool:
        """True if it took effect."""
        return self.result == "success"


@dataclass(frozen=True, slots=True)
class _Schedule:
    """A schedule between two changes."""

    rule: Mapping[str, Any] | None = None
    """None before it was declared, and after it was removed."""
    anchor_ms: int = 0
    """Intervals are counted from this time."""
    paused: bool = False

    def after(self, change: _Asked) -> "_Schedule":
        """Return it after a change that took effect."""
        match change.data["change"]:
            case "set":
                if change.data["rule"] == self.rule:
                    return self
                # What an operator paused stays so, whatever is declared.
                return _Schedule(change.data["rule"], change.asked_ms, self.paused)
            case "delete":
                return replace(self, rule=None)
            case what:
                return replace(self, paused=what == "pause")

    def is_due(self, at_ms: int) -> bool:
        """True if it makes a task at a time."""
        if self.rule is None or self.paused:
            return False
        rule = RecurringRule.model_validate(dict(self.rule))
        return rule.next_after(at_ms - 1, self.anchor_ms) == at_ms

    def times(self, from_ms: float, before_ms: float) -> Iterator[int]:
        """Yield when it is due within some time."""
        if self.rule is None or self.paused:
            return
        rule = RecurringRule.model_validate(dict(self.rule))
        for due_ms in rule.times_after(int(from_ms), self.anchor_ms):
            if due_ms >= before_ms:
                return
            yield due_ms


def a_declared_set_is_followed(run: Run) -> Complaints:
    """The schedules of an application are those of the set in force, each with its rule; a set
    that was replaced comes back only once nobody declares the newer one; what an operator paused
    stays paused, and an equal rule changes nothing.
    """
    facts = run.doors
    if facts is None:
        return
    declared = _asked(facts, f"hourhand:declared:{OWNER}")
    if not declared:
        return
    in_force, since_ms = yield from _wrong_sets(facts, declared)
    made = _made(facts)
    for name in NAMES:
        changes = _asked(facts, f"hourhand:recurring:{name}")
        last = _Schedule()
        for change in changes:
            last = last.after(change) if change.applied else last
        wanted = in_force.get(name)
        # One that came to its end by itself needs no removal.
        if last.rule != wanted and not (wanted is None and _has_ended(last, since_ms)):
            yield f"{name} has the rule {last.rule} and {wanted} is declared"
        yield from _wrong_times(facts, name, changes, made[name])


def _has_ended(schedule: _Schedule, at_ms: float) -> bool:
    """True if a schedule that is not paused has no time left."""
    return not schedule.paused and next(schedule.times(at_ms, NEVER_MS), None) is None


def _asked(facts: DoorFacts, ordering_id: str) -> list[_Asked]:
    """Return the tasks of an ordering id that are closed, in the order in which they were."""
    found = []
    for record, key in facts.records(ordering_id):
        data = json.loads(record.value or b"")["taskData"]
        is_first = facts.tasks.get(key) == record.offset and key.ordering_id == ordering_id
        if is_first and ("change" in data or "digest" in data):
            ends = facts.run.completed[key]
            result = ends[0].result if ends else None
            found.append(_Asked(key.scheduled_ms, facts.done_ms(key), result, data))
    return sorted(found, key=lambda each: each.done_ms)


def _wrong_sets(
    facts: DoorFacts, declared: Sequence[_Asked]
) -> Generator[str, None, tuple[Mapping[str, Any], float]]:
    """Find declarations that were decided wrongly; return the rules in force in the end, and by
    when they were.
    """
    rules: Mapping[str, Any] = {}
    digest, renewed_ms, since_ms = "", 0, 0.0
    replaced = set[str]()
    for each in declared:
        asked = each.data["digest"]
        is_held = asked in replaced and each.asked_ms < renewed_ms + LEASE_MS
        is_renewal = asked == digest
        if each.applied and is_held:
            yield f"the set declared at {each.asked_ms} came back beside a newer one"
        if not each.applied and (is_renewal or ("rules" in each.data and not is_held)):
            yield f"the set declared at {each.asked_ms} did not take effect"
        if not each.applied:
            continue
        renewed_ms = max(renewed_ms, each.asked_ms)
        if not is_renewal and "rules" not in each.data:
            yield f"the set renewed at {each.asked_ms} was not in force, and nobody has its rules"
        elif not is_renewal:
            replaced.add(digest)
            replaced.discard(asked)
            digest, rules = asked, each.data["rules"]
            since_ms = facts.wall_ms(each.done_ms)
    return rules, since_ms


def _made(facts: DoorFacts) -> Mapping[str, Mapping[int, TaskKey]]:
    """Return the occurrences that came to stay, by schedule and time."""
    found: dict[str, dict[int, TaskKey]] = defaultdict(dict)
    for key in facts.tasks:
        if key.ordering_id.startswith(DECLARED):
            ends = facts.run.completed[key]
            if not ends or ends[-1].result != "cancelled":
                name, _, text = key.uniqueness_key.partition("@")
                found[name][parse_instant(text)] = key
    return found


def _wrong_times(
    facts: DoorFacts, name: str, changes: Sequence[_Asked], made: Mapping[int, TaskKey]
) -> Iterator[str]:
    """Find times that made no task or one too many, where no change was under way."""
    margin_ms = facts.apart_ms + SLACK_MS * facts.run.pace
    schedule, from_ms = _Schedule(), 0.0
    for place, change in enumerate([None, *changes]):
        if change is not None:
            schedule = schedule.after(change) if change.applied else schedule
            from_ms = max(from_ms, facts.wall_ms(change.done_ms) + margin_ms)
        later = (each.asked_ms for each in changes[place:])
        before_ms = min(later, default=NEVER_MS) - margin_ms
        for due_ms in schedule.times(from_ms, before_ms):
            if due_ms not in made:
                yield f"{name} made no task at {due_ms}"
        for due_ms in made:
            if from_ms < due_ms < before_ms and not schedule.is_due(due_ms):
                yield f"{name} made a task at {due_ms}, which is not a time of its rule"
