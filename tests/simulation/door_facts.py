"""What is known of the doors of one finished run, sorted the ways that invariants look at it.

It joins what was asked with the records that came of it, and answers questions; it judges nothing.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hourhand.actors.model.operations.events import PartitionAssigned, TreeRebuilt
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.task.task import StoredTask
from hourhand.scheduler.services.timers.executor import NEW, timer_pop_task
from hourhand.scheduler.services.timers.timer import TimerRule
from tests.simulation.door_history import (
    Appeared,
    CallAnswered,
    Called,
    Put,
    TimerAnswered,
    TimerAsked,
)
from tests.simulation.doors import change_number
from tests.simulation.history import Happened, Started

HARMLESS = frozenset(("start", "stop", "stopped", "peace", "move"))
RECOVERY_MS = 8_000.0
"""Time after a disturbance in which nothing is expected to be prompt."""
SLACK_MS = 500.0
NEVER_MS = float("inf")
FIRST_POP = timer_pop_task("", 0, 1, NEW).key.uniqueness_key
"""Prefix of a timer that was made at once."""

if TYPE_CHECKING:
    from tests.simulation.judged import Run


@dataclass(frozen=True, slots=True)
class TimerChange:
    """A change of a timer that the log holds."""

    number: int
    timer_id: str
    rule: TimerRule | None
    offset: int
    start_ms: int
    """By the wall clock of the node that took it."""
    asked_ms: float
    answered_ms: float
    """When it was answered that the change is accepted; never, where it was not."""

    @property
    def pops(self) -> int:
        """Number of its pops."""
        rule = self.rule
        if rule is None:
            return 0
        return 1 if not rule.interval_ms else rule.repeat_for_ms // rule.interval_ms


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a recurring schedule that the log holds."""

    kind: str
    name: str
    offset: int
    asked_ms: int
    """By the wall clock."""
    rule: dict[str, Any] | None
    done_ms: float
    """Time at which it was closed in the store."""


@dataclass
class DoorFacts:
    """The doors of one run."""

    run: "Run"
    letters: set[tuple[int, int]]
    """Places of the in-topic's records that were put aside."""
    tasks: dict[TaskKey, int] = field(init=False)
    """Every task that the log holds, and its first offset."""
    puts: list[Put] = field(init=False)
    appeared: Mapping[bytes | None, Sequence[Appeared]] = field(init=False)
    started: Mapping[int, Started] = field(init=False)
    calm: Callable[[float, float], bool] = field(init=False)
    unhurt: bool = field(init=False)
    """True if nothing failed: nodes came and went, and that was all."""

    def __post_init__(self) -> None:
        run, self.tasks = self.run, {}
        for partition in range(run.partitions):
            for offset, entry in run.truth.entries(partition):
                if isinstance(entry, StoredTask):
                    self.tasks.setdefault(entry.key, offset)
        self.puts = list(run.history.of(Put))
        appeared: dict[bytes | None, list[Appeared]] = defaultdict(list)
        for each in run.history.of(Appeared):
            appeared[each.value].append(each)
        self.appeared = appeared
        self.started = {each.id: each for each in run.started}
        self.unhurt = all(each.what in HARMLESS for each in run.history.of(Happened))
        self.calm = _calm(run)

    def wall_ms(self, at_ms: float) -> float:
        """Return the true wall time of a moment."""
        return self.run.wall_at_start_ms + at_ms

    @property
    def apart_ms(self) -> float:
        """Largest difference of two wall clocks."""
        return 2 * self.run.clocks_apart_ms

    def latest_wall_ms(self, done: Called | Appeared) -> int:
        """Return the later of its node's clock then and when its attempt began.

        A clock that steps back meanwhile makes nothing early.
        """
        return max(done.wall_ms, self.started[done.attempt].wall_ms)

    # The relay.

    @cached_property
    def _claims(self) -> Mapping[str, Sequence[tuple[TaskKey, int]]]:
        """By place: the batches that claim for it, and when its record came, as they say."""
        found: dict[str, list[tuple[TaskKey, int]]] = defaultdict(list)
        for record, key in self.records("hourhand:claims:"):
            for claim in json.loads(record.value or b"")["taskData"]["claims"]:
                found[claim[2]].append((key, claim[5]))
        return found

    def decided_ms(self, put: Put) -> float:
        """Return when the claim of a record was first decided."""
        claims = self._claims.get(place_of(put), ())
        return min((self.closed_ms(key) for key, _ in claims), default=NEVER_MS)

    def came_ms(self, put: Put) -> float:
        """Return when a record came, by the wall clock, at the latest that anybody said."""
        return max(
            (came_ms for _, came_ms in self._claims.get(place_of(put), ())), default=NEVER_MS
        )

    def closed_ms(self, key: TaskKey) -> float:
        """Return when a key was first closed."""
        return min((each.at_ms for each in self.run.completed[key]), default=NEVER_MS)

    def first_ms(self, put: Put) -> float:
        """Return when a message first appeared."""
        return min((each.at_ms for each in self.appeared.get(put.value, ())), default=NEVER_MS)

    def last_ms(self, put: Put) -> float:
        """Return when a message last appeared; before all time where it never did."""
        return max((each.at_ms for each in self.appeared.get(put.value, ())), default=-NEVER_MS)

    @cached_property
    def _deliveries(self) -> Mapping[str, Sequence[TaskKey]]:
        """By place: the keys of the message's delivery."""
        found: dict[str, list[TaskKey]] = defaultdict(list)
        for key in self.run.completed:
            if key.ordering_id.startswith("hourhand:send:"):
                found[key.uniqueness_key].append(key)
        return found

    def gone_ms(self, put: Put) -> float:
        """Return when a message that appeared held its id no more: one whose node died before it
        wrote that down holds it until another node has looked.
        """
        last_ms = self.last_ms(put)
        again = {each.key for each in self.run.started if each.at_ms > last_ms}
        looked = [key for key in self._deliveries.get(place_of(put), ()) if key in again]
        closed = [each for each in map(self.closed_ms, looked) if each < NEVER_MS]
        return last_ms if last_ms < 0 else max([last_ms, *closed])

    def is_aside(self, put: Put) -> bool:
        """True if a record was put aside."""
        return (put.partition, put.offset) in self.letters

    def by_id(self) -> Mapping[str, Sequence[Put]]:
        """Return the records of each relay id that were used, in the order they came."""
        found: dict[str, list[Put]] = defaultdict(list)
        for put in self.puts:
            if put.action and not self.is_aside(put):
                found[put.id].append(put)
        return found

    # Timers.

    def timer_changes(self) -> Mapping[str, Sequence[TimerChange]]:
        """Return the changes of each timer that the log holds, in its order."""
        asked = {each.number: each for each in self.run.history.of(TimerAsked)}
        made = {each.timer_id: each for each in asked.values() if each.made}
        answered = {
            each.number: each.at_ms for each in self.run.history.of(TimerAnswered) if not each.error
        }
        calls, found = self.calls(), defaultdict[str, dict[int, TimerChange]](dict)
        for key, offset in sorted(self.tasks.items(), key=lambda each: each[1]):
            _, _, timer_id = key.ordering_id.partition("hourhand:timer:")
            if not timer_id:
                continue
            if key.uniqueness_key.startswith("change:"):
                ask, start_ms = asked[change_number(key.uniqueness_key)], key.scheduled_ms
            elif key.uniqueness_key == FIRST_POP:
                ask = made[timer_id]
                assert ask.rule is not None, "it was made"
                start_ms = key.scheduled_ms - ask.rule.interval_ms
                if ask.number not in answered and f"{timer_id}/{ask.number}".encode() not in calls:
                    # Without a row it is nobody's timer, and nobody was told otherwise.
                    continue
            else:
                continue
            answered_ms = answered.get(ask.number, NEVER_MS)
            change = TimerChange(
                ask.number, timer_id, ask.rule, offset, start_ms, ask.at_ms, answered_ms
            )
            found[timer_id].setdefault(ask.number, change)
        return {each: sorted(some.values(), key=lambda c: c.offset) for each, some in found.items()}

    def calls(self) -> Mapping[bytes, Sequence[Called]]:
        """Return the callbacks of each body, in the order in which their attempts began.

        What a paused node was about to do it does when it wakes, whatever others did meanwhile.
        """
        found: dict[bytes, list[Called]] = defaultdict(list)
        for each in self.run.history.of(Called):
            found[each.body].append(each)
        return {
            body: sorted(calls, key=lambda call: self.started[call.attempt].at_ms)
            for body, calls in found.items()
        }

    def answers(self) -> Mapping[int, bool]:
        """Return how callbacks ended that were heard to end, by their id."""
        return {each.id: each.well for each in self.run.history.of(CallAnswered)}

    def done_ms(self, key: TaskKey) -> float:
        """Return when a key was first durably done."""
        done = (CompletionResult.SUCCESS, CompletionResult.DROPPED, CompletionResult.FAILURE)
        times = (each.at_ms for each in self.run.completed[key] if each.result in done)
        return min(times, default=NEVER_MS)

    # Recurring schedules.

    def schedule_changes(self) -> Mapping[str, Sequence[Change]]:
        """Return the changes of each schedule, in the order of the log."""
        found: dict[str, list[Change]] = defaultdict(list)
        for record, key in self.records("hourhand:recurring:"):
            data = json.loads(record.value or b"")["taskData"]
            if self.tasks.get(key) == record.offset and "change" in data:
                name = key.ordering_id.removeprefix("hourhand:recurring:")
                found[name].append(
                    Change(
                        data["change"],
                        name,
                        record.offset,
                        key.scheduled_ms,
                        data.get("rule"),
                        self.done_ms(key),
                    )
                )
        return {each: sorted(some, key=lambda c: c.offset) for each, some in found.items()}

    def records(self, start: str) -> Iterator[tuple[LogRecord, TaskKey]]:
        """Yield the tasks' records whose ordering ids begin so."""
        for partition in range(self.run.partitions):
            for record in self.run.truth.records(partition):
                entry = self.run.truth.entry(record)
                if isinstance(entry, StoredTask) and entry.key.ordering_id.startswith(start):
                    yield record, entry.key


def place_of(put: Put) -> str:
    """Return the text that tells a record of the in-topic from every other."""
    return f"{put.partition:05d}-{put.offset:019d}"


def _calm(run: "Run") -> Callable[[float, float], bool]:
    """Return a function that says whether nothing disturbed the installation in a time."""
    recovery_ms = RECOVERY_MS * run.pace
    disturbed = [(0.0, recovery_ms)]
    disturbed += [
        (each.at_ms, each.until_ms + recovery_ms)
        for each in run.history.of(Happened)
        if each.what != "peace"
    ]
    disturbed += [
        (each.at_ms, each.at_ms + recovery_ms)
        for each in run.noted()
        if isinstance(each.event, TreeRebuilt | PartitionAssigned)
    ]

    def calm(from_ms: float, to_ms: float) -> bool:
        return not any(first <= to_ms and from_ms <= last for first, last in disturbed)

    return calm
