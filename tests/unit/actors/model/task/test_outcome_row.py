"""Rows of the outcome log: what they say of completions, and how large they get."""

import pytest

from hourhand.actors.model.task.outcome_row import (
    PIECE_BYTES,
    entries_of,
    outcome_rows,
    row_with,
    unread_by,
    unsettled_by,
)
from hourhand.actors.model.task.status import Completion, CompletionResult
from tests.builders import a_completion, a_key


def test_a_row_has_each_field_of_a_completion() -> None:
    """And which tasks ended with a value; Hourhand's own tasks are left out."""
    moved = a_completion(result=CompletionResult.MOVED, moved_to_ms=7, reason="so", attempts=0)
    plain = a_completion(key=a_key(uniqueness_key="plain"), offset=3)
    own = a_completion(key=a_key(ordering_id="hourhand:timer:x"))

    (row,) = outcome_rows([moved, plain, own], 9, {4, 2}, {plain.key}, [(5, 7)])

    first, second = entries_of(row)
    assert (first.key, first.moved_to_ms, first.reason, first.has_value) == (
        moved.key,
        7,
        "so",
        False,
    )
    assert (second.key, second.offset, second.has_value) == (plain.key, 3, True)
    assert unsettled_by(row) == [2, 4, 9]
    kept = row_with(row, [second])
    assert (entries_of(kept), unsettled_by(kept)) == ([second], [2, 4, 9])
    assert unread_by(row) == unread_by(kept) == [(5, 7)]
    assert outcome_rows([own], 9) == []


@pytest.mark.parametrize(
    ("stored", "is_of"),
    [
        (a_completion(), True),
        (a_completion(attempts=2), False),
        (a_completion(offset=1), False),
        (a_completion(result=CompletionResult.FAILURE), False),
        (None, False),
    ],
)
def test_an_entry_knows_its_completion(stored: Completion | None, *, is_of: bool) -> None:
    """By result, record, attempt and time."""
    ((entry,),) = (entries_of(row) for row in outcome_rows([a_completion()], 1))
    assert entry.is_of(stored) is is_of


def test_a_large_group_is_cut_into_pieces() -> None:
    """Each of one row, near a size."""
    many = [a_completion(key=a_key(ordering_id=each * 30_000)) for each in "abcdefghijklmnop"]

    rows = outcome_rows(many, 1)

    assert [row.piece for row in rows] == list(range(len(rows)))
    assert len(rows) > 2
    assert all(len(row.body) < 2 * PIECE_BYTES for row in rows)
    assert [each.key for row in rows for each in entries_of(row)] == [each.key for each in many]
