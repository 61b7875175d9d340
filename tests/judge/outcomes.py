"""Checkers of the topic of outcomes: each task that ended well is told, truly, and in order (P30).

A record may come again: it is told at least once.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.judge.asked import TAKEN
from tests.judge.causes import NEVER_US
from tests.judge.history import Told
from tests.judge.view import Finding, View, told_offer


def missing(view: View) -> Iterator[Finding]:
    """P30: a task that ended well has no record."""
    untold = view.done_us.keys() - {each.task_id for each in view.history.told or ()}
    for offer in view.offers.values():
        if offer.answer in TAKEN and offer.task_id in untold:
            yield Finding(told_offer(offer))


def untrue(view: View) -> Iterator[Finding]:
    """P30: a record has another result, or was read before any attempt had ended well."""
    for each in view.history.told or ():
        if each.result != "success" or each.at_us < view.done_us.get(each.task_id, NEVER_US):
            yield Finding(f"{each.result} of {each.task_id} of {each.ordering_id} at {each.at_us}")


def told_out_of_order(view: View) -> Iterator[Finding]:
    """P30: one owner ended two tasks of an ordering id in another order than they are told.

    A task that ended well more than once is not judged: nobody knows which end is told.
    """
    first: dict[str, Told] = {}
    for each in view.history.told or ():
        first.setdefault(each.task_id, each)
    of_owner: dict[tuple[str, int, int], list[tuple[Told, int]]] = defaultdict(list)
    for each in first.values():
        ends = [one for one in view.by_task.get(each.task_id, ()) if one.succeeded]
        if len(ends) == 1 and ends[0].ended_us is not None:
            owner = each.ordering_id, ends[0].pid, ends[0].fence
            of_owner[owner].append((each, ends[0].ended_us))
    for found in of_owner.values():
        found.sort(key=lambda pair: pair[0].offset)
        for (one, one_us), (other, other_us) in pairwise(found):
            if other_us < one_us:
                yield Finding(f"{one.task_id} before {other.task_id} of {one.ordering_id}")
