"""What a row of ``completion_segment`` says, places that a job took out of it left out."""

from hourhand.actors.model.task.key import TaskKey
from hourhand.scheduler.adapters.cassandra.segments import entries_in
from hourhand.scheduler.adapters.completion_segments import packed

ENTRIES = [(TaskKey(time_ms, "a", "u"), 7, 1, None, 2) for time_ms in range(4)]
SEGMENT = (0, 3, 9, 0, packed(ENTRIES).body)


def test_entries_are_rows_as_task_status_has_them() -> None:
    """In key order, with the segment's write time behind."""
    rows = entries_in((*SEGMENT, None))

    assert rows == [(time_ms, "a", "u", "success", 7, 1, None, 2, "", 9) for time_ms in range(4)]
    assert entries_in((*SEGMENT, None), {ENTRIES[2][0]}) == rows[2:3]


def test_what_a_job_took_out_is_not_there() -> None:
    """Neither among all entries nor where its key is looked for."""
    assert [row[0] for row in entries_in((*SEGMENT, {1, 2}))] == [0, 3]
    assert entries_in((*SEGMENT, {1, 2}), {ENTRIES[2][0]}) == []


def test_places_without_a_body_are_no_entries() -> None:
    """They came after the tombstone of their segment was gone."""
    assert entries_in((0, None, 9, 0, None, {1})) == []
