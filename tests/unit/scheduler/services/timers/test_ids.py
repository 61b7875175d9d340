"""Ids of new timers."""

from collections import Counter

from actors.model.partition import partition_of
from scheduler.services.timers.executor import timer_name
from scheduler.services.timers.ids import TOGETHER, TimerIds

PARTITIONS = 16


def partition_of_timer(timer_id: str) -> int:
    """Return the partition that a timer of this id belongs to."""
    return partition_of(timer_name(timer_id).ordering_id, PARTITIONS)


def made(count: int) -> list[str]:
    """Return so many ids, made one after the other."""
    ids = TimerIds(lambda ordering_id: partition_of(ordering_id, PARTITIONS), PARTITIONS)
    return [ids.new() for _ in range(count)]


def test_those_made_together_are_of_one_partition() -> None:
    """Then the next partition's turn comes, and so on around."""
    partitions = [partition_of_timer(each) for each in made(3 * TOGETHER)]

    turns = [set(partitions[at : at + TOGETHER]) for at in range(0, len(partitions), TOGETHER)]
    assert [len(each) for each in turns] == [1, 1, 1]
    first, second, third = (each.pop() for each in turns)
    assert (second, third) == ((first + 1) % PARTITIONS, (first + 2) % PARTITIONS)


def test_each_partition_has_its_share() -> None:
    """And no id comes twice, also of those that waited for their partition's turn."""
    ids = made(5 * PARTITIONS * TOGETHER)

    assert len(set(ids)) == len(ids)
    assert set(Counter(map(partition_of_timer, ids)).values()) == {5 * TOGETHER}


def test_ids_are_as_long_as_the_seeds() -> None:
    """Sixteen digits, as clients of the seed keep them."""
    assert all(len(each) == 16 and int(each, 16) >= 0 for each in made(100))
