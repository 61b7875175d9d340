"""P21: every pop of a timer comes, in order; it comes again only with its own number."""

from hourhand.scheduler.configuration.door_settings import TimerSettings
from tests.promises.faults import Faults, every
from tests.unit.scheduler.services.timers.timers_bench import TimersBench


def test_p21_no_pop_is_missing_through_crashes() -> None:
    """A hundred pops, and a crash every three seconds."""
    bench = TimersBench()
    bench.made(1, 100)
    for _ in range(40):
        bench.advance(3)
        bench.scheduler.crash()

    numbers = [number for _, number in bench.pops]
    assert sorted(set(numbers)) == list(range(1, 101))
    assert numbers == sorted(numbers)


def test_p21_only_the_callbacks_own_failures_count_as_its_tries() -> None:
    """While the store was away no callback was made, so none had failed."""
    faults = Faults()
    bench = TimersBench(TimerSettings(requests_per_s_max=0, callback_tries_max=4), faults)
    bench.made(10, 20)
    bench.advance(9)
    faults.fails = every("find")
    bench.advance(120)
    faults.heal()
    bench.scheduler.callbacks.failures = 3
    bench.advance(120)

    assert [number for _, number in bench.pops] == [1, 1, 1, 1, 2]
    assert bench.pops[0][0] >= 129


def test_p21_a_pop_that_fails_for_ever_is_given_up_for_the_next_one() -> None:
    """After as many tries as are allowed."""
    bench = TimersBench(TimerSettings(requests_per_s_max=0, callback_tries_max=3))
    bench.scheduler.callbacks.failures = 3
    bench.made(10, 20)
    bench.advance(60)

    assert [number for _, number in bench.pops] == [1, 1, 1, 2]
