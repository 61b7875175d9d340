"""Recurring schedules as operators see them: a page of them, one with its runs, changes to many.

Decides the fields that are shown and the time to wait for a change. The effect of a change is
decided by the owner of the schedule, in the order of the log.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Self

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from hourhand.actors.model.task.definition import Definition, DefinitionKind
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.values.errors import CallerError, LogUnavailable
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.admin.acting import ACKNOWLEDGED_S, ActReport, await_decisions
from hourhand.scheduler.admin.answers import (
    Answer,
    Instant,
    KeyText,
    ShownReceipt,
    ShownTask,
    instant_text,
)
from hourhand.scheduler.admin.definitions import list_definitions
from hourhand.scheduler.admin.outcome_words import said_of
from hourhand.scheduler.client.backfilling import Backfilled
from hourhand.scheduler.client.client import SchedulerClient
from hourhand.scheduler.runtime.answers import answered
from hourhand.scheduler.services.recurring.declared import (
    declared_of,
    is_orphan,
    name_of_owner,
)
from hourhand.scheduler.services.recurring.requests import rule_of, set_task
from hourhand.scheduler.services.recurring.rule import (
    Overlap,
    RecurringRule,
    checked_name,
    next_times,
)
from hourhand.scheduler.services.recurring.state import (
    Recurring,
    name_of,
    recent_keys,
    recurring_of,
    written_rule,
)
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.tasks.inspector import Inspector
from hourhand.scheduler.tasks.receipt import Receipt


class RecurringChange(StrEnum):
    """The changes of a recurring schedule."""

    PAUSE = "pause"
    RESUME = "resume"
    TRIGGER = "trigger"
    DELETE = "delete"


@dataclass(slots=True)
class _AskedChange:
    """One requested change and its state."""

    name: str
    receipt: Receipt | None = None
    completion: Completion | None = None
    error: CallerError | None = None

    @property
    def word(self) -> str:
        if self.error is not None:
            return self.error.code
        if self.completion is None:
            return "undecided"
        return "applied" if self.completion.result is CompletionResult.SUCCESS else "refused"


class ShownRule(Answer, frozen=True):
    """The rule of a schedule: one of ``cron`` and ``everyMs``, and the settings of its runs."""

    cron: str | None
    every_ms: int | None
    time_zone: str
    ordering_id: str
    kind: str | None
    priority: int | None
    expires_after_ms: int | None
    overlap: Overlap
    catch_up_ms: int
    jitter_ms: int
    starts: Instant | None
    ends: Instant | None
    except_dates: list[str]
    """Dates in the time zone on which nothing is due."""
    count_max: int | None
    data: Annotated[Any, Meta(description="The JSON object that each task has.")] = UNSET
    sealed: str | UnsetType = UNSET
    """For sealed data, its codec and the id of its key; the data itself is not shown then."""

    @classmethod
    def of(cls, rule: RecurringRule, *, data: bool) -> Self:
        """Show a rule, with the data of its tasks if ``data`` is True."""
        return cls(
            cron=rule.cron,
            every_ms=rule.every_ms,
            time_zone=rule.time_zone,
            ordering_id=rule.ordering_id,
            kind=rule.kind,
            priority=rule.priority,
            expires_after_ms=rule.expires_after_ms,
            overlap=rule.overlap,
            catch_up_ms=rule.catch_up_ms,
            jitter_ms=rule.jitter_ms,
            starts=instant_text(rule.starts_ms),
            ends=instant_text(rule.ends_ms),
            except_dates=rule.except_dates,
            count_max=rule.count_max,
            data=rule.data if data and rule.seal is None else UNSET,
            sealed=UNSET if rule.seal is None else str(rule.envelope or "sealed"),
        )


class ShownOccurrence(Answer, frozen=True):
    """A task that a schedule made, and the time of the schedule that it stands for."""

    key: KeyText
    time: Instant | None


class NextTime(Answer, frozen=True):
    """A future time, also as local time in the schedule's zone."""

    time: Instant
    local: str


class ShownSchedule(Answer, frozen=True):
    """A recurring schedule and, if it is shown alone, its next times and last runs."""

    name: str
    ordering_id: str
    rule: ShownRule
    paused: bool
    next: Instant | None
    last: ShownOccurrence | None
    taken: int
    skipped: int
    missed: int
    owner: str | None = None
    """The application or file that declares it; null for one that was set by hand."""
    orphaned: bool = False
    """True if its owner does not declare it any more."""
    next_times: list[NextTime] | UnsetType = UNSET
    last_runs: list[ShownTask] | UnsetType = UNSET

    @classmethod
    def of(cls, schedule: Recurring, *, data: bool = True, orphaned: bool = False) -> Self:
        """Show a schedule."""
        state = schedule.state
        last = state.recent[-1] if state.recent else None
        return cls(
            name=schedule.name,
            ordering_id=schedule.rule.ordering_id,
            rule=ShownRule.of(schedule.rule, data=data),
            paused=state.paused,
            next=instant_text(schedule.next_ms),
            last=None if last is None else _occurrence(last),
            taken=state.taken,
            skipped=state.skipped,
            missed=state.missed,
            owner=state.owner,
            orphaned=orphaned,
        )


class ScheduleListing(Answer, frozen=True):
    """A page of recurring schedules; it may be short, or even empty, while there are more."""

    recurring: list[ShownSchedule]
    next_after: str | None


class ScheduleAnswer(Answer, frozen=True):
    """One recurring schedule."""

    recurring: ShownSchedule


class ScheduleResult(Answer, frozen=True, kw_only=True):
    """The outcome of the change of a schedule."""

    name: str
    outcome: str
    detail: str | UnsetType = UNSET
    receipt: ShownReceipt | UnsetType = UNSET

    @classmethod
    def of(cls, asked: _AskedChange) -> Self:
        """Show a change and its outcome."""
        detail = None if asked.completion is None else asked.completion.reason
        if asked.error is not None:
            detail = str(asked.error)
        return cls(
            name=asked.name,
            outcome=asked.word,
            detail=detail or UNSET,
            receipt=UNSET if asked.receipt is None else ShownReceipt.of(asked.receipt),
        )


class SchedulesChanged(ActReport, frozen=True):
    """The outcomes of changes of schedules."""

    results: list[ScheduleResult]
    unknown: Sequence[str] = ()
    """Names that no schedule has."""

    @classmethod
    def of(cls, asked: Sequence[_AskedChange], action: str) -> Self:
        """Show changes and their outcomes."""
        outcomes = dict(Counter(each.word for each in asked))
        return cls(
            asked=len(asked),
            outcomes=outcomes,
            said=said_of(action, outcomes),
            results=[ScheduleResult.of(each) for each in asked],
        )


class DeclaredChanges(Answer, frozen=True):
    """The differences between the schedules that an owner declares and those that are there."""

    owner: str
    created: list[str]
    changed: list[str]
    removed: list[str]
    unchanged: list[str]
    foreign: list[str]
    """Names of schedules that belong to another owner."""

    @property
    def is_empty(self) -> bool:
        """True if everything is as it is declared."""
        return not (self.created or self.changed or self.removed)


class ShownBackfill(Answer, frozen=True):
    """The tasks of a backfill: those it made or would make, and those that were there already."""

    dry_run: bool
    made: list[KeyText]
    there: list[KeyText]

    @classmethod
    def of(cls, found: Backfilled, *, dry_run: bool) -> Self:
        """Show a backfill."""
        return cls(
            dry_run=dry_run,
            made=[str(each) for each in found.made],
            there=[str(each) for each in found.there],
        )


class RecurringSchedules:
    """Reads and changes schedules; used from any thread."""

    def __init__(
        self,
        client: SchedulerClient,
        definitions: DefinitionBook,
        inspector: Inspector,
        stores: Stores,
        clock: Clock,
    ) -> None:
        self._client = client
        self._definitions = definitions
        self._inspector = inspector
        self._stores = stores
        self._clock = clock

    def page(self, after: str | None, limit: int, *, data: bool) -> ScheduleListing:
        """Show about ``limit`` schedules; InvalidInput where ``after`` is not a cursor."""
        kind = DefinitionKind.RECURRING
        listing = list_definitions(self._definitions, kind, after, limit, _unless_over)
        orphans = self._orphans(listing.found)
        return ScheduleListing(
            recurring=[
                ShownSchedule.of(each, data=data, orphaned=each.name in orphans)
                for each in listing.found
            ],
            next_after=listing.next_after,
        )

    def _orphans(self, schedules: Sequence[Recurring]) -> set[str]:
        """Return the names of those that their owners do not declare any more."""
        owners = {each.state.owner for each in schedules} - {None}
        rows = answered(self._definitions.find_all(name_of_owner(str(each)) for each in owners))
        declared = {each.name.id: declared_of(each) for each in rows}
        now_ms = self._clock.now_ms()
        return {
            each.name
            for each in schedules
            if is_orphan(each, declared.get(each.state.owner or ""), now_ms)
        }

    def find(self, name: str) -> Recurring | None:
        """Return one schedule; None if there is none, or it has ended."""
        return self.known([name]).get(name)

    def known(self, names: Sequence[str]) -> dict[str, Recurring]:
        """Return the existing schedules of these names; InvalidTask for an invalid name."""
        rows = self._definitions.find_all(name_of(checked_name(each)) for each in names)
        found = [recurring_of(row) for row in answered(rows) if not row.ended]
        return {each.name: each for each in found if not each.state.over}

    def shown(self, schedule: Recurring, next_count: int, *, data: bool) -> ShownSchedule:
        """Show one schedule with its next times and its last runs, the newest first."""
        times: list[NextTime] = []
        if not schedule.state.paused:
            now_ms, anchor_ms = self._clock.now_ms(), schedule.state.anchor_ms
            times = _times(schedule.rule, now_ms, anchor_ms, next_count)
        runs = map(self._inspector.show, reversed(recent_keys(schedule.state)))
        return replace(
            ShownSchedule.of(schedule, data=data, orphaned=bool(self._orphans([schedule]))),
            next_times=times,
            last_runs=[ShownTask.of(each, data=False) for each in runs],
        )

    def change(
        self, change: RecurringChange, names: Sequence[str], wait_s: float
    ) -> SchedulesChanged:
        """Request a change of each schedule, and wait for the decisions of their owners."""
        send = self._sender(change)
        sent = [(_AskedChange(name), send(name)) for name in names]
        return self._sent(sent, f"recurring {change.value}", wait_s)

    def set_rule(self, name: str, given: Mapping[str, Any], wait_s: float) -> SchedulesChanged:
        """Make or replace a schedule from the arguments of ``schedule_recurring``; waits as
        ``change``.
        """
        sent = self._client.schedule_recurring(name, **given)
        return self._sent([(_AskedChange(name), sent)], "recurring set", wait_s)

    def differences(self, owner: str, rules: Mapping[str, RecurringRule]) -> DeclaredChanges:
        """Compare the rules of an owner with the schedules that are there."""
        row = answered(self._definitions.find(name_of_owner(owner)))
        declared = declared_of(row)
        before = () if declared is None else declared.names
        rows = answered(self._definitions.find_all(map(name_of, {*rules, *before})))
        found = {each.name.id: recurring_of(each) for each in rows if not each.ended}
        there = {name: each for name, each in found.items() if not each.state.deleted}
        told: dict[str, list[str]] = {"created": [], "changed": [], "foreign": [], "unchanged": []}
        for name in sorted(rules):
            told[_difference(there.get(name), owner, rules[name])].append(name)
        removed = [each for each in before if each not in rules and _is_of(there.get(each), owner)]
        return DeclaredChanges(owner=owner, removed=sorted(removed), **told)

    def declare(
        self, owner: str, rules: Mapping[str, RecurringRule], wait_s: float
    ) -> SchedulesChanged:
        """Have the schedules of an owner be these; waits as ``change``."""
        sent = self._client.declare_recurring(owner, rules)
        return self._sent([(_AskedChange(owner), sent)], "recurring apply", wait_s)

    def times_of(self, name: str, given: Mapping[str, Any], count: int) -> list[NextTime]:
        """Return the next times of such a schedule; InvalidTask if the arguments are not valid."""
        now_ms = self._clock.now_ms()
        rule = rule_of(name, **given)
        # A preview raises the same errors as setting the schedule.
        set_task(name, rule, now_ms)
        return _times(rule, now_ms, now_ms, count)

    def _sent(
        self,
        futures: "Sequence[tuple[_AskedChange, Future[Receipt]]]",
        action: str,
        wait_s: float,
    ) -> SchedulesChanged:
        for asked, future in futures:
            try:
                asked.receipt = future.result(timeout=ACKNOWLEDGED_S)
            except CallerError as error:
                asked.error = error
            except TimeoutError:
                raise LogUnavailable("the log did not acknowledge a change in time") from None
        all_asked = [asked for asked, _ in futures]
        sent = [asked for asked in all_asked if asked.receipt is not None]
        await_decisions(sent, self._found, _take_note, wait_s, self._clock)
        return SchedulesChanged.of(all_asked, action)

    def _sender(self, change: RecurringChange) -> "Callable[[str], Future[Receipt]]":
        match change:
            case RecurringChange.PAUSE:
                return self._client.pause_recurring
            case RecurringChange.RESUME:
                return self._client.resume_recurring
            case RecurringChange.TRIGGER:
                return self._client.trigger_recurring
            case RecurringChange.DELETE:
                return self._client.delete_recurring

    def _found(self, asked: _AskedChange) -> "Future[Mapping[TaskKey, Completion]]":
        """Look up the end of a change's task."""
        assert asked.receipt is not None, "only a sent command is decided"
        key, partition = asked.receipt.key, asked.receipt.partition
        return self._stores.status.find_completions(partition, [key])


def _difference(known: Recurring | None, owner: str, rule: RecurringRule) -> str:
    """Return the list of ``DeclaredChanges`` in which a declared schedule belongs."""
    if known is None:
        return "created"
    if not known.state.over and known.state.owner not in (None, owner):
        return "foreign"
    is_equal = written_rule(known.rule) == written_rule(rule)
    return "unchanged" if is_equal and known.state.owner == owner else "changed"


def _is_of(known: Recurring | None, owner: str) -> bool:
    return known is not None and known.state.owner == owner


def _times(rule: RecurringRule, after_ms: int, anchor_ms: int, count: int) -> list[NextTime]:
    pairs = (each.split(" ") for each in next_times(rule, after_ms, anchor_ms, count))
    return [NextTime(time=time, local=local) for time, local in pairs]


def _unless_over(row: Definition) -> Recurring | None:
    schedule = recurring_of(row)
    return None if schedule.state.over else schedule


def _occurrence(text: str) -> ShownOccurrence:
    return ShownOccurrence(key=text, time=instant_text(TaskKey.parse(text).scheduled_ms))


def _take_note(asked: _AskedChange, found: Mapping[TaskKey, Completion]) -> bool:
    assert asked.receipt is not None, "only a sent command is decided"
    asked.completion = found.get(asked.receipt.key)
    return asked.completion is not None
