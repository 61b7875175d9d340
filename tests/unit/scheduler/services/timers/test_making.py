"""A new timer is its first pop and then its row: what becomes of it where one of them fails.

And the ids that are made for them.
"""

from collections import Counter
from concurrent.futures import Future
from typing import Any

import pytest

from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.errors import StoreUnavailable
from hourhand.scheduler.services.timers.executor import (
    NEW,
    UNWRITTEN_MS,
    TimerChange,
    TimerTask,
    change_key,
    timer_change_task,
    timer_name,
    timer_pop_task,
    timer_row,
)
from hourhand.scheduler.services.timers.service import TOGETHER, TimerIds
from hourhand.scheduler.services.timers.timer import TimerRule, TimerState
from tests.unit.scheduler.services.timers.timers_bench import URI, TimersBench, a_timer

TIMER_ID = "0123456789abcdef"
RULE = TimerRule(10_000, 30_000, URI, "o")
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


class FailingRows:
    """Definitions of a store that does not answer."""

    def __init__(self, definitions: Any) -> None:
        self.find = definitions.find

    def save(self, _row: object) -> "Future[None]":
        """Fail."""
        failed: Future[None] = Future()
        failed.set_exception(StoreUnavailable("nobody answers"))
        return failed


@pytest.fixture
def bench() -> TimersBench:
    """One service."""
    return TimersBench()


def append(bench: TimersBench, task: TimerTask) -> int:
    """Append a task as the service does; return its offset."""
    appended = bench.service._appender.append_json(task.key, task.data)
    bench.scheduler.run_due()
    return appended.result(timeout=0).offset


def first_pop(bench: TimersBench) -> TimerTask:
    """Return what a timer begins with."""
    return timer_pop_task(TIMER_ID, RULE.pop_ms(bench.start_ms, 1), 1, NEW)


def change(bench: TimersBench, asked_at: int) -> TimerTask:
    """Return what is appended where the row takes too long."""
    data = TimerChange(RULE, asked_at=asked_at)
    return timer_change_task(TIMER_ID, bench.start_ms, "x", data)


def save_row(bench: TimersBench, offset: int) -> None:
    """Write the row as the service does."""
    state = TimerState(bench.start_ms, change_key("x"), offset, RULE)
    bench.service._definitions.save(timer_row(TIMER_ID, state, NEW, bench.start_ms)).result(0)


def test_a_timer_is_made_although_the_store_does_not_answer(bench: TimersBench) -> None:
    """The log has it; each pop comes, once."""
    definitions: Any = FailingRows(bench.service._definitions)
    bench.service._definitions = definitions
    bench.made(10, 30)
    bench.advance(100)

    assert bench.pops == [(10.0, 1), (20.0, 2), (30.0, 3)]


def test_a_pop_without_a_row_is_nobodys_timer(bench: TimersBench) -> None:
    """Whoever made it died before it was answered."""
    append(bench, first_pop(bench))
    bench.advance(100)

    assert bench.pops == []


def test_a_pop_waits_for_a_row_that_is_late(bench: TimersBench) -> None:
    """What is being written while it falls due has been answered by then, or will be."""
    offset = append(bench, first_pop(bench))
    bench.advance(10 + UNWRITTEN_MS / 2_000)
    assert bench.pops == []
    save_row(bench, offset)
    bench.advance(100)

    assert [number for _, number in bench.pops] == [1, 2, 3]


@pytest.mark.parametrize("waited_s", [1, 15, 60])
def test_a_row_and_a_change_that_both_came_late_make_one_timer(
    bench: TimersBench, waited_s: int
) -> None:
    """True if the first pop is still to come, is looking for its row, or was dropped."""
    offset = append(bench, first_pop(bench))
    bench.advance(waited_s)
    save_row(bench, offset)
    append(bench, change(bench, offset))
    bench.advance(100)

    assert [number for _, number in bench.pops] == [1, 2, 3]


@pytest.mark.parametrize("waited_s", [1, 11, 60])
def test_a_change_of_a_new_timer_outlives_what_makes_it_late(
    bench: TimersBench, waited_s: int
) -> None:
    """Whoever was called back changed it while its row was still unacknowledged."""
    offset = append(bench, first_pop(bench))
    save_row(bench, offset)
    bench.advance(waited_s)
    popped = len(bench.pops)
    bench.http.put(f"/timers/{TIMER_ID}-2", json=a_timer(5, 5))
    append(bench, change(bench, offset))
    bench.advance(100)

    assert [number for _, number in bench.pops[popped:]] == [1]
    assert bench.pops[-1] == (waited_s + 5.0, 1)


def test_a_change_without_the_row_makes_one_timer(bench: TimersBench) -> None:
    """The first pop belongs to no state then, and the change makes another."""
    offset = append(bench, first_pop(bench))
    append(bench, change(bench, offset))
    bench.advance(100)

    assert bench.pops == [(10.0, 1), (20.0, 2), (30.0, 3)]
    row = bench.service._definitions.find(timer_name(TIMER_ID)).result(0)
    assert row is not None
    assert row.ended or row.offset > NEW


def test_a_change_keeps_the_row_that_its_request_wrote(bench: TimersBench) -> None:
    """The next offset may be that of another change, whose row would count as this one's."""
    bench.http.put(f"/timers/{TIMER_ID}-2", json=a_timer())
    written = bench.service._definitions.find(timer_name(TIMER_ID)).result(0)
    bench.advance(1)

    assert bench.service._definitions.find(timer_name(TIMER_ID)).result(0) == written
