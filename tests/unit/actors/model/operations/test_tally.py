"""Counts of an hour: what is counted as what, and that changes add up."""

import msgspec

from hourhand.actors.model.operations.tally import (
    HourTally,
    TallyChange,
    decode_tally,
    encode_tally,
)
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.values.bucket import HOUR_MS

AT_MS = 10 * HOUR_MS + 59 * 60_000


def test_rows_and_ends_are_counted_by_minute() -> None:
    """A key that ends is no longer open, and one that is opened again is."""
    change = TallyChange()
    change.store([AT_MS, AT_MS, AT_MS + 60_000])
    change.close(AT_MS, CompletionResult.SUCCESS)
    change.close(AT_MS, CompletionResult.FAILURE)
    change.close(AT_MS, CompletionResult.REOPENED)

    first, second = change.hours[10 * HOUR_MS], change.hours[11 * HOUR_MS]
    assert (first.open, first.stored) == ({59: 1}, 2)
    assert first.closed == {"success": 1, "failure": 1, "reopened": 1}
    assert second == HourTally({0: 1}, 1, {}, {0: 1})
    assert first.seconds == {0: 1}


def test_changes_add_up() -> None:
    """Whatever the order."""
    total = HourTally({1: 2}, 2, {"success": 1}, {30: 2})
    total.add(HourTally({1: -1, 2: 3}, 3, {"success": 1, "moved": 1}, {0: 3, 30: -1}))

    seconds = {0: 3, 30: 1}
    assert total == HourTally({1: 1, 2: 3}, 5, {"success": 2, "moved": 1}, seconds)


def test_a_tally_is_read_as_it_was_written() -> None:
    """And two empty ones share nothing."""
    tally = HourTally({0: 5, 59: -1}, 9, {"dropped": 2}, {7: 4})
    assert decode_tally(encode_tally(tally)) == tally
    # Kept before seconds were counted.
    assert decode_tally(msgspec.msgpack.encode([{1: 2}, 2, {}])) == HourTally({1: 2}, 2)
    HourTally().open[3] = 1
    assert HourTally().open == {}


def test_what_is_stored_at_several_times_of_one_minute_adds_up() -> None:
    """By minute over seconds, and by second over minutes."""
    change = TallyChange()
    change.store([AT_MS, AT_MS + 1_000])
    change.store([AT_MS])
    change.store([AT_MS - 60_000])

    tally = change.hours[10 * HOUR_MS]
    assert (tally.open, tally.seconds) == ({58: 1, 59: 3}, {0: 3, 1: 1})
