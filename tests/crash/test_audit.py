"""The recount after kills and power cuts finds what is planted, and excuses a kill alone."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.crash.audit import (
    Journal,
    disordered,
    early,
    lost,
    overlapping,
    repeated,
    revived,
    uninvited,
)
from tests.crash.journal import Event, Key, Place
from tests.crash.load import ORDERINGS

FIRST_MS = 1_700_000_000_000
KEYS = [Key(FIRST_MS + 10 * number, number * ORDERINGS) for number in range(8)]
"""Tasks of one ordering id, in order."""
CANCELLED = Key(FIRST_MS + 5, 1)
PLACE = Place(0, 77)
WITHDRAWN = Key(FIRST_MS + 7, 2)


def _ran(key: Key, run: int, how: str = "ended") -> list[Event]:
    started = Event("started", run, key, key.scheduled_ms)
    return [started, Event(how, run, key)]


def a_good_journal() -> list[Event]:
    """Return what two processes wrote down, the first of which was killed amid the fourth task."""
    events = [Event("acknowledged", 1, key) for key in (*KEYS, CANCELLED)]
    events += [
        Event("intended", 1, CANCELLED, word="cancel"),
        Event("told", 1, CANCELLED, place=PLACE, word="cancel"),
        Event("withdrawn", 1, WITHDRAWN),
    ]
    for key in KEYS[:3]:
        events += _ran(key, 1)
    events.append(Event("started", 1, KEYS[3], KEYS[3].scheduled_ms))
    events += _ran(KEYS[3], 2)
    events += _ran(KEYS[4], 2, "failed")
    for key in KEYS[4:]:
        events += _ran(key, 2)
    events.append(Event("outcome", 2, CANCELLED, place=PLACE, word="applied"))
    return [*events, Event("stopping", 2)]


def found(events: list[Event]) -> dict[str, int]:
    """Return how many complaints each check has, none left out."""
    journal = Journal(events)
    complaints = {
        "lost": lost(journal),
        "uninvited": uninvited(journal),
        "revived": revived(journal),
        "early": early(journal),
        "overlapping": overlapping(journal),
        "repeated": repeated(journal)[0],
        "disordered": disordered(journal),
    }
    return {check: len(told) for check, told in complaints.items() if told}


def test_a_good_journal_has_nothing_to_find() -> None:
    """A task that ran as its process was killed runs again, and that is counted as excused."""
    assert found(a_good_journal()) == {}
    assert repeated(Journal(a_good_journal()))[1] == 1


Plant = Callable[[list[Event]], list[Event]]


def _without(kind: str, key: Key) -> Plant:
    return lambda events: [each for each in events if (each.kind, each.key) != (kind, key)]


def _outcome(word: str) -> Plant:
    def plant(events: list[Event]) -> list[Event]:
        return [replace(each, word=word) if each.kind == "outcome" else each for each in events]

    return plant


def _never_run(events: list[Event]) -> list[Event]:
    return [each for each in events if each.key != KEYS[7] or each.kind not in {"started", "ended"}]


def _early_by_a_millisecond(events: list[Event]) -> list[Event]:
    return [
        replace(each, time_ms=each.time_ms - 1)
        if (each.kind, each.key) == ("started", KEYS[6])
        else each
        for each in events
    ]


def _swapped(events: list[Event]) -> list[Event]:
    """The second process runs the last two tasks in the wrong order."""
    return [*events[:-6], *events[-4:-2], *events[-6:-4], *events[-2:]]


def _beside_the_next(events: list[Event]) -> list[Event]:
    """A task ends after the next one of its ordering id has begun."""
    place = events.index(Event("ended", 1, KEYS[1]))
    events[place], events[place + 1] = events[place + 1], events[place]
    return events


@pytest.mark.parametrize(
    ("plant", "complaints"),
    [
        (_never_run, {"lost": 1}),
        (_without("ended", KEYS[7]), {"lost": 1}),
        (_outcome("unknown_key"), {"lost": 1}),
        (_outcome("undecided"), {"lost": 1}),
        (_outcome("too_late"), {"lost": 1}),
        (lambda events: events + _ran(WITHDRAWN, 2), {"uninvited": 1}),
        (lambda events: events + _ran(CANCELLED, 2), {"revived": 1}),
        (_early_by_a_millisecond, {"early": 1}),
        (_beside_the_next, {"overlapping": 1}),
        (lambda events: events + _ran(KEYS[7], 2), {"repeated": 1}),
        (lambda events: events + _ran(KEYS[1], 3), {"repeated": 1}),
        (_swapped, {"disordered": 1}),
    ],
)
def test_what_is_planted_is_found(plant: Plant, complaints: dict[str, int]) -> None:
    """Each thing that must not happen, planted alone into a journal in which all is well."""
    assert found(plant(a_good_journal())) == complaints
