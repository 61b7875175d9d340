"""The search behind rows that flows left: how much it may take, and how far it goes."""

from itertools import pairwise

import pytest

from actors.model.backlog import ORDERING_ID_BYTES
from actors.model.backlog_search import (
    FLOW_SHARE,
    FLOW_TASKS_MIN,
    SEARCH_AHEAD_MS,
    SEARCH_SHARE,
    BacklogSearch,
    FlowRoom,
    refill_share,
)
from actors.model.budget import NodeBudget
from actors.model.key import first_key_at
from actors.model.task import StoredTask
from tests.builders import NOW_MS
from tests.unit.actors.model.test_flow_queues import RULES, task

AFTER = first_key_at(NOW_MS - 1_000)
BIG = [task(number - 900, tenant="big") for number in range(10)]
ROOMY = 1_000_000


def room(tasks: int, size_bytes: int = ROOMY, *, share: float = 0.5, **held: int) -> FlowRoom:
    """Return room for tasks beside those that tenants hold."""
    slots = NodeBudget().begin(0, has_flows=True)
    for tenant, number in held.items():
        slots.wait_in(f"mail {tenant}", number, 100 * number)
    return FlowRoom(RULES, slots, tasks + slots.flow_tasks, size_bytes, share)


def taken(room: FlowRoom, *tasks: StoredTask) -> int:
    """Return how many of these get room."""
    return sum(1 for each in tasks if not room.is_full and room.take(each))


def test_a_flow_takes_rows_while_it_holds_less_than_is_free() -> None:
    """So that one alone leaves half, and two a third."""
    assert taken(room(8), *BIG) == 4
    assert taken(room(8, big=2), *BIG) == 3
    assert taken(room(4, big=4), *BIG) == 0
    assert taken(room(4, big=4), task(-1)) == 1


def test_a_flow_that_holds_few_takes_rows_until_memory_is_full() -> None:
    """What it left would wait for the whole backlog, as there was no room for a moment."""
    assert taken(room(2, big=20), task(-2), task(-1)) == 2
    assert taken(room(20, big=20 * FLOW_SHARE, small=20), task(-2), task(-1)) == 1


def test_a_flow_takes_no_more_bytes_than_are_free() -> None:
    """However few tasks hold them."""
    assert taken(room(8, 100, big=1), *BIG) == 0


def test_a_flow_that_had_enough_gets_nothing_more_of_a_page() -> None:
    """Some of it leaves memory while the page is read, of which rows were passed over (P4)."""
    slots = NodeBudget().begin(0, has_flows=True)
    slots.wait_in("mail big", 4, 400)
    page = FlowRoom(RULES, slots, 8, ROOMY, 0.5)

    had_enough = page.has_enough(BIG[0])
    slots.wait_in("mail big", -4, -400)

    assert had_enough and taken(page, *BIG) == 0
    assert taken(FlowRoom(RULES, slots, 8, ROOMY, 0.5), *BIG) == FLOW_TASKS_MIN


def test_nobody_takes_anything_where_nothing_is_free() -> None:
    """The page ends there."""
    assert room(0).is_full and room(5, 0).is_full and not room(1, 1).is_full


@pytest.mark.parametrize(("share", "free"), [(0.5, 12), (0.75, 8), (0.25, 24)])
def test_a_flow_goes_on_when_it_holds_a_share_of_what_is_free(share: float, free: int) -> None:
    """A row for each place that gets free would cost a page each."""
    search = BacklogSearch(AFTER)
    search.checkpoint.begin_load()
    search.take_first(AFTER, BIG, BIG[-1].key, room(8))

    assert search.is_held_up(room(free - 1, big=6, share=share))
    assert not search.is_held_up(room(free, big=6, share=share))


@pytest.mark.parametrize("partitions", [2, 16, 100])
def test_partitions_load_what_a_flow_left_one_after_another(partitions: int) -> None:
    """With one share for all, small flows would wait for all partitions' pages at once."""
    shares = sorted(refill_share(partition) for partition in range(partitions))

    assert shares[0] >= 0.25 and shares[-1] < 0.75
    gaps = [later - earlier for earlier, later in pairwise(shares)]
    assert min(gaps) > 0.5 / partitions / 3


def test_a_page_ends_where_there_is_no_room_for_anybody() -> None:
    """What lies behind is read later, and not left by its flow."""
    rows = [task(number - 900, tenant=f"of-{number}") for number in range(4)]
    search = BacklogSearch(AFTER)
    search.checkpoint.begin_load()

    picked = search.take_first(AFTER, rows, rows[-1].key, room(2))

    assert picked.tasks == rows[:2] and picked.reached == picked.gap == rows[1].key
    assert len(search) == 0


def test_what_is_left_is_counted_until_all_before_is_read() -> None:
    """Each ordering id once."""
    search = BacklogSearch(AFTER)
    search.checkpoint.begin_load()
    search.take_first(AFTER, BIG, BIG[-1].key, room(8))
    left_bytes = search.size_bytes

    search.checkpoint.begin_load()
    search.take_first(BIG[3].key, BIG[4:], BIG[-1].key, room(100))

    assert left_bytes == sum(ORDERING_ID_BYTES + len(row.key.ordering_id) for row in BIG[4:])
    assert (len(search), search.size_bytes) == (0, 0)


def test_p8_what_left_memory_of_an_id_with_left_rows_does_not_count_as_found() -> None:
    """However far the search goes on behind it."""
    ours = task(-950, ordering_id="both")
    left = task(-850, tenant="big", ordering_id="both")
    search = BacklogSearch(AFTER)
    search.checkpoint.begin_load()
    search.take_first(AFTER, [ours, *BIG, left], left.key, room(8))
    before = search.has_in_memory(ours.key), search.has_in_memory(left.key)

    search.lower(first_key_at(ours.key.scheduled_ms))
    after = search.checkpoint.begin_load()
    search.take_behind(after, [], left.key, room(8))

    assert before == (True, False) and not search.has_in_memory(ours.key)


def test_p13_it_goes_no_further_than_ids_may_be_kept() -> None:
    """Nor where only a little has fallen due since."""
    search = BacklogSearch(AFTER)
    search.checkpoint.begin_load()
    search.take_first(AFTER, BIG, BIG[-1].key, room(8))
    enough, before_ms = SEARCH_SHARE * (search.size_bytes + 1), NOW_MS + SEARCH_AHEAD_MS

    assert search.may_go_on(before_ms, enough)
    assert not search.may_go_on(before_ms, SEARCH_SHARE * search.size_bytes)
    assert not search.may_go_on(BIG[-1].key.scheduled_ms + SEARCH_AHEAD_MS // 2, enough)
