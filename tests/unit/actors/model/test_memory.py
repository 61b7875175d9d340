"""The budget of a node, and what its partitions may hold of it."""

from actors.model.memory import COMPLETIONS_BYTES_MIN, PAGE_BYTES_MAX, NodeMemory


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
