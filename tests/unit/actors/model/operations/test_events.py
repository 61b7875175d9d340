"""Events: typed, past tense, and all of them in the union that telemetry handles."""

import inspect
import re
import typing

import msgspec
import pytest

from hourhand.actors.model.operations import events
from hourhand.actors.model.operations.events import (
    AttemptFinished,
    Event,
    OrderingsMeasured,
    TaskClosed,
    TasksStored,
    TasksSucceeded,
    orderings_measured,
    single_events,
    stored_event,
)
from hourhand.actors.model.operations.ownership import Straggler
from hourhand.actors.model.task.status import AttemptResult, CompletionResult
from tests.builders import NOW_MS, a_key, a_stored_task

_PAST = re.compile(r"(ed|Rebuilt|Stuck|Lost|Shrunk|Held|Began|Split|Told)$")
"""The regular participles, and the irregular ones in use."""


def _classes() -> list[type]:
    return [
        member
        for _, member in inspect.getmembers(events, inspect.isclass)
        if member.__module__ == events.__name__
    ]


def test_every_event_is_in_the_union() -> None:
    """An event outside it would be emitted and handled by nobody."""
    assert set(typing.get_args(Event)) == set(_classes())


def test_every_event_is_told_in_the_past_tense() -> None:
    """It has happened; nobody is asked to do anything."""
    for event in _classes():
        assert _PAST.search(event.__name__), event


def test_every_event_is_a_frozen_value() -> None:
    """It crosses threads."""
    for event in _classes():
        assert issubclass(event, msgspec.Struct) and event.__struct_config__.frozen, event
        assert inspect.getdoc(event), event


def test_times_of_events_carry_their_unit() -> None:
    """A duration or an instant is told in milliseconds."""
    for event in _classes():
        for field in msgspec.structs.fields(event):
            if re.search(r"duration|delay|pause|waited|timeout|reached|watermark", field.name):
                assert field.name.endswith("_ms"), (event, field.name)


@pytest.mark.parametrize(
    ("earliest_ms", "held_ms", "overdue_ms"),
    [
        (None, [], 0),
        (NOW_MS + 60_000, [], 0),
        (NOW_MS - 2_000, [], 2_000),
        (NOW_MS - 2_000, [NOW_MS - 90_000, NOW_MS - 5_000], 90_000),
        (None, [NOW_MS - 90_000], 90_000),
        (NOW_MS - 100_000, [NOW_MS - 90_000], 100_000),
    ],
)
def test_the_oldest_open_task_counts_whoever_holds_it(
    earliest_ms: int | None, held_ms: list[int], overdue_ms: int
) -> None:
    """Waiting, running, or held by an ordering id; a task of the future is not overdue."""
    held = [Straggler(f"id {ms}", ms) for ms in held_ms]

    measured = orderings_measured(3, 7, held, earliest_ms, NOW_MS)

    assert measured == OrderingsMeasured(3, 7, len(held), overdue_ms)


def test_rows_that_were_written_are_told_by_their_times_and_highest_offset() -> None:
    """One event for many."""
    rows = [a_stored_task(due_in_ms=due, offset=offset) for due, offset in ((1, 4), (2, 9), (3, 5))]

    assert stored_event(6, rows) == TasksStored(6, (NOW_MS + 1, NOW_MS + 2, NOW_MS + 3), 9)


def test_an_event_about_many_tasks_is_told_of_each() -> None:
    """Its attempt first, then its end; any other event stands for itself."""
    finished = tuple(
        AttemptFinished(6, a_key(due_in_ms=due), 1, AttemptResult.SUCCESS, 5, NOW_MS)
        for due in (1, 2)
    )
    closed = [TaskClosed(6, each.key, CompletionResult.SUCCESS) for each in finished]

    singles = list(single_events(TasksSucceeded(6, finished)))

    assert singles == [finished[0], closed[0], finished[1], closed[1]]
    assert list(single_events(closed[0])) == [closed[0]]
