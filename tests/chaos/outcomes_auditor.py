"""Compares the topic of outcomes with the tasks that ran: each is told, truly, and in order (P30).

A record may come again: it is told at least once.  Imports nothing of the engine.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from tests.chaos.auditor import Finding
from tests.chaos.history import Attempt, History, Told


def audit_outcomes(history: History) -> dict[str, list[Finding]]:
    """Return what the topic leaves out, tells wrongly, or tells the other way round."""
    first: dict[str, Told] = {}
    for told in history.told:
        first.setdefault(told.task_id, told)
    ends: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in history.attempts:
        if attempt.succeeded:
            ends[attempt.task_id].append(attempt)
    return {
        "outcomes: missing": list(_missing(history, first, ends)),
        "outcomes: untrue": list(_untrue(history.told, ends)),
        "outcomes: out of order": list(_disorder(first, ends)),
    }


def _missing(
    history: History, first: Mapping[str, Told], ends: Mapping[str, Sequence[Attempt]]
) -> Iterator[Finding]:
    for offer in history.offers:
        if offer.answer == "accepted" and offer.task_id in ends and offer.task_id not in first:
            yield Finding(f"{offer.task_id} of {offer.ordering_id} (partition {offer.partition})")


def _untrue(told: Sequence[Told], ends: Mapping[str, Sequence[Attempt]]) -> Iterator[Finding]:
    """Find records of another result, or read before any attempt had ended well."""
    for each in told:
        ended_us = [end.ended_us for end in ends.get(each.task_id, ()) if end.ended_us is not None]
        if each.result != "success" or min(ended_us, default=each.at_us + 1) > each.at_us:
            yield Finding(f"{each.result} of {each.task_id} of {each.ordering_id} at {each.at_us}")


def _disorder(
    first: Mapping[str, Told], ends: Mapping[str, Sequence[Attempt]]
) -> Iterator[Finding]:
    """Find tasks of an ordering id that one owner ended in another order.

    A task that ended well more than once is not judged: nobody knows which end is told.
    """
    of_owner: dict[tuple[str, int, int], list[tuple[Told, int]]] = defaultdict(list)
    for told in first.values():
        made = ends.get(told.task_id, ())
        if len(made) == 1 and made[0].ended_us is not None:
            owner = told.ordering_id, made[0].pid, made[0].fence
            of_owner[owner].append((told, made[0].ended_us))
    for found in of_owner.values():
        found.sort(key=lambda pair: pair[0].offset)
        for (one, one_us), (other, other_us) in pairwise(found):
            if other_us < one_us:
                yield Finding(f"{one.task_id} before {other.task_id} of {one.ordering_id}")
