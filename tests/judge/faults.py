"""Runs in which all is well, and faults to plant in them, each with the promise that it breaks."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from tests.judge.history import SECOND_US, Command, Harm, Told
from tests.judge.limits import NOTED_S
from tests.judge.planted import (
    DAY_US,
    FIRST_DUE_US,
    LIMIT,
    PIDS,
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

Run = Callable[[], Plant]
Sow = Callable[[Plant], None]

_NODE_2_BEGAN_US = 60 * SECOND_US
_TOLD_US = 50 * SECOND_US
_MOVED_TO_US = 130 * SECOND_US
_NEXT_US = 8 * SECOND_US
_THAWED_US = STRUCK_US + 10 * SECOND_US
_CUT_SHORT: Mapping[str, Any] = {"ended_us": None, "succeeded": False}
_OF_NODE_1: Mapping[str, Any] = {"node": 1, "fence": 1, "pid": PIDS[1], "thread": PIDS[1]}
_BEHIND_US = FIRST_DUE_US + 4_100_000
"""A moment when the fourth of the tasks, counted from 0, is done."""
LAST = 9
"""Place of the last attempt that node 1 begins where node 2 goes on."""


def killed() -> Plant:
    """Return a run in which node 2 goes on with what a killed node 1 had not begun."""
    return Plant().handed_over(a_fault("killed"))


def killed_amid() -> Plant:
    """Return one in which the last attempt of node 1 was under way, and is repeated."""
    plant = killed()
    plant.attempts[LAST] = replace(moved(plant.attempts[LAST], STRUCK_US - 1_000), **_CUT_SHORT)
    plant.again(LAST, after_us=7 * SECOND_US)
    return plant


def killed_at_last() -> Plant:
    """Return one in which node 1 was killed when it had done the last task."""
    return Plant(faults=[a_fault("killed", from_us=Plant().attempts[-1].started_us + 5_500)])


def killed_long_after(harm: Harm) -> Plant:
    """Return one in which that was 15 s after the last task, and something else failed before."""
    pause = a_fault(harm=harm, from_us=STRUCK_US, lasts_us=14 * SECOND_US)
    kill = a_fault("killed", from_us=STRUCK_US + 15 * SECOND_US)
    return Plant([an_offer(each) for each in range(LAST + 1)], faults=[pause, kill])


def drained(gone_s: int = 8) -> Plant:
    """Return one in which node 1 was asked to stop, and had ended so much later."""
    fault = a_fault("drained", lasts_us=12 * SECOND_US)
    blows = [replace(each, to_us=STRUCK_US + gone_s * SECOND_US) for each in fault.blows]
    return Plant().handed_over(replace(fault, blows=blows), (gone_s - 1) * SECOND_US)


def frozen() -> Plant:
    """Return one in which node 1 was frozen for ten seconds."""
    return Plant().handed_over(a_fault("frozen"))


def frozen_at_work() -> Plant:
    """Return one in which its last attempt was at work in a process then, which was killed."""
    plant = frozen()
    each = replace(plant.attempts[LAST], process=77, alive_us=STRUCK_US + SECOND_US)
    plant.attempts[LAST] = replace(each, started_us=STRUCK_US - 1, **_CUT_SHORT)
    plant.again(LAST, after_us=7 * SECOND_US)
    return plant


def cut_off() -> Plant:
    """Return one in which node 1 lost the log."""
    return Plant().handed_over(a_fault(harm="log"))


def taken_over() -> Plant:
    """Return one in which node 2 goes on with no fault anywhere."""
    plant = Plant()
    plant.attempts[4:] = [an_attempt(offer, node=2) for offer in plant.offers[4:]]
    return plant


def begun_late() -> Plant:
    """Return one in which all was accepted late, and before the only node began."""
    plant = Plant([an_offer(each, accepted_s_before=5.0) for each in range(20)])
    plant.begun_us = {PIDS[1]: FIRST_DUE_US - 4 * SECOND_US}
    return plant


def clock_ahead(node: int = 1) -> Plant:
    """Return one in which the clock of a node was a day ahead for a while."""
    return Plant(faults=[a_clock(DAY_US, node)])


def retried_under_clock(node: int = 1) -> Plant:
    """Return one whose last task asked to be tried again while that clock was ahead."""
    offers = [an_offer(each) for each in range(LAST + 1)]
    offers[-1] = replace(offers[-1], work="retry")
    plant = Plant(offers, faults=[a_clock(DAY_US, node)])
    plant.attempts[-1] = replace(plant.attempts[-1], succeeded=False)
    return plant


def clock_behind() -> Plant:
    """Return one in which it was a day behind: what fell due meanwhile begins when it is right."""
    plant = Plant(faults=[a_clock(-DAY_US)])
    right_us = SET_US + 10 * SECOND_US
    for place, each in enumerate(plant.attempts):
        if SET_US <= each.started_us < right_us + SECOND_US:
            plant.attempts[place] = moved(each, right_us + place * 10_000)
    return plant


def begun_under_clock(accepted_s: float) -> Plant:
    """Return one in which a task began under a clock that is ahead, before those ahead of it, which
    had been accepted for so long.
    """
    plant = clock_ahead()
    at_us = SET_US + SECOND_US // 2
    answered_wall_us = WALL_US + at_us - round(accepted_s * SECOND_US)
    plant.offers[:16] = [
        replace(each, answered_wall_us=answered_wall_us) for each in plant.offers[:16]
    ]
    due_wall_us = plant.offers[16].due_wall_us
    plant.attempts[16] = replace(moved(plant.attempts[16], at_us), started_wall_us=due_wall_us)
    return plant


def without_store(from_s: int, lasts_s: int, harm: Harm = "store") -> Plant:
    """Return one in which there was no store for a time, counted from when all was accepted."""
    from_us = FIRST_DUE_US - 40 * SECOND_US + from_s * SECOND_US
    return Plant(faults=[a_fault(harm=harm, from_us=from_us, lasts_us=lasts_s * SECOND_US)])


def _commanded(word: str, outcome: str, to_us: int = 0) -> Plant:
    """Return one in which a command for the last task was acknowledged, before node 2 began."""
    plant = Plant(begun_us={PIDS[1]: 0, PIDS[2]: _NODE_2_BEGAN_US})
    to_wall_us = WALL_US + to_us if to_us else 0
    plant.commands = [Command(plant.offers[-1].task_id, word, _TOLD_US, outcome, to_wall_us)]
    return plant


def too_late() -> Plant:
    """Return one in which the last task was cancelled too late, and ran."""
    return _commanded("cancel", "too_late")


def cancelled(word: str = "cancel") -> Plant:
    """Return one in which it was cancelled, and did not run."""
    plant = _commanded(word, "applied")
    del plant.attempts[-1]
    return plant


def cancelled_running() -> Plant:
    """Return one in which it was cancelled as it ran, and failed."""
    plant = _commanded("cancel", "running")
    plant.attempts[-1] = replace(plant.attempts[-1], succeeded=False)
    return plant


def rescheduled() -> Plant:
    """Return one in which it was moved, and ran at its new time."""
    plant = _commanded("reschedule", "applied", _MOVED_TO_US)
    late = moved(plant.attempts[-1], _MOVED_TO_US)
    plant.attempts[-1] = replace(late, due_wall_us=WALL_US + _MOVED_TO_US)
    return plant


def told() -> Plant:
    """Return one whose outcomes are in a topic, one of them twice."""
    plant = Plant()
    records = [
        Told(each.task_id, each.ordering_id, "success", 0, place, (each.ended_us or 0) + 1)
        for place, each in enumerate(plant.attempts)
    ]
    plant.told = [*records, replace(records[3], offset=len(records))]
    return plant


def _all(*sows: Sow) -> Sow:
    def sow(plant: Plant) -> None:
        for each in sows:
            each(plant)

    return sow


def _attempt(place: int, **changes: Any) -> Sow:
    def sow(plant: Plant) -> None:
        plant.attempts[place] = replace(plant.attempts[place], **changes)

    return sow


def _offer(place: int, **changes: Any) -> Sow:
    def sow(plant: Plant) -> None:
        plant.offers[place] = replace(plant.offers[place], **changes)

    return sow


def _command(**changes: Any) -> Sow:
    def sow(plant: Plant) -> None:
        plant.commands = [replace(each, **changes) for each in plant.commands]

    return sow


def _record(place: int, **changes: Any) -> Sow:
    def sow(plant: Plant) -> None:
        assert plant.told is not None, "it has a topic of outcomes"
        plant.told[place] = replace(plant.told[place], **changes)

    return sow


def _untold(place: int) -> Sow:
    """Leave a task out of the topic of outcomes."""

    def sow(plant: Plant) -> None:
        assert plant.told is not None, "it has a topic of outcomes"
        del plant.told[place]

    return sow


def _never(place: int) -> Sow:
    return lambda plant: plant.attempts.__delitem__(place)


def _one_more(place: int, *, node: int, **changes: Any) -> Sow:
    """Have a node begin a task in its time, whatever became of it."""
    return lambda plant: plant.attempts.append(
        replace(an_attempt(plant.offers[place], node=node), **changes)
    )


def _again(place: int, *, node: int = 2, after_us: int = 5 * SECOND_US) -> Sow:
    return lambda plant: plant.again(place, node=node, after_us=after_us)


def _early(place: int) -> Sow:
    return _attempt(place, started_wall_us=an_offer(place).due_wall_us - 1)


def _begin(place: int, at_us: int) -> Sow:
    return lambda plant: plant.attempts.__setitem__(place, moved(plant.attempts[place], at_us))


def _overlap(place: int, **changes: Any) -> Sow:
    """Have a task run into the next one; it was accepted too late to be judged by its order."""

    def sow(plant: Plant) -> None:
        _offer(place, answered_wall_us=WALL_US + FIRST_DUE_US)(plant)
        _attempt(place, ended_us=plant.attempts[place + 1].started_us + 1, **changes)(plant)

    return sow


def _crowd(*nodes: int) -> Sow:
    """Have more begin at one moment than a limit and late notes allow."""

    def sow(plant: Plant) -> None:
        for number in range(LIMIT.burst + round(LIMIT.per_s * NOTED_S) + 1):
            limited = replace(an_offer(0), task_id=f"limited-{number}", ordering_id=f"{number}")
            plant.offers.append(replace(limited, partition=None, tenant="first"))
            _one_more(-1, node=nodes[number % len(nodes)])(plant)

    return sow


def _as_it_wakes(place: int, late_us: int) -> Sow:
    """Have node 1 begin a task so soon after it goes on."""
    return _all(_attempt(place, **_OF_NODE_1), _begin(place, _THAWED_US + late_us))


class Planted(NamedTuple):
    """A thing to plant, and the promise that it breaks."""

    promise: str
    """Empty where none is broken."""
    told: str
    """Name of a fault, or what its excuse says."""
    run: Run
    sow: Sow


_TURNED_ROUND = _begin(3, _BEHIND_US)
_LATE_WALL_US = WALL_US + FIRST_DUE_US - 26 * SECOND_US
"""29 s before the task that is turned round is due."""

RIGHT = [
    *(
        Planted("", run.__name__, run, _all())
        for run in (
            *(Plant, killed, killed_at_last, drained, frozen, frozen_at_work, cut_off, taken_over),
            *(begun_late, clock_ahead, clock_behind),
            *(too_late, cancelled, cancelled_running, rescheduled, told),
        )
    ),
    Planted("", "may be stored", Plant, _all(_offer(3, answer="unknown"), _never(3))),
    Planted("", "may be stored, and ran", Plant, _offer(3, answer="unknown")),
    *(
        Planted(
            "", "late", Plant, _all(_offer(each, answered_wall_us=_LATE_WALL_US), _TURNED_ROUND)
        )
        for each in (3, 4)
    ),
    Planted("", "no store", lambda: without_store(1, 15), _TURNED_ROUND),
    Planted("", "late under a clock", lambda: begun_under_clock(20), _all()),
]
EXCUSED = [
    Planted(
        "P1 lost",
        "to be tried again by a wrong clock",
        retried_under_clock,
        _all(),
    ),
    Planted("P5 done again", "running when node 1 (pid 1001) was killed", killed_amid, _all()),
    Planted(
        "P5 done again",
        "not yet durable when node 1 (pid 1001) was killed",
        killed,
        _all(_begin(LAST, STRUCK_US - 20_000), _again(LAST)),
    ),
    Planted(
        "P5 done again",
        "not yet durable",
        lambda: killed_long_after("store"),
        _again(LAST, after_us=30 * SECOND_US),
    ),
    Planted(
        "P3 overlapping",
        "running when node 1 (pid 1001) was frozen",
        frozen,
        _all(
            _attempt(LAST, started_us=STRUCK_US - 5_000, ended_us=_THAWED_US + 5_000),
            _again(LAST, after_us=7 * SECOND_US - 30_000),
        ),
    ),
    Planted(
        "P5 done again",
        "past its drain deadline",
        lambda: drained(gone_s=11),
        _all(_attempt(LAST, ended_us=_THAWED_US + 500_000), _again(LAST, after_us=11 * SECOND_US)),
    ),
    Planted("P5 done again", "when its owner changed in", cut_off, _again(LAST)),
    Planted("P15 behind its fence", "its lease check", frozen, _as_it_wakes(-1, 1_000)),
    Planted("P2 early", "the clock was set back", clock_ahead, _early(15)),
    Planted(
        "P2 early", "the clock was set back", lambda: Plant(faults=[a_clock(-DAY_US)]), _early(5)
    ),
]
FAULTS = [
    Planted(
        "P1 lost",
        "a retry beside the clock of another",
        lambda: retried_under_clock(2),
        _all(),
    ),
    Planted("P1 lost", "accepted and never run", Plant, _never(3)),
    Planted("P1 lost", "never ended well", Plant, _attempt(-1, succeeded=False)),
    Planted("P1 lost", "killed and not repeated", killed_at_last, _attempt(-1, **_CUT_SHORT)),
    Planted("P1 lost", "committed", Plant, _all(_offer(3, answer="committed"), _never(3))),
    Planted("P1 lost", "cancelled too late", too_late, _never(-1)),
    Planted("P1 lost", "moved and run at neither time", rescheduled, _never(-1)),
    Planted("P2 early", "a millionth of a second", Plant, _early(3)),
    Planted("P2 early", "beside the clock of another", lambda: clock_ahead(2), _early(15)),
    Planted("P2 early", "long after a clock was right", clock_ahead, _early(18)),
    Planted("P2 early", "amid a clock's fault", clock_ahead, _early(10)),
    Planted("P3 overlapping", "of one owner", Plant, _overlap(3)),
    Planted("P3 overlapping", "of two owners", taken_over, _overlap(3)),
    Planted("P3 overlapping", "before the drain deadline", drained, _overlap(LAST)),
    Planted("P4 out of order", "turned round", Plant, _TURNED_ROUND),
    Planted("P4 out of order", "read before the first start", begun_late, _TURNED_ROUND),
    Planted("P4 out of order", "a short outage", lambda: without_store(1, 5), _TURNED_ROUND),
    Planted("P4 out of order", "an outage later", lambda: without_store(43, 15), _TURNED_ROUND),
    Planted("P4 out of order", "a replica", lambda: without_store(1, 15, "replica"), _TURNED_ROUND),
    Planted("P4 out of order", "under a clock", lambda: begun_under_clock(40), _all()),
    Planted(
        "P4 out of order",
        "a retry",
        Plant,
        _all(_attempt(3, succeeded=False), _again(3, node=1, after_us=1_100_000)),
    ),
    Planted("P4 out of order", "a repetition", killed_amid, _begin(-1, STRUCK_US + 7_105_000)),
    Planted("P5 done again", "on its node", Plant, _again(19, node=1)),
    Planted("P5 done again", "on another node", Plant, _again(19)),
    Planted("P5 done again", "not the last of its id", killed, _again(8, after_us=6 * SECOND_US)),
    Planted("P5 done again", "after a graceful stop", drained, _again(LAST)),
    Planted("P5 done again", "by one owner", frozen, _again(LAST, node=1, after_us=100_000)),
    Planted(
        "P5 done again",
        "long durable",
        lambda: killed_long_after("replica"),
        _again(LAST, after_us=30 * SECOND_US),
    ),
    Planted("P5 done again", "before a cut", cut_off, _again(LAST - 2, after_us=9 * SECOND_US)),
    Planted(
        "P5 done again", "twice", killed_at_last, _all(_again(19), _again(19, after_us=_NEXT_US))
    ),
    Planted("P6 revived", "cancelled", cancelled, _one_more(-1, node=2)),
    Planted("P6 revived", "dropped", lambda: cancelled("drop"), _one_more(-1, node=2)),
    Planted("P6 revived", "cancelled as it ran", cancelled_running, _again(-1)),
    Planted(
        "P6 revived", "moved", rescheduled, _one_more(-1, node=1, pid=PIDS[2], succeeded=False)
    ),
    Planted("P12 unreported", "nothing is told", too_late, _command(outcome="")),
    Planted("P12 unreported", "no task is known", too_late, _command(outcome="unknown_key")),
    Planted(
        "P14 unended",
        "its process lives",
        Plant,
        _all(_offer(-1, answer="unknown"), _attempt(-1, **_CUT_SHORT)),
    ),
    Planted("P15 behind its fence", "with no fault", taken_over, _attempt(9, fence=1, node=1)),
    Planted("P15 behind its fence", "after a cut", cut_off, _attempt(-1, fence=1, pid=PIDS[1])),
    Planted(
        "P15 behind its fence",
        "second as its node wakes",
        frozen,
        _all(_as_it_wakes(-2, 1_000), _as_it_wakes(-1, 20_000)),
    ),
    Planted("P24 beyond a limit", "on one node", Plant, _crowd(1)),
    Planted("P24 beyond a limit", "on two, which keep it each", Plant, _crowd(1, 2)),
    Planted(
        "P25 uninvited",
        "never offered",
        Plant,
        _one_more(-1, node=1, task_id="other", ordering_id="other"),
    ),
    Planted("P25 uninvited", "refused", Plant, _offer(5, answer="refused")),
    Planted("P25 uninvited", "rolled back", Plant, _offer(5, answer="withdrawn")),
    Planted(
        "P25 uninvited",
        "at another time",
        Plant,
        _all(
            _offer(-1, due_wall_us=WALL_US + 120 * SECOND_US),
            _attempt(-1, succeeded=False),
            _one_more(-1, node=1),
        ),
    ),
    Planted("P25 uninvited", "for another id", Plant, _attempt(5, ordering_id="other")),
    Planted("P26 beside a process", "ended late", Plant, _overlap(3, process=77)),
    Planted(
        "P26 beside a process",
        "killed late",
        killed_amid,
        _attempt(LAST, process=77, alive_us=STRUCK_US + _NEXT_US),
    ),
    Planted(
        "P26 beside a process",
        "while its node stands still",
        frozen_at_work,
        _attempt(LAST, alive_us=STRUCK_US + _NEXT_US),
    ),
    Planted("P30 untold", "a task without a record", told, _untold(5)),
    Planted("P30 told untruly", "another result", told, _record(5, result="failure")),
    Planted("P30 told untruly", "before its end", told, _record(5, at_us=FIRST_DUE_US)),
    Planted(
        "P30 told out of order",
        "by one owner",
        told,
        _all(_record(4, offset=5), _record(5, offset=4)),
    ),
]
