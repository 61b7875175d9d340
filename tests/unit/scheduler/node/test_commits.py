"""A partition that is read: offsets move over what is durable in a row, and are committed."""

from collections.abc import Mapping

import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.scheduler.node.commits import PeriodicCommits, Reading, durable_offsets


def _reading() -> Reading[int]:
    reading = Reading[int](2)
    reading.begin(10)
    return reading


@pytest.mark.parametrize(
    ("answered", "next_offset"),
    [((), 10), ((1,), 15), ((2, 3), 10), ((3, 1), 15), ((3, 2, 1), 30), ((1, 1), 15), ((9,), 10)],
)
def test_p9_the_offset_moves_over_what_is_durable_in_a_row(
    answered: tuple[int, ...], next_offset: int
) -> None:
    """Whatever the order of the answers, and whichever come twice or from elsewhere."""
    reading = _reading()
    for part, reached in ((1, 15), (2, 20), (3, 30)):
        reading.deliver(part, reached)

    for part in answered:
        reading.settle(part)

    assert reading.next_offset == next_offset and reading.reached_offset == 30


def test_where_all_is_durable_the_offset_moves_past_what_is_no_record() -> None:
    """A log has control records, which nobody is told of; behind one under way it stays."""
    reading = _reading()
    reading.deliver(1, 15)
    reading.reached_offset = 17

    reading.advance()
    assert reading.next_offset == 10
    reading.settle(1)
    assert reading.next_offset == 17


def test_what_was_under_way_is_forgotten_where_reading_begins_anew() -> None:
    """A late answer moves nothing."""
    reading = _reading()
    reading.deliver(1, 15)
    reading.begin(10)
    reading.settle(1)

    assert (reading.next_offset, reading.reached_offset) == (10, 10)


def test_only_partitions_that_are_read_have_an_offset_to_commit() -> None:
    """One that was never started must not move the group's offset."""
    assert durable_offsets([_reading(), Reading[int](3)]) == {2: 10}


def test_offsets_are_committed_once_an_interval_and_sooner_on_request() -> None:
    """Nothing to commit is not a commit."""
    clock = VirtualClock()
    committed: list[Mapping[int, int]] = []
    commits = PeriodicCommits(committed.append, clock, 1_000)
    commits.commit({})
    assert commits.are_due()

    commits.commit({0: 7})
    assert committed == [{0: 7}] and not commits.would_change({0: 7})
    assert commits.would_change({0: 8}) and commits.would_change({0: 7, 1: 0})
    assert not commits.are_due()
    clock.advance(100)
    assert commits.are_due(interval_ms_max=100) and not commits.are_due()
    commits.hurry()
    assert commits.are_due()
