"""Waits and lateness are worked out from the records, and a wait too long fails the run."""

from dataclasses import replace

import pytest

from hourhand.scheduler.configuration.settings import Settings
from tests.chaos.measures import Measures, kept_waiting, measure
from tests.chaos.plan import Extent
from tests.chaos.run import Chaos, Evidence
from tests.chaos.verdict import Limits, Verdict, judge
from tests.judge.causes import Rules
from tests.judge.history import SECOND_US, Offer
from tests.judge.planted import (
    DAY_US,
    FIRST_DUE_US,
    LIMIT,
    SET_US,
    STRUCK_US,
    WALL_US,
    Plant,
    a_clock,
    a_fault,
    an_attempt,
    an_offer,
    moved,
)
from tests.judge.recount import recount

CHAOS = Chaos(1, Extent(2, 1, 1, 60.0), 1, 34.0)


def judged(plant: Plant, *, ended_alone: tuple[str, ...] = ()) -> Verdict:
    """Judge a planted run by the limits of the whole one."""
    evidence = Evidence(plant.history, 60.0, list(ended_alone), Settings())
    findings = recount(plant.history, Rules())
    return judge(CHAOS, evidence, findings, measure(plant.history), Limits())


def broken(verdict: Verdict) -> list[str]:
    """Return what is not met."""
    return [check.what for check in verdict.checks if not check.holds]


def a_whole_run(killed_wait_s: float = 7.0, drained_wait_s: float = 0.5) -> Plant:
    """Return a run in which the first process of node 1 is stopped, its second one killed, and
    another node frozen.
    """
    plant = Plant().handed_over(a_fault("killed"), after_us=round(killed_wait_s * SECOND_US))
    plant.attempts[:4] = [replace(each, pid=1000) for each in plant.attempts[:4]]
    last = plant.attempts[3]
    assert last.ended_us is not None
    plant.offers[4] = replace(plant.offers[4], due_wall_us=WALL_US + last.ended_us)
    next_us = last.ended_us + round(drained_wait_s * SECOND_US)
    plant.attempts[4] = moved(an_attempt(plant.offers[4]), next_us)
    drain = a_fault("drained", from_us=last.started_us + 1_000, lasts_us=SECOND_US)
    drain = replace(drain, blows=[replace(each, pid=1000) for each in drain.blows])
    freeze_in_a_process(plant)
    plant.faults = [drain, *plant.faults]
    limited = [limited_offer(number) for number in range(LIMIT.burst + 2)]
    plant.offers += limited
    plant.attempts += [an_attempt(each, node=2) for each in limited]
    return plant


def freeze_in_a_process(plant: Plant) -> None:
    """Have a third node be frozen while it has an attempt in a process, of an id of its own."""
    offer = replace(an_offer(0), task_id="worked", ordering_id="worked", partition=2)
    attempt = replace(an_attempt(offer), node=3, pid=1003, process=77)
    started_us, ended_us = attempt.started_us, attempt.started_us + 4 * SECOND_US
    plant.offers.append(offer)
    plant.attempts.append(replace(attempt, ended_us=ended_us, alive_us=ended_us))
    freeze = a_fault("frozen", from_us=started_us + SECOND_US, lasts_us=SECOND_US)
    blows = [replace(each, node=3, pid=1003) for each in freeze.blows]
    plant.faults = [replace(freeze, blows=blows), *plant.faults]


def limited_offer(number: int) -> Offer:
    """Return a task of an ordering id of its own, due a tenth of a second after the one before."""
    due_wall_us = WALL_US + FIRST_DUE_US + number * SECOND_US // 10
    offer = replace(an_offer(0), due_wall_us=due_wall_us, partition=1, tenant="first")
    return replace(offer, task_id=f"limited-{number}", ordering_id=f"{number}", work="limited")


@pytest.mark.parametrize("wait_s", [0.3, 7.0, 9.0])
def test_the_wait_is_counted_from_the_kill(wait_s: float) -> None:
    """Until something of the dead node's partition begins."""
    plant = Plant().handed_over(a_fault("killed"), after_us=round(wait_s * SECOND_US))

    (recovery,) = measure(plant.history).recoveries

    # The first task to be taken over is the eleventh, and tasks are 10 ms apart then.
    assert recovery.longest_s == pytest.approx(wait_s + 0.1, abs=0.01)
    assert recovery.caught_up_s == (0.0 if wait_s < 1 else pytest.approx(0.0, abs=10.0))


def test_what_waits_for_its_time_does_not_wait_for_a_node() -> None:
    """Where few tasks are due, the next one may be due long after a stop."""
    plant = Plant().handed_over(a_fault("drained"), after_us=400_000)
    for place in range(10, 20):
        due_wall_us = plant.offers[place].due_wall_us + 900_000
        plant.offers[place] = replace(plant.offers[place], due_wall_us=due_wall_us)
        late = an_attempt(plant.offers[place], node=2, late_us=5_000)
        plant.attempts[place] = late

    (recovery,) = measure(plant.history).recoveries

    assert recovery.longest_s == pytest.approx(0.005, abs=0.001)


def test_a_repetition_says_nothing_of_when_it_was_due() -> None:
    """Its task was due before, and it is its own time that counts, which is not recorded."""
    plant = Plant().handed_over(a_fault("drained"), after_us=1_400_000)
    plant.attempts[10] = replace(plant.attempts[10], number=2)
    plant.attempts[11] = replace(plant.attempts[11], started_us=plant.attempts[10].started_us + 1)

    (recovery,) = measure(plant.history).recoveries

    # The eleventh was due a second after the stop, and the repetition before it counts for it.
    assert recovery.longest_s == pytest.approx(0.5, abs=0.01)


def test_the_wait_of_a_frozen_store_is_the_longest_gap() -> None:
    """Of any partition, whoever owns it."""
    pause = a_fault(harm="store", from_us=STRUCK_US + 100_000, lasts_us=5 * SECOND_US)
    plant = Plant()
    for place in range(11, 15):
        later_us = pause.to_us + place * 1_000
        plant.attempts[place] = replace(plant.attempts[place], started_us=later_us)
    plant.faults = [pause]

    (recovery,) = measure(plant.history).recoveries

    assert recovery.longest_s == pytest.approx(5.0, abs=0.01)


def test_the_wait_of_no_node_at_all_is_counted_from_the_return() -> None:
    """While none is up, nobody can take over."""
    fault = a_fault("killed", lasts_us=6 * SECOND_US)
    other = replace(fault.blows[0], node=2, pid=1002)
    plant = Plant().handed_over(replace(fault, blows=[*fault.blows, other]), after_us=8 * SECOND_US)

    (recovery,) = measure(plant.history).recoveries

    assert recovery.longest_s == pytest.approx(2.1, abs=0.01)


def test_lateness_is_told_apart_by_what_faults_touched() -> None:
    """What was due before, and began before, is not disturbed."""
    plant = Plant().handed_over(a_fault("killed"))

    measures: Measures = measure(plant.history)

    assert measures.quiet is not None
    assert measures.disturbed is not None
    assert (measures.quiet.count, measures.disturbed.count) == (10, 10)
    assert measures.quiet.max_ms == 2.0
    assert measures.disturbed.max_ms > 6_000
    assert FIRST_DUE_US < STRUCK_US


def test_a_run_within_all_limits_passes() -> None:
    """The same run as those below."""
    assert broken(judged(a_whole_run())) == []


def test_a_long_takeover_fails_the_run() -> None:
    """Each kind has its own limit."""
    assert broken(judged(a_whole_run(killed_wait_s=8.2))) == ["recovery after SIGKILL of a node"]
    assert broken(judged(a_whole_run(drained_wait_s=1.1))) == ["recovery after a graceful stop"]


def test_a_lost_task_and_a_node_that_ends_alone_fail_the_run() -> None:
    """Also where everything else is in order."""
    plant = a_whole_run()
    del plant.attempts[-1]

    verdict = judged(plant, ended_alone=("node 2",))

    assert broken(verdict) == [
        "accepted tasks that have run",
        "P1 lost",
        "nodes that ended by themselves, or badly",
    ]
    assert not verdict.holds
    assert verdict.as_value()["holds"] is False


def test_a_doubt_of_a_self_check_fails_the_run() -> None:
    """Whatever the judge says: one of the two is wrong, and either must be known."""
    plant = a_whole_run()
    evidence = Evidence(plant.history, 60.0, [], Settings(), doubts=["node-1: PromiseDoubted P3"])
    findings, measures = recount(plant.history, Rules()), measure(plant.history)

    verdict = judge(CHAOS, evidence, findings, measures, Limits())

    assert broken(verdict) == ["promises that a node's self-check doubts"]


def test_a_link_that_failed_unmet_fails_the_run() -> None:
    """Nobody sent anything over it: it shows nothing."""
    plant = a_whole_run()
    link = replace(a_fault(harm="log", from_us=FIRST_DUE_US), met=3)
    plant.faults = [*plant.faults, link]
    assert broken(judged(plant)) == []

    plant.faults = [*plant.faults, replace(link, met=0)]

    assert broken(judged(plant)) == ["links, clocks and disks that failed unmet"]


def test_a_task_that_a_clock_kept_waiting_fails_the_run() -> None:
    """The last plain one began 11 s after its time."""
    plant = a_whole_run()
    last = plant.attempts[19]
    clock = a_fault(harm="clock", from_us=last.started_us - SECOND_US)
    plant.faults = [*plant.faults, replace(clock, met=1, pid=last.pid, ahead_us=SECOND_US)]
    assert broken(judged(plant)) == []

    plant.attempts[19] = moved(last, last.started_us + 11 * SECOND_US)

    assert broken(judged(plant)) == ["kept waiting by a clock"]


@pytest.mark.parametrize(("ahead_us", "late_s"), [(DAY_US, 11.0), (-DAY_US, 21.0)])
def test_what_a_clock_keeps_waiting_is_found(ahead_us: int, late_s: float) -> None:
    """Counted from its time, or from when a clock that was behind is right."""
    for waited_s, found in ((late_s - 1.5, 0), (late_s, 1)):
        plant = Plant(faults=[a_clock(ahead_us)])
        plant.attempts[5] = moved(plant.attempts[5], SET_US + round(waited_s * SECOND_US))

        assert len(kept_waiting(plant.history, Limits().clock_s)) == found


def test_a_run_without_the_faults_it_is_judged_on_fails() -> None:
    """What was not tried has not been shown."""
    assert broken(judged(Plant())) == [
        "starts of a tenant in 5 s, more than a burst",
        "attempts in a process when their node was frozen",
        "recovery after SIGKILL of a node",
        "recovery after a graceful stop",
    ]
