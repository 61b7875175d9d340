"""Histories of tests: a run in which all is well, and what single things are changed into.

Node 1 owns the only partition under fence 1 until it is struck; node 2 follows under fence 2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.judge.causes import Rules
from tests.judge.history import (
    SECOND_US,
    Attempt,
    Blow,
    Command,
    Fault,
    Harm,
    History,
    How,
    Limit,
    Offer,
    Told,
)
from tests.judge.recount import recount

WALL_US = 1_700_000_000 * SECOND_US
"""Wall time at which the boot clock shows zero."""
FIRST_DUE_US = 100 * SECOND_US
STRUCK_US = 110 * SECOND_US
SET_US = FIRST_DUE_US + 5 * SECOND_US
DAY_US = 86_400 * SECOND_US
PIDS = {1: 1001, 2: 1002}
LIMIT = Limit(per_s=30, burst=16)


def an_offer(number: int, *, accepted_s_before: float = 40.0) -> Offer:
    """Return the ``number``-th task of one ordering id, due a second after the one before."""
    due_wall_us = WALL_US + FIRST_DUE_US + number * SECOND_US
    return Offer(
        task_id=f"task-{number:02}",
        ordering_id="id",
        due_wall_us=due_wall_us,
        work="plain",
        answer="accepted",
        answered_wall_us=round(WALL_US + FIRST_DUE_US - accepted_s_before * SECOND_US),
        partition=0,
    )


def an_attempt(offer: Offer, *, node: int = 1, late_us: int = 2_000) -> Attempt:
    """Return an attempt that begins a little after the task is due, and soon ends well."""
    started_us = offer.due_wall_us - WALL_US + late_us
    return Attempt(
        task_id=offer.task_id,
        ordering_id=offer.ordering_id,
        due_wall_us=offer.due_wall_us,
        number=1,
        fence=node,
        node=node,
        pid=PIDS[node],
        thread=PIDS[node],
        started_wall_us=WALL_US + started_us,
        started_us=started_us,
        ended_us=started_us + 5_000,
        succeeded=True,
    )


def moved(attempt: Attempt, to_us: int) -> Attempt:
    """Return an attempt that begins at another moment, and takes as long."""
    by_us = to_us - attempt.started_us
    return replace(
        attempt,
        started_us=to_us,
        started_wall_us=attempt.started_wall_us + by_us,
        ended_us=None if attempt.ended_us is None else attempt.ended_us + by_us,
    )


def a_fault(
    how: How | None = None,
    *,
    harm: Harm = "nodes",
    from_us: int = STRUCK_US,
    lasts_us: int = 10 * SECOND_US,
) -> Fault:
    """Return a fault, with a blow to node 1 where ``how`` says so."""
    to_us = from_us + lasts_us
    gone_us = to_us if how == "frozen" else from_us + 1_000
    blows = () if how is None else (Blow(how, 1, PIDS[1], from_us, from_us + 1_000, gone_us),)
    return Fault(1, "a fault", "something", harm, from_us, to_us, to_us, blows)


def a_clock(ahead_us: int, node: int = 1) -> Fault:
    """Return a clock of a node that is wrong for ten seconds."""
    fault = a_fault(harm="clock", from_us=SET_US)
    return replace(fault, pid=PIDS[node], ahead_us=ahead_us, met=1)


@dataclass
class Plant:
    """A history to plant things in."""

    offers: list[Offer] = field(default_factory=lambda: [an_offer(each) for each in range(20)])
    attempts: list[Attempt] = field(default_factory=list)
    faults: Sequence[Fault] = ()
    commands: Sequence[Command] = ()
    begun_us: Mapping[int, int] = field(default_factory=dict)
    told: list[Told] | None = None

    def __post_init__(self) -> None:
        self.attempts = self.attempts or [an_attempt(offer) for offer in self.offers]

    def handed_over(self, fault: Fault, after_us: int = 7 * SECOND_US) -> "Plant":
        """Have node 2 run what node 1 had not begun when it was struck."""
        self.faults = [fault]
        taken_us = fault.from_us + after_us
        for place, each in enumerate(self.attempts):
            if each.started_us >= fault.from_us:
                other = an_attempt(self.offers[place], node=2)
                late_us = max(other.started_us, taken_us + place * 10_000)
                self.attempts[place] = moved(other, late_us)
        return self

    def again(self, place: int, *, node: int = 2, after_us: int = 5 * SECOND_US) -> None:
        """Plant a repetition of an attempt, so long after it."""
        first = self.attempts[place]
        other = an_attempt(self.offers[place], node=node)
        self.attempts.append(moved(other, first.started_us + after_us))

    @property
    def history(self) -> History:
        """Return the history for the judge."""
        known = self.offers, self.attempts, self.faults, WALL_US
        return History(*known, self.commands, self.begun_us, LIMIT, self.told)


def violations(plant: Plant) -> dict[str, int]:
    """Return how many violations of each kind are found, none left out."""
    findings = recount(plant.history, Rules())
    counted = {kind: len(findings.violations(kind)) for kind in findings.by_kind}
    return {kind: count for kind, count in counted.items() if count}


def excuses(plant: Plant) -> dict[str, list[str]]:
    """Return the causes of what is excused."""
    findings = recount(plant.history, Rules())
    causes = {
        kind: [str(each.cause) for each in findings.excused(kind)] for kind in findings.by_kind
    }
    return {kind: found for kind, found in causes.items() if found}
