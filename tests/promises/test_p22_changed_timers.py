"""P22: once a change of a timer is answered, no pop of its earlier state begins."""

import pytest

from tests.unit.scheduler.services.timers.timers_bench import TimersBench, a_timer


def _stop_reading(bench: TimersBench) -> None:
    """Nobody owns the partitions, as between two owners."""
    bench.scheduler.stop()


@pytest.mark.parametrize("changes", [False, True])
def test_p22_a_pop_that_fails_is_not_tried_again_after_the_answer(*, changes: bool) -> None:
    """Whoever deletes a timer because its target is gone is not called for another minute."""
    bench = TimersBench()
    bench.scheduler.callbacks.failures = 100
    path = bench.made(10)
    bench.advance(11)
    if changes:
        bench.http.put(path, json=a_timer(1_000))
    else:
        bench.http.delete(path)
    bench.advance(300)

    assert bench.pops == [(10.0, 1)]


@pytest.mark.parametrize("changes", [False, True])
def test_p22_a_pop_that_fell_due_before_an_owner_was_there_is_not_made(*, changes: bool) -> None:
    """The timer was deleted after its time, while no node had its partition."""
    bench = TimersBench()
    path = bench.made(10)
    bench.advance(1)
    _stop_reading(bench)
    bench.advance(20)
    answer = bench.http.put(path, json=a_timer(30)) if changes else bench.http.delete(path)
    assert answer.status_code == 200
    bench.scheduler.restart()
    bench.advance(100)

    assert bench.pops == ([(51.0, 1)] if changes else [])


def test_p22_a_timer_begins_anew_with_number_one() -> None:
    """Changed again and again, by whichever of its pops."""
    bench = TimersBench()
    path = bench.made(10, 100)
    for _ in range(5):
        bench.advance(25)
        assert bench.http.put(path, json=a_timer(10, 100)).status_code == 200
    bench.advance(300)

    numbers = [number for _, number in bench.pops]
    assert numbers == [1, 2] * 5 + list(range(1, 11))
