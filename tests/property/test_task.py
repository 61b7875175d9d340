"""Merging what is known of one row: the last record wins, attempts are never forgotten."""

from hypothesis import given

from actors.model.task import StoredTask
from tests.builders import a_key
from tests.property.strategies import stored_tasks

rows = stored_tasks(a_key())


@given(rows, rows)
def test_p6_the_record_with_the_higher_offset_wins(one: StoredTask, other: StoredTask) -> None:
    """Data and offset come together from the later record, whichever side it is on."""
    merged = one.merged_with(other)

    last = other if other.offset >= one.offset else one
    assert (merged.offset, merged.data) == (last.offset, last.data)


@given(rows, rows)
def test_a_merge_forgets_no_attempt(one: StoredTask, other: StoredTask) -> None:
    """The row with more attempts tells of them, even where its record is the older one."""
    merged = one.merged_with(other)

    assert merged.attempts.last == max(one.attempts.last, other.attempts.last)
    assert merged.attempts in {one.attempts, other.attempts}
    assert merged.overdue_when_loaded == (one.overdue_when_loaded or other.overdue_when_loaded)


@given(rows, rows)
def test_merging_again_changes_nothing(one: StoredTask, other: StoredTask) -> None:
    """A record that is read twice has its effect once."""
    merged = one.merged_with(other)

    assert merged.merged_with(other) == merged
    assert merged.merged_with(other).attempts == merged.attempts
