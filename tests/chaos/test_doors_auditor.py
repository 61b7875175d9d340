"""The auditor of the doors finds what is planted, and excuses what a fault explains alone."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.chaos.doors_auditor import audit_doors
from tests.chaos.doors_history import Arrived, DoorsHistory, Pop, Sent, Timer
from tests.judge.history import Blow, Fault
from tests.tidy.source import sources

_SENT = [Sent(n, "k", 10_000, 1_000, 0, n) for n in (1, 2, 3)]
_ARRIVED = [Arrived(n, "k", 0, n, 10_002, 10_000_000 + n) for n in (1, 2, 3)]
_TIMERS = [Timer(7, 2_000, 2, 1_000, accepted=True)]
_POPS = [Pop(7, n, 1_000 + 2_000 * n, 2_000_000 * n) for n in (1, 2)]
GOOD = DoorsHistory(_SENT, _ARRIVED, _TIMERS, _POPS)
FAULT = Fault(1, "SIGKILL of a node", "node 1", "nodes", 9_000_000, 11_000_000, 12_000_000)


def _kinds(history: DoorsHistory, faults: Sequence[Fault] = ()) -> set[str]:
    """Return the kinds of what nothing excuses."""
    found = audit_doors(history, faults)
    return {kind for kind, each in found.items() if any(one.cause is None for one in each)}


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    """Neither with a fault nor without."""
    assert _kinds(GOOD) == _kinds(GOOD, [FAULT]) == set()


@pytest.mark.parametrize(
    ("history", "kind"),
    [
        (replace(GOOD, arrived=_ARRIVED[:2]), "relay: missing"),
        (
            replace(GOOD, arrived=[replace(_ARRIVED[0], produced_wall_ms=9_999), *_ARRIVED[1:]]),
            "relay: early",
        ),
        (replace(GOOD, arrived=[*_ARRIVED, _ARRIVED[0]]), "relay: doubled"),
        (
            replace(GOOD, arrived=[replace(_ARRIVED[0], offset=9), *_ARRIVED[1:]]),
            "relay: out of order",
        ),
        (replace(GOOD, pops=_POPS[:1]), "timers: missing"),
        (replace(GOOD, pops=[replace(_POPS[0], at_wall_ms=2_999), _POPS[1]]), "timers: early"),
        (replace(GOOD, pops=[*_POPS, _POPS[1]]), "timers: doubled"),
        (replace(GOOD, pops=_POPS[::-1]), "timers: out of order"),
        (replace(GOOD, timers=[replace(_TIMERS[0], deleted_us=500_000)]), "timers: after deletion"),
    ],
)
def test_what_is_planted_is_found(history: DoorsHistory, kind: str) -> None:
    """Each kind alone."""
    assert _kinds(history) == {kind}


def test_a_pop_may_be_early_only_while_a_clock_is_ahead() -> None:
    """Not while one is behind, nor before or long after."""
    early = replace(GOOD, pops=[replace(_POPS[0], at_wall_ms=2_999), _POPS[1]])
    at_us = _POPS[0].at_us
    clock = replace(FAULT, harm="clock", from_us=at_us - 1, to_us=at_us + 1, ahead_us=1, pid=1)

    assert _kinds(early, [clock]) == set()
    for other in (
        replace(clock, ahead_us=-1),
        replace(clock, from_us=at_us + 1),
        replace(clock, to_us=at_us - 4_000_000),
        FAULT,
    ):
        assert _kinds(early, [other]) == {"timers: early"}


@pytest.mark.parametrize("ahead_us", [-1, 1])
def test_a_timer_of_a_wrong_clock_has_times_of_its_own(ahead_us: int) -> None:
    """They are days later or over; a timer of another node, or of before, has no excuse."""
    made = replace(_TIMERS[0], node=2, answered_us=1_000_000)
    clock = replace(FAULT, target="node 2", harm="clock", from_us=1, to_us=2, ahead_us=ahead_us)
    never = replace(GOOD, timers=[made], pops=[])
    at_once = replace(GOOD, timers=[made], pops=[replace(_POPS[0], at_wall_ms=1_001), _POPS[1]])

    assert _kinds(never, [clock]) == _kinds(at_once, [clock]) == set()
    assert _kinds(never, [replace(clock, target="node 1")]) == {"timers: missing"}
    for other in (
        replace(clock, from_us=5_000_000, to_us=5_000_001),
        replace(clock, ahead_us=0),
    ):
        assert _kinds(never, [other]) == {"timers: missing"}
        assert _kinds(at_once, [other]) == {"timers: early"}


def test_a_message_may_be_early_only_while_a_clock_is_ahead() -> None:
    """A relay takes it for due by its own clock."""
    early = replace(_ARRIVED[0], produced_wall_ms=9_999)
    history = replace(GOOD, arrived=[early, *_ARRIVED[1:]])
    clock = replace(FAULT, from_us=early.at_us - 1, to_us=early.at_us + 1, ahead_us=1)

    assert _kinds(history, [clock]) == set()
    assert _kinds(history, [replace(clock, ahead_us=-1)]) == {"relay: early"}


@pytest.mark.parametrize(
    "history",
    [replace(GOOD, arrived=[*_ARRIVED, _ARRIVED[0]]), replace(GOOD, pops=[*_POPS, _POPS[1]])],
)
def test_a_repetition_is_excused_by_a_fault_beside_it_alone(history: DoorsHistory) -> None:
    """One of long before or after explains nothing."""
    hours_us = 3_600_000_000
    long_ago = replace(FAULT, from_us=FAULT.from_us - hours_us, to_us=FAULT.to_us - hours_us)
    later = replace(FAULT, from_us=FAULT.from_us + hours_us, to_us=FAULT.to_us + hours_us)

    assert _kinds(history, [FAULT]) == set()
    assert _kinds(history, [long_ago, later])


SECOND_US = 1_000_000
LATE = replace(
    GOOD,
    timers=[replace(_TIMERS[0], deleted_us=3_500_000)],
    pops=[replace(_POPS[0], at_wall_ms=13_100, at_us=12_100_000)],
)
"""Pop 1 was due at 2 s, the timer was deleted at 3.5 s, and the callback came at 12.1 s."""
FROZEN = Blow("frozen", 1, 11, 3 * SECOND_US, 3 * SECOND_US, 12 * SECOND_US)


@pytest.mark.parametrize(
    "blow", [FROZEN, replace(FROZEN, from_us=6 * SECOND_US, struck_us=6 * SECOND_US)]
)
def test_a_callback_that_a_freeze_held_up_is_excused(blow: Blow) -> None:
    """The timer was deleted meanwhile, or so shortly before that the callback was under way."""
    assert _kinds(LATE, [replace(FAULT, blows=[blow])]) == set()


@pytest.mark.parametrize(
    "blow",
    [
        replace(FROZEN, how="killed"),
        replace(FROZEN, from_us=1_900_000, struck_us=1_990_000),
        replace(FROZEN, from_us=6_600_000, struck_us=6_600_000),
        replace(FROZEN, to_us=3_400_000),
        replace(FROZEN, to_us=11_000_000),
        replace(FROZEN, to_us=12_200_000),
    ],
    ids=[
        "another blow",
        "before it was due",
        "long after the deletion",
        "over before the deletion",
        "long over",
        "not over",
    ],
)
def test_no_other_callback_after_a_deletion_is_excused(blow: Blow) -> None:
    """A node that decides to call when it is awake has to see the deletion."""
    assert _kinds(LATE, [replace(FAULT, blows=[blow])]) == {"timers: after deletion"}


def test_the_doors_auditor_shares_no_code_with_the_engine() -> None:
    """Neither it nor the load that writes down what it reads."""
    for source in sources("tests/chaos"):
        if source.path.stem.startswith("doors_"):
            strange = [each for each in source.imports if each.startswith("hourhand")]
            assert not strange, f"{source.name} imports {strange}"
