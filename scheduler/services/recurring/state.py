"""The state of a recurring schedule, and the tasks that change or continue it.

Decides their stored form; the executor decides their effect.
"""

from enum import StrEnum
from typing import NamedTuple

import msgspec
from pydantic import JsonValue, TypeAdapter

from hourhand.actors.model.task.definition import Definition, DefinitionKind, DefinitionName
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.services.recurring.rule import RecurringRule


class Change(StrEnum):
    """The changes of a recurring schedule."""

    SET = "set"
    PAUSE = "pause"
    RESUME = "resume"
    TRIGGER = "trigger"
    DELETE = "delete"


class ChangeRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The data of a task that changes a schedule."""

    change: Change
    rule: dict[str, object] | None = None
    owner: str | None = None
    """The owner whose declaration asks for it; None for a change by hand."""
    revision: int = 0
    """The revision of that declaration."""


class Tick(msgspec.Struct, frozen=True):
    """The data of a task that makes the occurrence of its time, and the next tick."""

    generation: int
    """Offset of the definition it belongs to."""


class Withdrawn(msgspec.Struct, frozen=True, array_like=True):
    """A task made ahead of its time that a change cancelled."""

    key: str
    offset: int
    """Log offset of its cancel. A task of the same time that is made again comes behind it, so a
    cancelled completion up to here is not its end."""
    counts: bool
    """True if it is one of the count, should it have run before its cancel was decided."""


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rule of a definition: the schedule's own rule, and its progress."""

    rule: dict[str, object]
    anchor_ms: int
    """Intervals are counted from this time."""
    made_by: str
    """Uniqueness key of the task that made this state; a repetition of that task sees it here."""
    changed_at: int = -1
    """Log offset of the last record that set, paused, resumed or deleted it."""
    declared_at: int = -1
    """Log offset of the last record that set it to its current rule, and so changed nothing
    else."""
    paused: bool = False
    over: bool = False
    """It has ended; the row stays for a while, so that an earlier record cannot undo that."""
    deleted: bool = False
    """True if it was deleted, so that setting an equal rule begins again."""
    taken: int = 0
    """Occurrences that became tasks."""
    skipped: int = 0
    """Occurrences left out because an earlier one had not ended."""
    missed: int = 0
    """Occurrences left out because they were due too long ago."""
    recent: tuple[str, ...] = ()
    """Keys of the last tasks, the newest last: the next one might overlap them."""
    ahead: tuple[int, ...] = ()
    """Times whose tasks were made before they were due, in order, until a tick finds out that
    they are taken or left out."""
    fresh: int = 0
    """Number of times at the end of ``ahead`` whose tasks are made behind this state."""
    numbered: int = 0
    """Highest number that a task was given; left at 0 by older versions, which number those that
    are taken."""
    ended: tuple[int, int] | None = None
    """First and last of the times whose tasks the last change cancelled; a task of theirs that
    starts late is left out though its partition may not have read that yet."""
    withdrawn: tuple[Withdrawn, ...] = ()
    """Tasks that changes cancelled, while their times may be made again, or their ends count."""
    passed_ms: int = 0
    """Every time of the rule up to this one had its tick."""
    owner: str | None = None
    """The owner that declares it; None if it was set by hand."""
    revision: int = 0
    """The revision of the owner's declaration that it follows."""


class Recurring(NamedTuple):
    """A recurring schedule as the store has it."""

    name: str
    rule: RecurringRule
    state: State
    next_ms: int | None


_rules = TypeAdapter(RecurringRule)


def name_of(name: str) -> DefinitionName:
    """Return the name of a schedule's definition."""
    return DefinitionName(DefinitionKind.RECURRING, name)


def recurring_of(definition: Definition) -> Recurring:
    """Read a definition that has not ended."""
    state = msgspec.json.decode(definition.rule, type=State)
    rule = _rules.validate_python(state.rule)
    return Recurring(definition.name.id, rule, state, definition.next_ms)


def rule_values(rule: RecurringRule) -> dict[str, object]:
    """Return a rule in the form of a request and a definition."""
    return rule.model_dump(mode="json", exclude_defaults=True)


def written_rule(rule: RecurringRule) -> bytes:
    """Return the text of a rule; two rules share it only if both mean the same.

    As Python values, data that holds 1 would equal data that holds true.
    """
    return msgspec.json.encode(rule_values(rule), order="deterministic")


def change_task(name: str, asked_ms: int, unique: str, request: ChangeRequest) -> Task:
    """Return the task that changes a schedule."""
    return _task(name, asked_ms, f"change:{unique}", msgspec.to_builtins(request))


def tick_task(name: str, due_ms: int, generation: int) -> Task:
    """Return the task of the next occurrence; each call returns the same task."""
    return _task(name, due_ms, f"tick:{generation:020d}", {"generation": generation})


def _task(name: str, due_ms: int, unique: str, data: dict[str, JsonValue]) -> Task:
    return Task.model_construct(
        ordering_id=name_of(name).ordering_id,
        scheduled_time=from_millis(due_ms),
        uniqueness_key=unique,
        data=data,
    )


def recent_keys(state: State) -> list[TaskKey]:
    """Return the keys of the last occurrences, the newest last."""
    return [TaskKey.parse(text) for text in state.recent]
