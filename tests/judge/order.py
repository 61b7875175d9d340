"""The checker of P4: tasks of one ordering id run in key order.

A pair is judged where both were accepted long enough before the first of them fell due, or before
the process began that started the second.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.judge.causes import NEVER_US
from tests.judge.history import SECOND_US, Attempt, Offer
from tests.judge.view import Finding, View, told, told_offer

Key = tuple[int, str]
"""Time and uniqueness key: how tasks of one ordering id are ordered."""


def out_of_order(view: View) -> Iterator[Finding]:
    """P4: a task began before an earlier one of its ordering id was done.

    A task that a command was sent for has no time of its own, and is not judged.
    """
    by_id: dict[str, list[Offer]] = defaultdict(list)
    for offer in view.offers.values():
        if offer.task_id in view.by_task and offer.task_id not in view.commands:
            by_id[offer.ordering_id].append(offer)
    for offers in by_id.values():
        offers.sort(key=_key)
        pairs = {**_began_before_done(view, offers), **_turned_round(view, offers)}
        for (earlier, later), how in pairs.items():
            if _is_judged(view, view.offers[earlier], view.offers[later]):
                yield Finding(
                    f"{told(view.by_task[later][0])} before {told_offer(view.offers[earlier])}"
                    f" {how}"
                )


def _key(task: Attempt | Offer) -> Key:
    return task.due_wall_us, task.task_id


def _began_before_done(view: View, ascending: Sequence[Offer]) -> dict[tuple[str, str], str]:
    pairs = {}
    done: list[tuple[int, str]] = []
    """When the tasks so far were done, in that order."""
    for later in ascending:
        began_us = view.by_task[later.task_id][0].started_us
        for _, earlier in done[bisect_left(done, (began_us + 1, "")) :]:
            pairs[earlier, later.task_id] = "was done"
        insort(done, (view.done_us.get(later.task_id, NEVER_US), later.task_id))
    return pairs


def _turned_round(view: View, offers: Sequence[Offer]) -> dict[tuple[str, str], str]:
    """Find what one owner began in the wrong order, repetitions included."""
    pairs = {}
    known = {offer.task_id for offer in offers}
    begun: dict[int, list[Key]] = defaultdict(list)
    """The keys that each fence has begun so far, in order."""
    for each in view.by_id[offers[0].ordering_id]:
        if each.task_id in known:
            keys = begun[each.fence]
            for _, other in keys[bisect_left(keys, (each.due_wall_us, each.task_id + "\0")) :]:
                pairs[each.task_id, other] = "was begun by the same owner"
            insort(keys, _key(each))
    return pairs


def _is_judged(view: View, earlier: Offer, later: Offer) -> bool:
    """True if both were surely stored before the first was due, or read before the later began.

    Under a clock that is ahead they are due when they begin.
    """
    offset_us = view.history.wall_minus_boot_us
    due_us = earlier.due_wall_us - offset_us
    before, behind = view.by_task[earlier.task_id], view.by_task[later.task_id]
    for attempt in (*before, *behind):
        if view.causes.clock_of(attempt):
            due_us = min(due_us, attempt.started_us)
    lead_us = round(view.rules.order_lead_s * SECOND_US)
    read_us = view.history.begun_us.get(behind[0].pid, -NEVER_US)
    for each in (earlier, later):
        at_us = each.answered_wall_us - offset_us
        in_time = at_us < read_us or view.causes.with_store_us(at_us, due_us) >= lead_us
        if each.answer != "accepted" or not in_time:
            return False
    return True
