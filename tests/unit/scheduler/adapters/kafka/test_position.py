"""Where reading begins, for every relation of the noted offsets to the log's bounds."""

import pytest

from scheduler.adapters.kafka.position import Found, chosen_position


@pytest.mark.parametrize(
    ("committed", "stored", "first", "end", "begins"),
    [
        (None, None, 3, 9, 3),
        (5, None, 3, 9, 5),
        (None, 5, 3, 9, 5),
        (5, 7, 3, 9, 7),
        (7, 5, 3, 9, 7),
        (9, 9, 3, 9, 9),
        (0, None, 0, 0, 0),
        (5, 10, 3, 9, 5),
        (10, 5, 3, 9, 5),
        (10, 10, 3, 9, 3),
        (None, 10, 3, 9, 3),
        (1, 2, 3, 9, 3),
    ],
)
def test_the_highest_offset_the_log_can_hold_wins(
    committed: int | None, stored: int | None, first: int, end: int, begins: int
) -> None:
    """Beyond the end is not believed, before the beginning is gone."""
    assert chosen_position(0, stored, Found(committed, first, end)) == begins
