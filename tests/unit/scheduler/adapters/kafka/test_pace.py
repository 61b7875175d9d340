"""How long polls wait for more records: by what came in the last tenth of a second."""

from scheduler.adapters.kafka.pace import FEW_WAIT_S, MANY_PER_S, MANY_WAIT_S, Pace


def _after(pace: Pace, records_per_s: float, *, from_ms: float, polls: int = 40) -> float:
    """Poll every 5 ms at a rate; return how long the next poll waits."""
    for number in range(polls):
        pace.note(int(records_per_s * 0.005), from_ms + 5.0 * number)
    return pace.wait_s


def test_a_poll_waits_for_more_where_many_records_come() -> None:
    """And hardly where few do, first of all, or once they come no longer."""
    pace = Pace()

    assert pace.wait_s == FEW_WAIT_S
    assert _after(pace, 2 * MANY_PER_S, from_ms=1_000.0) == MANY_WAIT_S
    assert _after(pace, MANY_PER_S / 5, from_ms=2_000.0) == FEW_WAIT_S


def test_a_record_after_a_pause_is_not_waited_with() -> None:
    """What came before the pause says nothing of what comes now."""
    pace = Pace()
    assert _after(pace, 2 * MANY_PER_S, from_ms=1_000.0) == MANY_WAIT_S

    pace.note(0, 6_000.0)
    assert pace.wait_s == FEW_WAIT_S
