"""What the promises excuse is listed with its cause; what looks alike and is none is found."""

from dataclasses import replace

from tests.chaos.planted import (
    SECOND_US,
    STRUCK_US,
    Plant,
    a_fault,
    an_attempt,
    excuses,
    moved,
    violations,
)


def test_a_task_that_ran_when_its_node_was_killed_may_run_again() -> None:
    """Also one that had ended shortly before; each with its cause."""
    for ended_us in (None, STRUCK_US - 10_000):
        plant = Plant().handed_over(a_fault("killed"))
        last = plant.last_of_node_1
        plant.attempts[last] = replace(
            plant.attempts[last],
            started_us=STRUCK_US - 20_000,
            ended_us=ended_us,
            succeeded=ended_us is not None,
        )
        plant.again(last)
        assert violations(plant) == {}
        (cause,) = excuses(plant)["double"]
        assert "node 1 (pid 1001) was killed" in cause


def killed_15_s_after_the_last_task() -> Plant:
    """Return a run of ten tasks, the last of which is run again after a kill."""
    plant = Plant()
    del plant.offers[10:], plant.attempts[10:]
    plant.handed_over(a_fault("killed", from_us=STRUCK_US + 15 * SECOND_US))
    plant.again(9, after_us=30 * SECOND_US)
    return plant


def test_a_task_done_long_before_the_kill_may_not_run_again() -> None:
    """Its completion had to be durable."""
    assert violations(killed_15_s_after_the_last_task()) == {"double": 1}


def test_time_without_a_store_makes_no_completion_durable() -> None:
    """What ended before all of the store was paused may run again; one replica is not a store."""
    plant = killed_15_s_after_the_last_task()
    pause = a_fault(harm="store", from_us=STRUCK_US, lasts_us=14 * SECOND_US)
    plant.faults = [pause, *plant.faults]
    assert violations(plant) == {}
    assert "not yet durable" in excuses(plant)["double"][0]

    plant.faults = [replace(pause, harm="replica"), *plant.faults[1:]]

    assert violations(plant) == {"double": 1}


def test_only_the_last_task_of_an_ordering_id_is_in_doubt() -> None:
    """The next one starts only when the completion before it is durable."""
    plant = Plant().handed_over(a_fault("killed"))

    plant.again(plant.last_of_node_1 - 1, after_us=6 * SECOND_US)

    assert violations(plant)["double"] == 1


def test_an_attempt_that_outlives_a_freeze_may_overlap_its_repetition() -> None:
    """A blocking attempt cannot be stopped from outside; it is listed with its cause."""
    plant = Plant().handed_over(a_fault("frozen"))
    last = plant.last_of_node_1
    plant.attempts[last] = replace(
        plant.attempts[last],
        started_us=STRUCK_US - 5_000,
        ended_us=STRUCK_US + 10 * SECOND_US + 5_000,
    )
    plant.again(last, after_us=7 * SECOND_US - 30_000)

    assert violations(plant) == {}
    assert {"double", "overlapping"} <= excuses(plant).keys()
    assert all("frozen" in cause for cause in excuses(plant)["overlapping"])


def test_a_thread_frozen_before_user_code_is_excused_once() -> None:
    """What it began after its lease check is listed; what it begins next is a violation."""
    plant = Plant().handed_over(a_fault("frozen"))
    thawed_us = STRUCK_US + 10 * SECOND_US
    last = plant.last_of_node_1 + 1
    limbo = moved(an_attempt(plant.offers[last], node=1), thawed_us + 1_000)
    plant.attempts.append(limbo)
    assert "behind its fence" not in violations(plant)
    assert "lease check" in excuses(plant)["behind its fence"][0]

    plant.attempts.append(moved(an_attempt(plant.offers[last + 1], node=1), thawed_us + 20_000))

    assert violations(plant)["behind its fence"] == 1


def test_a_drain_excuses_nothing_before_its_deadline() -> None:
    """A graceful stop makes completions durable; only past its deadline may it leave some."""
    short = Plant().handed_over(a_fault("drained"))
    short.again(short.last_of_node_1)
    assert violations(short)["double"] == 1

    fault = a_fault("drained", lasts_us=12 * SECOND_US)
    past = replace(
        fault, blows=[replace(each, to_us=STRUCK_US + 11 * SECOND_US) for each in fault.blows]
    )
    long = Plant().handed_over(past, after_us=12 * SECOND_US)
    last = long.last_of_node_1
    long.attempts[last] = replace(
        long.attempts[last], ended_us=STRUCK_US + 10 * SECOND_US + 500_000
    )
    long.again(last, after_us=12 * SECOND_US)

    assert violations(long) == {}
    assert "past its drain deadline" in excuses(long)["double"][0]


def test_a_cut_off_owner_is_excused_for_its_last_attempts_alone() -> None:
    """A fault of the log may end a lease; what was durable before it may not run again."""
    fault = a_fault(harm="log")
    plant = Plant().handed_over(fault)
    plant.again(plant.last_of_node_1)
    assert violations(plant) == {}
    assert "its owner changed" in excuses(plant)["double"][0]

    older = Plant().handed_over(fault)
    older.again(older.last_of_node_1 - 2, after_us=9 * SECOND_US)

    assert violations(older)["double"] == 1


def test_one_owner_never_has_an_excuse() -> None:
    """A repetition under the same fence is a violation, whatever happened to the node."""
    plant = Plant().handed_over(a_fault("frozen"))
    last = plant.last_of_node_1

    plant.again(last, node=1, after_us=100_000)

    assert violations(plant)["double"] == 1
