"""TaskPersistence while memory is far behind the clock: who is on time, and who waits."""

import pytest

from hourhand.actors.loading import BACKLOG_PAUSE_MS
from hourhand.actors.messages import (
    BandsChanged,
    FindStatuses,
    LoadTasks,
    LowerCheckpoint,
    ScheduleTasks,
    StatusesFound,
    TasksLoaded,
)
from hourhand.actors.model.operations.ownership import Straggler, Watermark
from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.band import BandName
from hourhand.actors.model.window.read_ahead import BACKLOG_MIN_MS, UNREAD_SHARE
from tests.builders import NOW_MS, a_stored_task
from tests.unit.actors.task_persistence_bench import INTERVAL_MS, LAG_MS, Bench

LATE_MS = -BACKLOG_MIN_MS - 10_000


def task(due_in_ms: int, ordering_id: str, offset: int = 1) -> StoredTask:
    """Return a row named after its due time."""
    return a_stored_task(
        due_in_ms=due_in_ms,
        ordering_id=ordering_id,
        uniqueness_key=str(due_in_ms),
        offset=offset,
    )


OVERDUE = tuple(task(LATE_MS + number, f"late-{number % 3}") for number in range(6))


def behind(bench: Bench | None = None, *, limit: int = 2) -> Bench:
    """Return a bench with a page of six overdue tasks in memory, whose search is over."""
    bench = bench or Bench()
    bench.store(*OVERDUE)
    bench.load(2_000, limit=limit)
    return bench


def passed_on(bench: Bench) -> tuple[list[TaskKey], list[TaskKey]]:
    """Take what was passed on: of ids that have a backlog, or in all, and of those on time."""
    found: tuple[list[TaskKey], list[TaskKey]] = ([], [])
    for message in bench.scheduler.take_all(ScheduleTasks):
        found[message.band is BandName.ON_TIME].extend(each.key for each in message.tasks)
    return found


def on_time_ms(bench: Bench) -> int | None:
    """Take how far the controller was told that ids on time are loaded, last."""
    return bench.harness.controller.take_all(BandsChanged)[-1].on_time_ms


def load_on_time(bench: Bench, ahead_ms: int = 5_000, limit: int = 100) -> None:
    """Load what is on time, answering as the tracker."""
    bench.tell(LoadTasks(NOW_MS + ahead_ms, limit, band=BandName.ON_TIME))
    bench.answer_statuses()


def test_a_page_that_ends_in_the_past_makes_it_look_for_the_ids_that_wait() -> None:
    """What is due now, of other ids, need not wait for that."""
    bench = behind()

    assert bench.scheduler.take_all(BandsChanged) == [BandsChanged(NOW_MS - BACKLOG_MIN_MS)]
    assert on_time_ms(bench) == NOW_MS - BACKLOG_MIN_MS
    assert bench.harness.controller.take(TasksLoaded).complete is False


def test_a_load_that_is_asked_for_meanwhile_waits_for_the_search_and_is_asked_for_again() -> None:
    """For all pages of it, as what is on time waits for nothing else, and is loaded first then."""
    bench = Bench()
    bench.harness.data.page_limit = lambda limit: min(limit, 3)
    bench.requests.hold("find_keys")
    behind(bench)
    bench.loaded()

    bench.tell(LoadTasks(NOW_MS + 2_000, 2))
    bench.serve("find_keys")
    early = bench.requests.made.count("load_tasks"), bench.harness.controller.has(BandsChanged)
    while not bench.harness.controller.has(BandsChanged):
        bench.serve("find_keys")
    told = [type(each) for each in bench.harness.controller.messages]

    assert early == (1, False) and bench.requests.made.count("load_tasks") == 1
    assert told == [BandsChanged, TasksLoaded] and bench.loaded().complete is False


def test_a_load_that_is_asked_for_meanwhile_is_done_where_nobody_is_on_time() -> None:
    """There may be too many ids to know."""
    bench = Bench()
    share_bytes = bench.harness.siblings.budget.share_bytes
    bench.store(task(-BACKLOG_MIN_MS - 1, "x" * (share_bytes // UNREAD_SHARE)))
    bench.requests.hold("find_keys")
    behind(bench)
    bench.loaded()

    bench.tell(LoadTasks(NOW_MS + 2_000, 2))
    bench.serve("find_keys")
    bench.answer_statuses()

    assert bench.requests.made.count("load_tasks") == 2 and bench.loaded().complete is False


@pytest.mark.parametrize("late_ms", [0, BACKLOG_MIN_MS])
def test_a_page_that_ends_near_the_present_is_no_backlog(late_ms: int) -> None:
    """The next one brings the rest soon enough."""
    bench = Bench()
    bench.store(*(task(number - late_ms, "a") for number in range(6)))

    bench.load(2_000, limit=1)

    assert "find_keys" not in bench.requests.made


def test_the_last_page_is_no_backlog() -> None:
    """All that is overdue is in memory then."""
    bench = behind(limit=6)

    assert "find_keys" not in bench.requests.made


def test_a_task_of_another_id_is_passed_on_beyond_the_checkpoint() -> None:
    """One of an id with a backlog waits for the load that brings what is before it (P4)."""
    bench = behind()
    load_on_time(bench)
    bench.scheduled()

    bench.persist(task(1_000, "new"), task(1_000, "late-2"), task(-1, "new"))

    assert passed_on(bench) == ([], [task(1_000, "new").key, task(-1, "new").key])


def test_p4_an_id_that_comes_while_ids_are_missing_waits_as_the_others_do() -> None:
    """It may be on a page that was read already."""
    bench = Bench()
    bench.harness.data.page_limit = lambda _limit: 3
    bench.requests.hold("find_keys")
    behind(bench)
    bench.scheduled()

    bench.persist(task(-BACKLOG_MIN_MS - 1, "new"), task(LATE_MS - 1, "newer"))
    for _ in range(3):
        bench.serve("find_keys")
    load_on_time(bench)
    bench.persist(task(1_000, "new"), task(-1, "newer"), task(-1, "newest"))

    assert passed_on(bench) == ([task(LATE_MS - 1, "newer").key], [task(-1, "newest").key])


def test_p4_an_id_whose_overdue_tasks_are_in_memory_by_now_has_a_backlog() -> None:
    """They wait there for a slot, behind others."""
    bench = Bench()
    bench.store(task(LATE_MS - 1, "first"))
    behind(bench)
    load_on_time(bench)
    first = bench.scheduled()[0]

    bench.persist(task(-1, "first"))

    assert first == task(LATE_MS - 1, "first").key and passed_on(bench) == ([], [])


def test_p4_a_straggler_has_a_backlog() -> None:
    """Its open tasks are before the watermark, where nobody looks for ids."""
    mark = Watermark(NOW_MS - LAG_MS, 0, 0, (Straggler("held", NOW_MS - 2 * LAG_MS),))
    bench = behind(Bench(watermark=mark))
    load_on_time(bench)
    bench.scheduled()

    bench.persist(task(-1, "held"), task(-1, "free"))

    assert passed_on(bench) == ([], [task(-1, "free").key])


def test_p4_all_of_an_id_on_time_goes_the_same_way() -> None:
    """A task that is late is behind none of its id, and later ones of it are in that queue."""
    bench = behind()
    bench.scheduled()

    bench.persist(task(LATE_MS - 5, "new"), task(LATE_MS - 5, "late-0"))

    assert passed_on(bench) == ([task(LATE_MS - 5, "late-0").key], [task(LATE_MS - 5, "new").key])


def test_p5_a_late_task_is_passed_on_when_it_is_known_whether_its_key_is_done() -> None:
    """Its row may be deleted, and no load has come by; of later keys one has."""
    bench = behind()
    load_on_time(bench)
    bench.scheduled()
    late = task(-BACKLOG_MIN_MS - 1, "new")

    bench.persist(late, task(-BACKLOG_MIN_MS, "new"), task(-BACKLOG_MIN_MS - 1, "late-0"))
    early = passed_on(bench)
    asked = bench.tracker.take(FindStatuses)
    bench.tell(StatusesFound({}))

    assert early == ([], []) and asked.keys == (late.key,)
    assert passed_on(bench) == ([], [late.key, task(-BACKLOG_MIN_MS, "new").key])


def test_rows_for_the_near_future_are_loaded_for_ids_on_time_alone() -> None:
    """The others are in the way of none of them."""
    bench = Bench()
    bench.store(task(1_000, "new"), task(1_000, "late-1"), task(9_000, "new"))
    behind(bench)
    bench.scheduled()

    load_on_time(bench)

    assert passed_on(bench) == ([], [task(1_000, "new").key])
    assert on_time_ms(bench) == NOW_MS + 5_000
    assert bench.harness.controller.messages[-1] == TasksLoaded(OVERDUE[1].key.scheduled_ms, False)


def test_p3_a_load_that_comes_by_leaves_out_what_ids_on_time_have_in_memory() -> None:
    """It is in memory, or it ran."""
    bench = Bench()
    bench.store(task(1_000, "new"), task(1_500, "late-1"), task(2_000, "more"))
    behind(bench)
    load_on_time(bench, 1_800)
    bench.scheduled()

    bench.load(1_700)

    assert passed_on(bench) == (
        [*(each.key for each in OVERDUE[2:]), task(1_500, "late-1").key],
        [],
    )


def test_the_backlog_ends_where_the_load_reaches_what_ids_on_time_have() -> None:
    """There is one queue again before what lies beyond is passed on."""
    bench = Bench()
    bench.store(task(1_000, "new"), task(2_000, "more"))
    behind(bench)
    load_on_time(bench, 1_800)
    bench.scheduled()

    bench.load(300_000)

    joined = bench.scheduler.messages.index(BandsChanged(None))
    assert isinstance(bench.scheduler.messages[joined + 1], ScheduleTasks)
    assert passed_on(bench)[0][-1] == task(2_000, "more").key
    assert task(1_000, "new").key not in passed_on(bench)[0]
    assert on_time_ms(bench) is None
    assert bench.harness.effects.memory.used_bytes == 0


def test_p8_what_ids_on_time_leave_to_the_store_is_loaded_again() -> None:
    """From the key up to which they have all."""
    bench = Bench()
    bench.store(task(1_000, "new"), task(2_000, "more"))
    behind(bench)
    load_on_time(bench)
    bench.scheduled()

    bench.tell(LowerCheckpoint(first_key_at(NOW_MS + 500), band=BandName.ON_TIME))
    load_on_time(bench)

    assert passed_on(bench) == ([], [task(1_000, "new").key, task(2_000, "more").key])


def test_p8_where_ids_on_time_reach_less_far_than_the_others_the_backlog_ends() -> None:
    """All begin again from there."""
    bench = behind()
    bench.scheduled()

    bench.tell(LowerCheckpoint(first_key_at(NOW_MS - 300_000), band=BandName.ON_TIME))
    bench.load(2_000)

    assert BandsChanged(None) in bench.scheduler.messages
    assert passed_on(bench) == ([each.key for each in OVERDUE], [])


def test_p8_a_load_of_ids_on_time_that_the_end_of_the_backlog_overtook_brings_nothing() -> None:
    """The next ordinary one does."""
    bench = Bench()
    bench.store(task(1_000, "new"))
    behind(bench)
    bench.scheduled()
    bench.requests.hold("load_tasks")

    load_on_time(bench)
    bench.tell(LowerCheckpoint(first_key_at(NOW_MS - 300_000), band=BandName.ON_TIME))
    bench.serve("load_tasks")
    early = passed_on(bench)
    bench.tell(LoadTasks(NOW_MS + 2_000, 100))
    bench.serve("load_tasks")
    bench.answer_statuses()

    assert early == ([], [])
    assert passed_on(bench)[0][-1] == task(1_000, "new").key


def test_p8_the_watermark_stays_behind_what_was_not_loaded() -> None:
    """Whatever ids on time have reached."""
    bench = behind()
    load_on_time(bench)

    bench.advance_watermark()

    assert bench.saved().watermark_ms <= OVERDUE[1].key.scheduled_ms


def test_p13_more_ids_than_a_part_of_memory_holds_all_wait() -> None:
    """There is no way past the backlog then."""
    bench = Bench()
    share_bytes = bench.harness.siblings.budget.share_bytes
    name = "x" * (share_bytes // UNREAD_SHARE)
    bench.store(task(-BACKLOG_MIN_MS - 1, name))

    behind(bench)
    bench.persist(task(1_000, "new"))

    assert not bench.scheduler.has(BandsChanged)
    assert bench.harness.siblings.budget.ids_bytes == 0


def test_after_a_backlog_the_next_one_is_looked_for_after_a_pause() -> None:
    """A search reads the key of each row."""
    bench = behind()
    bench.tell(LowerCheckpoint(first_key_at(NOW_MS - 300_000), band=BandName.ON_TIME))
    bench.requests.made.clear()

    bench.load(2_000, limit=2)
    early = list(bench.requests.made)
    for _ in range(BACKLOG_PAUSE_MS // INTERVAL_MS):
        bench.advance_watermark()
    bench.load(2_000, limit=2)

    assert "find_keys" not in early and "find_keys" in bench.requests.made


@pytest.mark.parametrize(("behind_ms", "searches"), [(60_000, False), (60_001, True)])
def test_a_watermark_far_behind_has_the_ids_looked_for_before_anything_is_loaded(
    behind_ms: int, *, searches: bool
) -> None:
    """The first load is answered when they are known."""
    bench = Bench(watermark=Watermark(NOW_MS - behind_ms, NOW_MS), held=("find_keys",))
    bench.store(*OVERDUE)

    bench.load(2_000)
    early = bench.harness.controller.has(TasksLoaded)
    assert ("load_tasks" in bench.requests.made) is not searches
    assert early is not searches


def test_outside_writers_are_told_before_ids_are_looked_for() -> None:
    """They send through the log as well what is behind it (P8)."""
    bench = Bench(watermark=Watermark(NOW_MS - 60_001, 0), held=("find_keys",))

    assert bench.saved().loaded_until_ms >= NOW_MS - BACKLOG_MIN_MS


def test_where_nothing_is_overdue_there_is_no_backlog() -> None:
    """A partition may have had nothing to do for long."""
    bench = Bench(watermark=Watermark(NOW_MS - 60_001, NOW_MS))

    assert not bench.scheduler.has(BandsChanged)
    bench.load(2_000)
    assert bench.loaded().complete
