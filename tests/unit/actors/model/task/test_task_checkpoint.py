"""The newest checkpoint of a task: by owner, then by attempt, then by time."""

from msgspec.structs import replace

from hourhand.actors.model.task.task import FRESH, AttemptState
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from tests.builders import NOW_MS, a_key, a_stored_task

MADE = TaskCheckpoint(a_key(), 2, NOW_MS, b"1", 5)


def test_a_later_owners_stands_whatever_the_clocks_say() -> None:
    """And of one owner a later attempt's, and of one attempt the one that was made later."""
    heirs = replace(MADE, fence=6, attempt=1, made_ms=0)
    later = replace(MADE, attempt=3, made_ms=0)
    again = replace(MADE, made_ms=NOW_MS + 1)

    for newer in (heirs, later, again):
        assert MADE.later_of(newer) is newer and newer.later_of(MADE) is newer
    assert MADE.later_of(replace(MADE)) is MADE and MADE.later_of(None) is MADE


def test_a_row_that_is_read_again_takes_no_checkpoint_away() -> None:
    """Whichever of record, row and task at hand is merged with which."""
    row = a_stored_task(due_in_ms=0)
    known = replace(row, attempts=AttemptState(checkpoint=MADE))
    stale = replace(row, attempts=AttemptState(used=1, last=1))

    for merged in (known.merged_with(row), row.merged_with(known)):
        assert merged.attempts.checkpoint is MADE
    both = known.merged_with(stale).attempts
    assert (both.last, both.checkpoint) == (1, MADE)
    assert row.merged_with(row).attempts is FRESH


def test_it_counts_in_what_a_task_holds() -> None:
    """By its bytes."""
    row = a_stored_task(due_in_ms=0)
    held = replace(row, attempts=AttemptState(checkpoint=replace(MADE, body=b"x" * 500)))

    assert held.size_bytes == row.size_bytes + 500
