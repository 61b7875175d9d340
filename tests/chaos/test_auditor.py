"""The auditor finds each thing that is planted, and excuses what the promises excuse."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.chaos.auditor import frozen_at_work
from tests.chaos.planted import (
    SECOND_US,
    STRUCK_US,
    WALL_US,
    Plant,
    a_fault,
    an_attempt,
    excuses,
    moved,
    violations,
)
from tests.tidy.source import sources


def test_a_run_without_faults_has_nothing_to_find() -> None:
    """Nor has one whose partition changed hands."""
    assert violations(Plant()) == {}
    handed = Plant().handed_over(a_fault("killed"))
    assert {each.node for each in handed.attempts} == {1, 2}
    assert violations(handed) == {}
    assert excuses(handed) == {}


def lose_one(plant: Plant) -> None:
    """Accepted, and never run."""
    del plant.attempts[3]


def fail_one(plant: Plant) -> None:
    """Accepted, run, and never done."""
    plant.attempts[-1] = replace(plant.attempts[-1], succeeded=False)


def begin_early(plant: Plant) -> None:
    """By a millionth of a second."""
    each = plant.attempts[3]
    plant.attempts[3] = replace(each, started_wall_us=each.due_wall_us - 1)


def run_twice(plant: Plant) -> None:
    """Once more on the same node, with no fault anywhere."""
    plant.again(19, node=1)


def run_twice_elsewhere(plant: Plant) -> None:
    """Once more on another node, with no fault anywhere."""
    plant.again(19, node=2)


def overlap(plant: Plant) -> None:
    """The next task begins while this one runs."""
    each = plant.attempts[3]
    plant.attempts[3] = replace(each, ended_us=plant.attempts[4].started_us + 1)


def turn_round(plant: Plant) -> None:
    """The first task waits until the second is done."""
    plant.attempts[3] = moved(plant.attempts[3], plant.attempts[4].started_us + 100_000)


def retry_after_the_next(plant: Plant) -> None:
    """A retry that did not hold its ordering id."""
    first = plant.attempts[3]
    plant.attempts[3] = replace(first, succeeded=False)
    again = moved(replace(first, number=2), plant.attempts[4].started_us + 100_000)
    plant.attempts.append(again)


def go_behind(plant: Plant) -> None:
    """The old owner begins one more though a new one has begun."""
    plant.attempts[4:] = [an_attempt(offer, node=2) for offer in plant.offers[4:]]
    plant.attempts[10] = an_attempt(plant.offers[10], node=1)


def invent_one(plant: Plant) -> None:
    """Nobody offered it."""
    plant.attempts.append(replace(plant.attempts[-1], task_id="task-99", ordering_id="other"))


def run_a_refused_one(plant: Plant) -> None:
    """The client was told no."""
    plant.offers[5] = replace(plant.offers[5], answer="refused")


def run_at_another_time(plant: Plant) -> None:
    """It was offered for later."""
    plant.offers[19] = replace(
        plant.offers[19], due_wall_us=plant.offers[19].due_wall_us + SECOND_US
    )


def leave_unended(plant: Plant) -> None:
    """It never ended, and nobody killed its process."""
    plant.attempts[-1] = replace(plant.attempts[-1], ended_us=None, succeeded=False)


def work_on_in_a_process(plant: Plant) -> None:
    """It was seen at work when the next task had begun, and was killed."""
    each = plant.attempts[3]
    alive_us = plant.attempts[4].started_us + 1
    plant.attempts[3] = replace(each, process=77, alive_us=alive_us, ended_us=None, succeeded=False)
    plant.again(3, node=1, after_us=100_000)


@pytest.mark.parametrize(
    ("sow", "found"),
    [
        (lose_one, {"lost": 1}),
        (fail_one, {"lost": 1}),
        (begin_early, {"early": 1}),
        (run_twice, {"double": 1}),
        (run_twice_elsewhere, {"double": 1}),
        (overlap, {"overlapping": 1, "out of order": 1}),
        (turn_round, {"out of order": 1}),
        (retry_after_the_next, {"out of order": 1}),
        (go_behind, {"behind its fence": 1}),
        (invent_one, {"unexpected": 1}),
        (run_a_refused_one, {"unexpected": 1}),
        (run_at_another_time, {"unexpected": 1}),
        (
            work_on_in_a_process,
            {"overlapping": 2, "beside one in a process (P26)": 2},
        ),
        (leave_unended, {"lost": 1, "unended": 1}),
    ],
)
def test_what_is_planted_is_found(sow: Callable[[Plant], None], found: dict[str, int]) -> None:
    """Each thing that must not happen, planted alone into a run in which all is well."""
    plant = Plant()

    sow(plant)

    assert violations(plant) == found
    assert excuses(plant) == {}


def test_nothing_excuses_what_begins_beside_a_process() -> None:
    """P26: not even that its node was frozen, as all else may be excused by."""
    plant = Plant().handed_over(a_fault("frozen"))
    place = plant.last_of_node_1
    later = plant.attempts[place + 1]
    frozen = replace(
        plant.attempts[place],
        process=77,
        started_us=STRUCK_US - 1,
        alive_us=later.started_us - 200_000,
        ended_us=None,
        succeeded=False,
    )
    plant.attempts[place] = frozen
    plant.again(place, after_us=later.started_us - frozen.started_us - 100_000)
    assert violations(plant) == {}
    assert frozen_at_work(plant.history) == [frozen]

    plant.attempts[place] = replace(frozen, alive_us=later.started_us + 1)

    assert violations(plant) == {"beside one in a process (P26)": 2}
    assert "overlapping" in excuses(plant)


def test_an_unknown_offer_may_run_or_not() -> None:
    """Its future failed, so the log may or may not hold it."""
    plant = Plant()
    plant.offers[3:5] = [replace(each, answer="unknown") for each in plant.offers[3:5]]
    del plant.attempts[3]

    assert violations(plant) == {}


def test_order_is_judged_on_tasks_accepted_well_before() -> None:
    """Not on one that came late, whichever of the two it is."""
    for late in (3, 4):
        plant = Plant()
        turn_round(plant)
        first_due = plant.offers[3].due_wall_us
        plant.offers[late] = replace(
            plant.offers[late], answered_wall_us=first_due - 29 * SECOND_US
        )
        assert violations(plant) == {}


def test_time_without_a_store_stores_nothing_in_order() -> None:
    """What was accepted 40 s before needs 30 s of them; losing a replica excuses nothing.

    An outage counts only where it lies between the acceptance and the moment the first is due.
    """
    plant = Plant()
    turn_round(plant)
    accepted_us = plant.offers[3].answered_wall_us - WALL_US
    due_us = plant.offers[3].due_wall_us - WALL_US
    pause = a_fault(harm="store", from_us=accepted_us + SECOND_US, lasts_us=15 * SECOND_US)
    plant.faults = [pause]
    assert violations(plant) == {}

    shorter = replace(pause, to_us=pause.from_us + 5 * SECOND_US)
    later = a_fault(harm="store", from_us=due_us, lasts_us=15 * SECOND_US)
    for fault in (shorter, later, replace(pause, harm="replica")):
        plant.faults = [fault]
        assert violations(plant) == {"out of order": 1}


def test_the_auditor_shares_no_code_with_the_engine() -> None:
    """So the engine cannot be wrong in the same way twice; followed through every import."""
    modules = {source.module: source for source in sources("tests/chaos")}
    reached, waiting = set(), ["tests.chaos.auditor", "tests.chaos.measures"]
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        imports = modules[name].imports
        strange = [each for each in imports if each.startswith(("hourhand", "examples"))]
        assert not strange, f"{name} imports {strange}"
        waiting += [each for each in imports if each in modules and each not in reached]

    assert {"tests.chaos.causes", "tests.chaos.history"} <= reached
