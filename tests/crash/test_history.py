"""A journal says as a history what it said: what is planted in its lines is found."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.crash.history import RULES, Remainder, history_of
from tests.crash.journal import Event, Key, Place
from tests.crash.load import ORDERINGS
from tests.judge.history import History
from tests.judge.recount import recount

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
    """Return how many violations of each promise are found, none left out."""
    findings = recount(judged(events), RULES)
    counts = {kind: len(findings.violations(kind)) for kind in findings.by_kind}
    return {kind: count for kind, count in counts.items() if count}


def judged(events: list[Event]) -> History:
    """Return what was written, a line each millisecond; the process that wrote last is alive."""
    lines = [replace(each, at_us=1_000 * place) for place, each in enumerate(events, 1)]
    return history_of(lines, alive=events[-1].run)


def test_a_good_journal_has_nothing_to_find() -> None:
    """A task that ran as its process was killed runs again, and that is counted as excused."""
    assert found(a_good_journal()) == {}
    assert len(recount(judged(a_good_journal()), RULES).excused("P5 done again")) == 1


def test_a_line_is_read_back() -> None:
    """With all that it has."""
    event = Event("told", 3, KEYS[1], 5, PLACE, "cancel", 77)
    assert Event.parse(event.line().rstrip()) == event


def test_what_is_left_is_known_while_a_journal_grows() -> None:
    """A task that was cancelled is not waited for."""
    events = a_good_journal()
    left, rest = events[:-4], events[-4:]
    assert [each.key for each in rest[:2]] == [KEYS[7]] * 2
    remainder = Remainder([*left, *rest[2:]])

    assert remainder.read_on(left)
    assert not remainder.read_on(events)


Plant = Callable[[list[Event]], list[Event]]


def _changed(kind: str, key: Key, **changes: Any) -> Plant:
    def plant(events: list[Event]) -> list[Event]:
        is_meant = [(each.kind, each.key) == (kind, key) for each in events]
        pairs = zip(events, is_meant, strict=True)
        return [replace(each, **changes) if meant else each for each, meant in pairs]

    return plant


@pytest.mark.parametrize(
    ("plant", "complaints"),
    [
        (lambda lines: [*lines[:-3], *lines[-2:]], {"P1 lost": 1, "P14 unended": 1}),
        (_changed("outcome", CANCELLED, word="undecided"), {"P12 unreported": 1}),
        (_changed("outcome", CANCELLED, word="too_late"), {"P1 lost": 1}),
        (lambda lines: lines + _ran(WITHDRAWN, 2), {"P25 uninvited": 1}),
        (lambda lines: lines + _ran(CANCELLED, 2), {"P6 revived": 1}),
        (_changed("started", KEYS[6], time_ms=KEYS[6].scheduled_ms - 1), {"P2 early": 1}),
        (lambda lines: lines + _ran(KEYS[1], 3), {"P5 done again": 1}),
    ],
)
def test_what_is_planted_is_found(plant: Plant, complaints: dict[str, int]) -> None:
    """Each thing that must not happen, planted alone into a journal in which all is well."""
    assert found(plant(a_good_journal())) == complaints


def test_what_a_process_was_told_before_it_began_is_in_order() -> None:
    """The second process runs the last two tasks beside each other, and the other way round."""
    *before, start, end, next_start, next_end, outcome, stopping = a_good_journal()
    rest = [outcome, stopping]
    beside = found([*before, start, next_start, end, next_end, *rest])
    assert beside == {"P3 overlapping": 1, "P4 out of order": 1}
    assert found([*before, next_start, next_end, start, end, *rest]) == {"P4 out of order": 1}
