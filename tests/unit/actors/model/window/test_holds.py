"""When a partition is held, when that is told, and which records may be forwarded now."""

from itertools import pairwise

from hourhand.actors.model.operations.events import PartitionHeld, PartitionReleased
from hourhand.actors.model.window.holds import (
    REPORT_FIRST_MS,
    REPORT_LONGEST_MS,
    Forward,
    Forwards,
    Hold,
)
from tests.builders import a_record


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
    """And begins again, with short intervals."""
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


def _stray(offset: int, ordering_id: str = "a", batch: int = 1) -> Forward:
    return Forward(a_record(offset=offset), batch, ordering_id, 1)


def test_p6_one_stray_of_an_ordering_id_is_forwarded_at_a_time() -> None:
    """Those of others, and dead letters, are not kept waiting."""
    forwards = Forwards()
    first, second, third = _stray(0), _stray(1), _stray(2)

    begun = [forwards.begin(each) for each in (first, second, third)]
    others = [forwards.begin(_stray(3, "b")), forwards.begin(Forward(a_record(offset=4), 1))]

    assert begun == [True, False, False] and others == [True, True]
    assert forwards.let_pass(first) is second
    assert forwards.let_pass(first) is None
    assert forwards.let_pass(second) is third
    assert forwards.let_pass(third) is None
    assert forwards.begin(_stray(5))


def test_the_first_that_is_not_forwarded_yet_is_known() -> None:
    """Nothing before it counts as undone."""
    forwards = Forwards()
    first, second = _stray(3), _stray(7, batch=2)
    forwards.begin(first)
    forwards.begin(second)

    found = forwards.first_offset, forwards.of_batch(2)
    forwards.end(first)
    later = forwards.first_offset
    forwards.end(second)

    assert found == (3, [second]) and later == 7
    assert forwards.first_offset is None
