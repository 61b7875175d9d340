"""The budget of a node, and what its partitions may hold of it."""

from actors.model.memory import COMPLETIONS_BYTES_MIN, PAGE_BYTES_MAX, NodeMemory
from actors.model.settings import WindowSettings


def test_partitions_share_the_windows_half_equally() -> None:
    """One that ends leaves its share to the others; a successor of its number keeps its own."""
    memory = NodeMemory(1_000)
    first = memory.begin(0)
    alone = first.share_bytes
    second = memory.begin(1)
    both = first.share_bytes
    third = memory.begin(0)
    first.end()

    assert (alone, both, third.share_bytes) == (500, 250, 250)
    second.end()
    assert third.share_bytes == 500


def test_room_is_what_is_left_and_a_page_has_at_least_one_row() -> None:
    """Also where a task larger than the share is held."""
    memory = NodeMemory(1_000)
    window = memory.begin(0)
    assert (window.held_bytes, memory.held_bytes) == (0, 0)
    window.waiting_bytes, window.executing_bytes, memory.polled_bytes = 100, 300, 7

    assert (window.room_bytes, window.page_bytes(), window.page_bytes(4)) == (100, 100, 25)
    assert memory.held_bytes == 407
    window.executing_bytes = 4_000
    assert (window.room_bytes, window.page_bytes()) == (-3_600, 1)
    assert NodeMemory(1 << 40).begin(0).page_bytes() == PAGE_BYTES_MAX


def test_known_completions_have_a_quarter_in_equal_shares() -> None:
    """Of all partitions of the topic; a few each may always know."""
    assert NodeMemory(8_000_000).completions_bytes_max(4) == 500_000
    assert NodeMemory(8_000_000).completions_bytes_max(400) == COMPLETIONS_BYTES_MIN


def test_p7_an_ordering_id_may_keep_half_of_the_slots_that_are_free() -> None:
    """Or what the setting says, where that is more; nothing above it where bytes are short."""
    window = NodeMemory(1_000).begin(0)
    settings = WindowSettings(ordering_queue_tasks_max=10, executing_tasks_max=100)
    limits = []
    for taken in (0, 50, 90, 110):
        window.slots_taken = taken
        limits.append(window.queue_tasks_max(settings))
    window.slots_taken = 0
    for held_bytes in (250, 251):
        window.executing_bytes = held_bytes
        limits.append(window.queue_tasks_max(settings))

    assert limits == [50, 25, 10, 10, 50, 10]
