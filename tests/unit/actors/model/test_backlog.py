"""The backlog of a partition: which ordering ids wait, and which are punctual."""

import pytest

from actors.model.backlog import (
    BACKLOG_MIN_MS,
    BACKLOG_SHARE,
    ORDERING_ID_BYTES,
    Backlog,
    backlog_behind,
)
from actors.model.key import TaskKey, first_key_at
from actors.model.ownership import Straggler, Watermark
from actors.model.task import StoredTask
from tests.builders import NOW_MS, a_stored_task

END_MS = NOW_MS - BACKLOG_MIN_MS


def a_backlog(*ordering_ids: str) -> Backlog:
    """Return one whose ids are known, up to the present."""
    backlog = Backlog(first_key_at(0), first_key_at(END_MS), ["held"])
    assert backlog.add_found(ordering_ids, None)
    backlog.is_known = True
    return backlog


def task(ordering_id: str, after_end_ms: int = 0) -> StoredTask:
    """Return one that is due about where memory of punctual ids begins."""
    return a_stored_task(due_in_ms=after_end_ms - BACKLOG_MIN_MS, ordering_id=ordering_id)


@pytest.mark.parametrize(("less_ms", "is_behind"), [(0, False), (1, True)])
def test_a_backlog_begins_where_memory_is_far_behind_the_clock(
    less_ms: int, *, is_behind: bool
) -> None:
    """What is less late is on time."""
    reached = first_key_at(END_MS - less_ms)

    backlog = backlog_behind(Watermark(5, 0), reached, NOW_MS, reached)

    assert (backlog is not None) is is_behind
    if backlog is not None:
        assert (backlog.searched, backlog.end_ms) == (first_key_at(5), END_MS)
        assert backlog.checkpoint.key == first_key_at(END_MS)


def test_what_the_watermark_has_passed_is_part_of_it() -> None:
    """Open tasks of stragglers are before the watermark, where no ids are looked for."""
    mark = Watermark(5, 0, 0, (Straggler("held", 1),))

    backlog = backlog_behind(mark, first_key_at(5), NOW_MS, first_key_at(5))

    assert backlog is not None and len(backlog) == 1
    assert backlog.add_found([], None)
    backlog.is_known = True
    assert not backlog.is_punctual("held") and backlog.is_punctual("other")


def test_what_was_found_behind_left_rows_is_part_of_it() -> None:
    """Memory reaches so far for its ids; a punctual one has a queue of its own."""
    searched = TaskKey(NOW_MS + 1_000, "found", "1")

    backlog = backlog_behind(Watermark(5, 0), first_key_at(5), NOW_MS, searched)

    assert backlog is not None and backlog.checkpoint.key > searched
    assert backlog.end_ms == NOW_MS + 1_001


def test_an_id_is_not_punctual_before_all_are_known() -> None:
    """And never, where it was found, or is a straggler's."""
    backlog = Backlog(first_key_at(0), first_key_at(10), ["held"])

    is_searched = backlog.add_found(["a"], TaskKey(5, "a", ""))
    early = backlog.is_punctual("b")

    assert not is_searched and not early and backlog.searched == TaskKey(5, "a", "")
    assert backlog.add_found(["b"], None)
    backlog.is_known = True
    assert [backlog.is_punctual(each) for each in ("held", "a", "b", "c")] == [False] * 3 + [True]
    assert len(backlog) == 3


def test_a_row_that_is_written_while_ids_are_missing_adds_its_own() -> None:
    """It may be on a page that was read; one of the present has nothing before it."""
    backlog = Backlog(first_key_at(0), first_key_at(END_MS), [])

    backlog.add_written([task("late", -1), task("on time")])
    backlog.add_found([], None)
    backlog.is_known = True

    assert not backlog.is_punctual("late") and backlog.is_punctual("on time")


def test_tasks_are_split_by_their_ordering_ids() -> None:
    """Whenever they are due, each part in the order in which they came."""
    backlog = a_backlog("late")
    tasks = [task("late", 9), task("new", 5), task("held"), task("new", -5)]

    assert backlog.split(tasks) == ([tasks[1], tasks[3]], [tasks[0], tasks[2]])


def test_p5_of_late_keys_only_those_are_known_that_a_load_came_by() -> None:
    """All others are in the part of the present, of which completions are loaded with the rows."""
    backlog = a_backlog("late")
    reached = task("new", -5).key
    tasks = [task("new", -5), task("new", -4), task("new", -1), task("new"), task("late", -1)]

    assert backlog.unread_keys(tasks, reached) == (tasks[1].key, tasks[2].key)


def test_p3_what_is_up_to_the_checkpoint_of_punctual_ids_is_in_memory() -> None:
    """Nothing of the others is there because of it."""
    backlog = a_backlog("late")
    backlog.checkpoint.begin_load()
    backlog.checkpoint.end_load(task("new", 5).key)

    assert backlog.has_in_memory(task("new", 5).key)
    assert not backlog.has_in_memory(task("new", 6).key)
    assert not backlog.has_in_memory(task("late", 5).key)


def test_p13_each_id_counts_once_with_what_it_holds() -> None:
    """All of them may hold a part of what the partition may."""
    backlog = a_backlog("late", "late", "later")

    size_bytes = 3 * ORDERING_ID_BYTES + len("held" + "late" + "later")
    assert backlog.size_bytes == size_bytes
    assert backlog.fits(size_bytes * BACKLOG_SHARE)
    assert not backlog.fits(size_bytes * BACKLOG_SHARE - 1)


def test_it_grows_with_what_memory_reaches_while_ids_are_missing() -> None:
    """Rows up to there are read for their ids, and what is written there adds its own."""
    backlog = Backlog(first_key_at(0), first_key_at(END_MS), [])

    backlog.reach_to(TaskKey(END_MS - 1, "early", "1"))
    before = backlog.end_ms
    backlog.reach_to(TaskKey(END_MS + 5, "late", "1"))
    backlog.add_written([task("written", 5)])
    backlog.add_found([], None)
    backlog.is_known = True

    assert (before, backlog.end_ms) == (END_MS, END_MS + 6)
    assert backlog.checkpoint.key == first_key_at(END_MS + 6)
    assert not backlog.is_punctual("written") and backlog.is_punctual("other")
