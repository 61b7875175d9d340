"""The checker of P24: starts of tasks under a limit, in the whole cluster.

Beside the limit it lets pass what P24 names and no more: what a node had let through when it lost
partitions, or when it was frozen, at most a burst.  It judges limits of which a share still has a
burst of 1 and a start within a second: P24 then adds nothing for the number of nodes, or for those
that gain partitions.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.judge.history import SECOND_US, Attempt, History, Limit
from tests.judge.view import Finding, View

NOTED_S = 0.5
"""Starts are noted up to so long after they count: a time of notes may hold that much more."""
BEGINS_US = 2 * SECOND_US
"""Time after the next owner's first start in which attempts begin that a node had let through."""
BESIDE_US = 30 * SECOND_US
"""A node lets a burst through once in this time at most, as far as it is not counted."""


_Losses = Mapping[int, Sequence[tuple[int, int]]]
"""Process to each time in which it may begin what it had let through beside the limit."""


@dataclass(frozen=True, slots=True)
class _Crowd:
    """More starts than the limit allows in their time."""

    starts: int
    first_us: int
    last_us: int

    def told(self, tenant: str, limit: Limit) -> str:
        """Say what was seen, and what is allowed."""
        seconds = (self.last_us - self.first_us) / SECOND_US
        allowed = limit.burst + limit.per_s * (seconds + NOTED_S)
        return f"{self.starts} starts of {tenant} in {seconds:.3f} s, {allowed:.1f} are allowed"


def beyond_limit(view: View) -> Iterator[Finding]:
    """P24: more attempts of a tenant began in some time than the limit allows."""
    limit = view.history.limit
    assert limit is not None, "this history has no limit"
    losses = _losses(view)
    for tenant, starts in starts_by_tenant(view.history).items():
        beyond = list(_crowds(_counted(starts, losses, limit), limit))
        yield from (Finding(crowd.told(tenant, limit)) for crowd in beyond)
        if not beyond:
            cause = "let through before its node lost partitions or was frozen"
            crowds = _crowds(starts, limit)
            yield from (Finding(crowd.told(tenant, limit), cause) for crowd in crowds)


def starts_by_tenant(history: History) -> Mapping[str, Sequence[Attempt]]:
    """Return the attempts under the limit, in the order of their starts."""
    tenants = {offer.task_id: offer.tenant for offer in history.offers if offer.tenant}
    found: dict[str, list[Attempt]] = defaultdict(list)
    for each in sorted(history.attempts, key=lambda attempt: attempt.started_us):
        if each.task_id in tenants:
            found[tenants[each.task_id]].append(each)
    return found


def most_within(starts: Sequence[Attempt], seconds: float) -> int:
    """Return how many of these began within such a time, at most."""
    moments = [each.started_us for each in starts]
    until_us = round(seconds * SECOND_US)
    counts = (bisect_right(moments, at + until_us) - place for place, at in enumerate(moments))
    return max(counts, default=0)


def _crowds(starts: Sequence[Attempt], limit: Limit) -> Iterator[_Crowd]:
    """Look at every time from one start to another one; begin again after one that is too full."""
    first_place, least = 0, 0.0
    for place, last in enumerate(starts):
        # Contents of a bucket without a floor: the fullest time begins where it held least.
        level = place - limit.per_s * last.started_us / SECOND_US
        if place == first_place or level < least:
            first_place, least = place, level
        if level + 1 - least > limit.burst + limit.per_s * NOTED_S:
            first_us = starts[first_place].started_us
            yield _Crowd(place - first_place + 1, first_us, last.started_us)
            first_place = place + 1


def _counted(starts: Sequence[Attempt], losses: _Losses, limit: Limit) -> list[Attempt]:
    """Leave out what began beside the limit: of each process at most a burst at a time."""
    beside: dict[int, list[int]] = defaultdict(list)
    counted = []
    for each in starts:
        at_us = each.started_us
        lost = any(from_us < at_us <= to_us for from_us, to_us in losses.get(each.pid, ()))
        mine = beside[each.pid]
        before_us = mine[-limit.burst] if len(mine) >= limit.burst else -BESIDE_US
        if lost and at_us - before_us > BESIDE_US:
            mine.append(at_us)
        else:
            counted.append(each)
    return counted


def _losses(view: View) -> _Losses:
    """Return every loss of partitions.

    Only the engine knows its moment: it lies between the last start of one owner and the first of
    the next.
    """
    owners: dict[int, Attempt] = {}
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for each in view.attempts:
        partition = view.partitions.get(each.ordering_id)
        if partition is None:
            continue
        before = owners.setdefault(partition, each)
        if each.fence >= before.fence:
            owners[partition] = each
        if each.fence > before.fence and each.pid != before.pid:
            found[before.pid].append((before.started_us, each.started_us + BEGINS_US))
    for fault in view.history.faults:
        for blow in fault.blows:
            if blow.how == "frozen":
                found[blow.pid].append((blow.from_us, blow.to_us + SECOND_US))
    return found
