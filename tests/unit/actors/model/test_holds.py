"""When a partition is held, and when that is told."""

from itertools import pairwise

from actors.model.events import PartitionHeld, PartitionReleased
from actors.model.holds import REPORT_FIRST_MS, REPORT_LONGEST_MS, Hold


def test_it_is_told_at_once_and_then_after_intervals_that_double() -> None:
    """With the newest reason, however often it fails."""
    hold = Hold(3)
    told = [(second, hold.note("x", str(second), second * 1_000.0)) for second in range(3_600)]
    seconds = [second for second, event in told if event is not None]

    assert seconds[:5] == [0, 10, 30, 70, 150]
    gaps = [later - sooner for sooner, later in pairwise(seconds)]
    assert max(gaps) * 1_000 == REPORT_LONGEST_MS
    assert told[10][1] == PartitionHeld(3, "10", round(REPORT_FIRST_MS))


def test_it_ends_with_the_last_of_its_causes() -> None:
    """And begins anew, with short intervals."""
    hold = Hold(3)
    hold.note("x", "no", 0.0)
    hold.note("y", "no", 5.0)
    hold.note("y", "no", REPORT_FIRST_MS)

    first = hold.note("x", None, 20_000.0)
    held = bool(hold)
    last = hold.note("y", None, 30_000.0)

    assert first is None and held and not hold
    assert last == PartitionReleased(3, 30_000)
    assert hold.note("y", None, 40_000.0) is None
    assert hold.note("x", "again", 50_000.0) == PartitionHeld(3, "again", 0)
    assert hold.note("x", "again", 61_000.0) == PartitionHeld(3, "again", 11_000)
