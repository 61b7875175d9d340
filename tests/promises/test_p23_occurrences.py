"""P23: each time of a recurring schedule makes one task, as its policy says, and no other does."""

from datetime import timedelta

import pytest

from hourhand.scheduler.services.recurring.rule import Overlap
from tests.unit.scheduler.services.recurring.test_recurring import Bench


@pytest.mark.parametrize("crash_every_s", [1, 7, 10])
def test_p23_each_time_comes_once_through_crashes(crash_every_s: int) -> None:
    """Whenever the node dies, at the tick as well."""
    bench = Bench()
    bench.client.schedule_recurring("n", every=timedelta(seconds=10)).result()
    for _ in range(200 // crash_every_s):
        bench.advance(seconds=crash_every_s)
        bench.scheduler.crash()
    bench.client.delete_recurring("n").result()
    bench.advance(seconds=100)

    assert bench.ran == bench.expected(*range(10, 10 * (len(bench.ran) + 1), 10))
    assert len(bench.ran) >= 19


def test_p23_what_is_older_than_the_window_is_not_made_up_for() -> None:
    """An outage of ten minutes, and a window of one."""
    bench = Bench()
    bench.client.schedule_recurring(
        "n", every=timedelta(seconds=30), overlap="allow", catch_up=timedelta(minutes=1)
    ).result()
    bench.advance(seconds=61)
    bench.scheduler.stop()
    bench.advance(seconds=600)
    bench.scheduler.restart()
    bench.advance(seconds=31)

    assert bench.ran == bench.expected(30, 60, 630, 660, 690)


@pytest.mark.parametrize(("overlap", "ran"), [("skip", [10, 40]), ("buffer_one", [10, 20, 40])])
def test_p23_what_overlaps_is_left_out_as_the_policy_says(overlap: Overlap, ran: list[int]) -> None:
    """Each takes 25 s: two times fall due meanwhile."""
    bench = Bench(takes_s=25)
    bench.client.schedule_recurring(
        "n", every=timedelta(seconds=10), overlap=overlap, count_max=len(ran)
    ).result()
    bench.advance(seconds=200)

    assert bench.ran == bench.expected(*ran)


def test_p23_what_was_due_before_a_change_is_made_before_it() -> None:
    """A change that waited for a node overtakes no time of the schedule as it was."""
    bench = Bench()
    bench.client.schedule_recurring("n", every=timedelta(seconds=10), overlap="allow").result()
    bench.advance(seconds=5)
    bench.scheduler.stop()
    bench.advance(seconds=7)
    bench.client.trigger_recurring("n").result()
    bench.advance(seconds=23)
    bench.client.pause_recurring("n").result()
    bench.advance(seconds=10)
    bench.scheduler.restart()
    bench.advance(seconds=100)

    assert sorted(name for name in bench.ran if "!" not in name) == bench.expected(10, 20, 30)
    assert len(bench.ran) == 4
