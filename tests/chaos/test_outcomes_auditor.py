"""The auditor of outcomes finds what is planted, and takes repeated records for what they are."""

from dataclasses import replace

from tests.chaos.history import History, Told
from tests.chaos.outcomes_auditor import audit_outcomes
from tests.chaos.planted import Plant

_GOOD = Plant().history
_TOLD = [
    Told(each.task_id, each.ordering_id, "success", 0, place, (each.ended_us or 0) + 1)
    for place, each in enumerate(_GOOD.attempts)
]
GOOD = replace(_GOOD, told=_TOLD)


def _found(history: History) -> dict[str, int]:
    return {kind: len(each) for kind, each in audit_outcomes(history).items() if each}


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    """A record may come again, also later."""
    assert _found(GOOD) == _found(replace(GOOD, told=[*_TOLD, _TOLD[3]])) == {}


def test_a_task_that_ended_well_is_told() -> None:
    """One that has not ended need not be."""
    without_end = replace(GOOD.attempts[3], ended_us=None, succeeded=False)
    attempts = [*GOOD.attempts[:3], without_end, *GOOD.attempts[4:]]
    told = [*_TOLD[:3], *_TOLD[4:]]

    assert _found(replace(GOOD, told=told)) == {"outcomes: missing": 1}
    assert _found(replace(GOOD, told=told, attempts=attempts)) == {}


def test_an_outcome_is_true() -> None:
    """It is a success, and read after an attempt had ended well."""
    failed = replace(_TOLD[3], result="failure")
    too_soon = replace(_TOLD[3], at_us=_TOLD[3].at_us - 10)

    for wrong in (failed, too_soon):
        told = [*_TOLD[:3], wrong, *_TOLD[4:]]
        assert _found(replace(GOOD, told=told)) == {"outcomes: untrue": 1}


def test_outcomes_of_an_ordering_id_are_told_in_order() -> None:
    """As far as one owner ended them, and a task ended once."""
    told = [*_TOLD[:3], replace(_TOLD[4], offset=3), replace(_TOLD[3], offset=4), *_TOLD[5:]]
    history = replace(GOOD, told=told)
    other = [replace(each, fence=2, pid=1002) for each in GOOD.attempts[4:]]
    again = replace(GOOD.attempts[3], fence=2, pid=1002)

    assert _found(history) == {"outcomes: out of order": 1}
    assert _found(replace(history, attempts=[*GOOD.attempts[:4], *other])) == {}
    assert _found(replace(history, attempts=[*GOOD.attempts, again])) == {}
