"""P18: no message appears and no timer pops before its time, and nothing drifts."""

import pytest

from hourhand.scheduler.configuration.door_settings import RelaySettings
from tests.unit.scheduler.services.relay.relay_bench import RelayBench
from tests.unit.scheduler.services.timers.timers_bench import TimersBench


@pytest.mark.parametrize("advance_ms", [0, 250])
def test_p18_a_message_appears_at_its_deadline_less_the_advance(advance_ms: int) -> None:
    """Not a millisecond before."""
    bench = RelayBench(RelaySettings(timing_advance_ms=advance_ms))
    bench.put(due_in_s=10)

    bench.advance((9_999 - advance_ms) / 1000)
    assert bench.values == []
    bench.scheduler.advance(milliseconds=1)
    assert len(bench.values) == 1


def test_p18_a_timer_pops_at_its_start_and_so_many_intervals() -> None:
    """Also after callbacks that took their time: each is counted from the start."""
    bench = TimersBench()
    bench.scheduler.callbacks.failures = 2
    bench.made(5, 50)
    bench.advance(100)

    first = {number: at_s for at_s, number in reversed(bench.pops)}
    # The first was tried three times, two seconds apart, and made no other one late.
    assert [first[number] for number in range(2, 11)] == [5.0 * n for n in range(2, 11)]
