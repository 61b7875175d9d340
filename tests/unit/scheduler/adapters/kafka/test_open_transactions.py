"""A partition that ends for its readers before its log does is told, once that has lasted."""

from hourhand.scheduler.adapters.kafka.open_transactions import LOOK_MS, OpenTransactions

ENDS: dict[int, int | None] = {0: 10, 1: 10, 2: None}


def _looked(open_ones: OpenTransactions, ends: dict[int, int], looks: int) -> list[list[int]]:
    told = []
    for number in range(looks):
        open_ones.look(ends, float(number * LOOK_MS))
        told.append(sorted(open_ones.waiting))
    return told


def test_only_what_stands_still_for_long_below_its_end_is_told() -> None:
    """With both offsets; where nobody knows the end, nothing is told."""
    open_ones = OpenTransactions(ENDS.get)

    told = _looked(open_ones, {0: 7, 1: 10, 2: 3}, 4)

    assert told == [[], [], [0], [0]]
    assert "at offset 7, below its end 10" in open_ones.waiting[0]


def test_a_partition_that_moves_or_is_not_read_begins_anew() -> None:
    """It may be slow, or the node may have no room."""
    open_ones = OpenTransactions(ENDS.get)
    _looked(open_ones, {0: 7}, 3)

    open_ones.look({0: 8}, 3.0 * LOOK_MS)
    moved = open_ones.waiting
    open_ones.look({0: 8}, 6.0 * LOOK_MS)
    again = sorted(open_ones.waiting)
    open_ones.restart()
    idle = open_ones.waiting
    open_ones.look({0: 8}, 7.0 * LOOK_MS)

    assert (moved, again, idle, open_ones.waiting) == ({}, [0], {}, {})


def test_it_looks_now_and_then_only() -> None:
    """A poll costs no more in between."""
    asked: list[int] = []
    open_ones = OpenTransactions(asked.append)

    for time_ms in range(0, 2 * LOOK_MS, 100):
        open_ones.look({0: 7}, float(time_ms))

    assert len(asked) == 2
