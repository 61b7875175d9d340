"""The checker of limits finds what is planted, and excuses what promise P24 names alone."""

from collections.abc import Sequence
from dataclasses import replace

from tests.judge.causes import Rules
from tests.judge.history import SECOND_US, Attempt, Fault, History, Offer
from tests.judge.limits import NOTED_S, beyond_limit, most_within
from tests.judge.planted import LIMIT, PIDS, WALL_US, a_fault, an_attempt, an_offer
from tests.judge.view import View

PER_S, BURST = LIMIT.per_s, LIMIT.burst
TASKS = 200
INTERVAL_US = SECOND_US // PER_S + 1
NOTED = int(PER_S * NOTED_S)
MIDDLE_US = 103 * SECOND_US


def an_offer_under_the_limit(number: int) -> Offer:
    """Return the ``number``-th task, of one of two ordering ids that lie in two partitions."""
    place = number % 2
    offer = replace(an_offer(number), ordering_id=f"id-{place}", partition=place)
    return replace(offer, work="limited", tenant="first", due_wall_us=WALL_US + 100 * SECOND_US)


OFFERS = [an_offer_under_the_limit(number) for number in range(TASKS)]


def a_start(number: int, at_us: int, node: int = 1, fence: int = 1) -> Attempt:
    """Return an attempt of a task that begins at a moment."""
    attempt = replace(an_attempt(OFFERS[number], node=node), fence=fence)
    return replace(attempt, started_us=at_us, ended_us=at_us + 1)


def at_the_limit(count: int = TASKS, node: int = 1, fence: int = 1) -> list[Attempt]:
    """Return starts that use a burst, and then all that the rate allows."""
    return [
        a_start(number, 100 * SECOND_US + max(0, number + 1 - BURST) * INTERVAL_US, node, fence)
        for number in range(count)
    ]


def crowded(attempts: Sequence[Attempt], count: int) -> list[Attempt]:
    """Have so many more begin at one moment in the middle."""
    extra = [a_start(TASKS - 1 - number, MIDDLE_US) for number in range(count)]
    return [*attempts, *extra]


def causes(
    attempts: Sequence[Attempt],
    faults: Sequence[Fault] = (),
    offers: Sequence[Offer] = tuple(OFFERS),
) -> list[str | None]:
    """Return what the checker finds: None for what nothing excuses."""
    history = History(offers, attempts, faults, WALL_US, limit=LIMIT)
    return [finding.cause for finding in beyond_limit(View(history, Rules()))]


def test_a_limit_that_is_used_up_is_kept() -> None:
    """And a note that comes a little late is no start beyond it."""
    attempts = at_the_limit()
    assert causes(attempts) == []
    assert causes(crowded(attempts, NOTED)) == []
    assert causes(crowded(attempts, NOTED + 1)) == [None]
    assert most_within(attempts, 5.0) == BURST + 5 * PER_S - 1


def test_other_tenants_have_limits_of_their_own() -> None:
    """What two of them start counts to neither's."""
    offers = [replace(each, tenant=f"{n % 2}") for n, each in enumerate(OFFERS)]
    starts = [a_start(number, MIDDLE_US) for number in range(2 * BURST)]
    assert causes(starts, offers=offers) == []
    assert causes(starts[: BURST + NOTED + 1]) == [None]


def taken_over(attempts: Sequence[Attempt], from_us: int) -> list[Attempt]:
    """Have node 2 run what one partition begins from some moment on, under the next fence."""
    return [
        replace(each, node=2, pid=PIDS[2], fence=2)
        if each.started_us > from_us and each.ordering_id == "id-1"
        else each
        for each in attempts
    ]


def beside(count: int, node: int = 1, at_us: int = MIDDLE_US) -> list[Attempt]:
    """Return what a node begins of the other partition, all at once."""
    starts = [a_start(2 * number, at_us, node) for number in range(count)]
    return [each for each in starts if each.ordering_id == "id-0"]


def test_what_a_node_had_let_through_when_it_lost_partitions_is_excused() -> None:
    """A burst of it at most, begun by the node that lost them, and soon after."""
    lost = taken_over(at_the_limit(), MIDDLE_US - 3 * INTERVAL_US)

    found = causes([*lost, *beside(BURST // 2 + NOTED)])
    assert found and None not in found
    assert None in causes([*lost, *beside(2 * BURST + NOTED)])
    assert None in causes([*lost, *beside(BURST // 2 + NOTED, node=2)])


def test_what_begins_long_after_a_loss_is_not_excused() -> None:
    """What was let through begins soon, or never."""
    lost_us = MIDDLE_US - 3 * INTERVAL_US
    lost = taken_over(at_the_limit(), lost_us)
    others = [each for each in lost if each.node == 2 or each.started_us <= lost_us]
    one_more = BURST + NOTED + 1

    assert None not in causes([*others, *beside(one_more)])
    assert causes([*others, *beside(one_more, at_us=MIDDLE_US + 2_500_000)]) == [None]


def test_what_a_frozen_node_begins_as_it_goes_on_is_excused() -> None:
    """Another node has no such excuse, nor has one that was killed."""
    from_us = MIDDLE_US - 20_000
    frozen, killed = (
        a_fault(how, from_us=from_us, lasts_us=10_000) for how in ("frozen", "killed")
    )
    crowd = [*at_the_limit(), *beside(BURST // 2 + NOTED)]

    found = causes(crowd, [frozen])
    assert found and None not in found
    assert None in causes(crowd, [killed])
    assert None in causes([*at_the_limit(), *beside(BURST // 2 + NOTED, node=2)], [frozen])
