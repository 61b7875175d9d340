"""TaskPersistence: how the watermark moves, and what is deleted behind it."""

import pytest
from msgspec.structs import replace

from hourhand.actors.messages import (
    DrainTasks,
    FindStatuses,
    LoadTasks,
    MeasureProgress,
    OutcomesRecorded,
    PersistTasks,
    ProgressMeasured,
    StatusesFound,
    TaskWithdrawn,
    WatermarkMeasured,
)
from hourhand.actors.model.execution.attempts import NO_STATUS, KeyStatus
from hourhand.actors.model.execution.commands import WithdrawalResult
from hourhand.actors.model.operations.events import WatermarkHeld
from hourhand.actors.model.operations.ownership import Assignment, Straggler, Watermark
from hourhand.actors.model.task.codec import Command, CommandKind
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.task.task import FRESH, StoredTask
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of
from hourhand.actors.model.values.errors import OwnershipLost
from hourhand.actors.model.values.log_offset import kept_offset
from hourhand.actors.model.values.settings import WatermarkSettings
from hourhand.actors.task_persistence import TaskPersistence
from tests.builders import NOW_MS, a_completion, a_stored_task
from tests.unit.actors.task_persistence_bench import (
    DAY_MS,
    INTERVAL_MS,
    LAG_MS,
    TASK,
    Bench,
    task_due_in,
)
from tests.unit.probes import PARTITION


def test_the_watermark_follows_what_is_done() -> None:
    """Not beyond the first open task, nor the clock less its lag, nor the window."""
    bench = Bench(next_offset=1)
    bench.persist(task_due_in(-LAG_MS))
    bench.load()
    bench.harness.advance(0)

    bench.advance_watermark(earliest_ms=NOW_MS - LAG_MS)
    held_back = bench.saved().watermark_ms
    bench.harness.clock.advance(10 * LAG_MS)
    bench.advance_watermark()

    assert held_back == NOW_MS - LAG_MS
    assert bench.saved().watermark_ms == NOW_MS + 300_000, "the window ends there"


def test_the_watermark_passes_stragglers_and_lists_them() -> None:
    """A blocked ordering id does not hold the others."""
    bench = Bench()
    bench.load()
    held = (Straggler("x", NOW_MS - LAG_MS + 1),)

    bench.harness.clock.advance(2 * LAG_MS)
    bench.advance_watermark(held=held)

    assert bench.saved().stragglers == held
    assert bench.saved().watermark_ms > held[0].first_ms


def test_with_too_many_stragglers_the_watermark_waits_and_says_so() -> None:
    """The list is bounded."""
    bench = Bench()
    bench.load()
    firsts = [NOW_MS - LAG_MS + offset for offset in (1, 2, 3)]
    held = tuple(Straggler(str(first), first) for first in firsts)

    bench.harness.clock.advance(2 * LAG_MS)
    bench.advance_watermark(held=held)

    assert bench.saved().stragglers == held[:2]
    assert bench.saved().watermark_ms == firsts[2]
    assert bench.harness.telemetry.of(WatermarkHeld)


def test_the_durable_next_offset_is_kept_beside_the_watermark() -> None:
    """A group without offsets begins there."""
    bench = Bench()
    bench.persist(task_due_in(10), next_offset=8)

    bench.advance_watermark(earliest_ms=NOW_MS + 10)

    assert bench.saved().next_offset == 8


def test_an_idle_partition_does_not_write_its_watermark_at_every_interval() -> None:
    """It follows the clock in steps of its lag."""
    bench = Bench(next_offset=4)
    bench.load()
    bench.advance_watermark()
    bench.requests.made.clear()

    for _ in range(5):
        bench.advance_watermark()

    assert "save_watermark" not in bench.requests.made


def _moves(bench: Bench, lags: int) -> list[int]:
    """Let the clock go on; return by how many lags each save moved the watermark on."""
    moves = []
    for _ in range(lags * LAG_MS // INTERVAL_MS):
        before_ms = bench.saved().watermark_ms
        bench.advance_watermark()
        if moved := (bench.saved().watermark_ms - before_ms) // LAG_MS:
            moves.append(moved)
    return moves


def test_a_partition_without_rows_follows_the_clock_in_steps_of_twenty_lags() -> None:
    """A save costs a conditional write, and spares the next owner no row."""
    bench = Bench()
    bench.load(2 * HOUR_MS)

    assert _moves(bench, 45) == [20, 20]


def test_a_partition_with_a_row_follows_the_clock_in_steps_of_its_lag_until_it_is_passed() -> None:
    """The next owner would read that row again."""
    bench = Bench(next_offset=1)
    bench.load(2 * HOUR_MS)
    bench.persist(task_due_in(3 * LAG_MS))

    assert _moves(bench, 30) == [1, 1, 1, 1, 20]


def test_a_row_beyond_memory_keeps_no_partition_busy() -> None:
    """It is read when the window reaches it."""
    bench = Bench(next_offset=1)
    bench.load(LAG_MS)
    bench.persist(task_due_in(DAY_MS))
    bench.advance_watermark()
    bench.load(2 * HOUR_MS)

    assert _moves(bench, 30) == [1, 1, 20]


def test_rows_that_are_done_are_passed_in_steps_of_a_lag_too() -> None:
    """One owner after the other would read them again."""
    bench = Bench(next_offset=1)
    bench.persist(task_due_in(LAG_MS))
    done = Completion(task_due_in(LAG_MS).key, CompletionResult.SUCCESS, offset=1)
    bench.load(2 * HOUR_MS, statuses={done.key: replace(NO_STATUS, completion=done)})
    bench.scheduled()

    assert _moves(bench, 30) == [1, 1, 20]


def test_steps_of_an_idle_partition_are_an_hour_long_at_most() -> None:
    """A next owner looks into each hour; a longer lag is kept."""
    long = WatermarkSettings(lag_ms=HOUR_MS // 2)
    longest = WatermarkSettings(lag_ms=2 * HOUR_MS)

    assert long.step_ms(long.lag_ms, is_idle=True) == HOUR_MS
    assert longest.step_ms(longest.lag_ms, is_idle=True) == 2 * HOUR_MS
    assert long.step_ms(2_000, is_idle=False) == 2_000


def test_a_partition_that_is_let_go_saves_how_far_it_is_done() -> None:
    """The next owner reads two seconds instead of the whole lag; nobody waits for the answer."""
    bench = Bench()
    bench.persist(task_due_in(-LAG_MS + 1))
    bench.load()
    bench.requests.hold("save_watermark")

    bench.tell(DrainTasks())
    bench.scheduler.take(MeasureProgress)
    bench.tell(ProgressMeasured(None, ()))
    requested = bench.harness.supervisor.has(WatermarkMeasured)
    bench.serve("save_watermark")

    assert requested and bench.saved().watermark_ms == NOW_MS - 2_000


def test_where_there_is_nothing_to_save_a_partition_is_let_go_all_the_same() -> None:
    """What it was told last is stored already."""
    bench = Bench()
    bench.advance_watermark(earliest_ms=NOW_MS - LAG_MS)
    bench.requests.made.clear()

    bench.tell(DrainTasks())
    bench.scheduler.take(MeasureProgress)
    bench.tell(ProgressMeasured(NOW_MS - LAG_MS, ()))

    assert bench.harness.supervisor.has(WatermarkMeasured)
    assert "save_watermark" not in bench.requests.made


def test_p16_an_owner_that_was_replaced_fails() -> None:
    """Its tree must not go on."""
    bench = Bench()
    bench.stores.ownership.claim(PARTITION, NOW_MS).result(timeout=0)

    with pytest.raises(OwnershipLost):
        bench.persist(task_due_in(-DAY_MS))


def test_p5_rows_are_deleted_before_the_statuses_that_guard_them() -> None:
    """Whole hours that are done, one step after the other."""
    mark = Watermark(
        watermark_ms=NOW_MS - LAG_MS,
        loaded_until_ms=NOW_MS + DAY_MS,
        tasks_swept_until_ms=hour_of(NOW_MS) - 2 * DAY_MS,
        statuses_swept_until_ms=hour_of(NOW_MS) - 2 * DAY_MS,
    )
    bench = Bench(watermark=mark)
    bench.requests.hold("delete_tasks")

    bench.advance_watermark()
    before_rows = "delete_statuses" in bench.requests.made
    bench.serve("delete_tasks")
    before_retention = "delete_statuses" in bench.requests.made
    bench.harness.clock.advance(DAY_MS)
    bench.advance_watermark()

    assert not before_rows
    assert not before_retention
    assert "delete_statuses" in bench.requests.made


def test_p5_retention_begins_when_the_deletion_is_acknowledged() -> None:
    """However long the store took for it: until then a row may need its completion."""
    swept_ms = hour_of(NOW_MS) - HOUR_MS
    mark = Watermark(
        watermark_ms=hour_of(NOW_MS),
        loaded_until_ms=NOW_MS + DAY_MS,
        tasks_swept_until_ms=swept_ms,
        statuses_swept_until_ms=swept_ms,
    )
    bench = Bench(watermark=mark)
    bench.requests.hold("delete_tasks")
    bench.advance_watermark()
    bench.harness.clock.advance(60_000)
    deleted_ms = bench.harness.clock.now_ms()
    bench.serve("delete_tasks")

    bench.advance_watermark()

    assert bench.saved().statuses_due_at_ms == deleted_ms + DAY_MS


def test_p5_hours_with_stragglers_and_within_retention_are_kept() -> None:
    """Nothing open is deleted, nothing done is forgotten too soon."""
    first_ms = hour_of(NOW_MS) - 3 * HOUR_MS
    mark = Watermark(
        watermark_ms=NOW_MS - LAG_MS,
        loaded_until_ms=NOW_MS + DAY_MS,
        stragglers=(Straggler("x", first_ms + 5),),
        tasks_swept_until_ms=first_ms - HOUR_MS,
        statuses_swept_until_ms=first_ms - HOUR_MS,
    )
    bench = Bench(watermark=mark)
    row = replace(TASK, key=TASK.key._replace(scheduled_ms=first_ms + 5))
    bench.store(row)

    bench.advance_watermark(held=mark.stragglers)

    kept = bench.stores.schedule.find_tasks(PARTITION, (row.key,)).result(timeout=0)
    assert row.key in kept and "delete_tasks" in bench.requests.made
    assert "delete_statuses" not in bench.requests.made


def test_p5_a_completion_is_kept_for_its_retention_after_its_hour_was_deleted() -> None:
    """``completion_retention_ms``: how long a done key stays done after its hour was deleted."""
    old_ms = hour_of(NOW_MS) - 3 * DAY_MS
    mark = Watermark(
        watermark_ms=NOW_MS - LAG_MS,
        loaded_until_ms=NOW_MS + DAY_MS,
        tasks_swept_until_ms=old_ms,
        statuses_swept_until_ms=old_ms,
    )
    bench = Bench(watermark=mark)

    bench.advance_watermark()

    assert "delete_tasks" in bench.requests.made
    assert "delete_statuses" not in bench.requests.made


def test_p8_a_watermark_that_a_failed_tree_left_in_flight_does_not_undo_a_lowering() -> None:
    """The save is compared by epoch, which the rebuilt tree shares; the task would be lost."""
    bench = Bench()
    bench.load()
    bench.harness.clock.advance(3 * LAG_MS)
    bench.requests.hold("save_watermark")
    bench.advance_watermark()
    late = bench.requests.take("save_watermark")
    bench.requests.hold_nothing()
    bench.harness.system.stop_tree(bench.ref)
    assignment = Assignment(bench.harness.ownership, bench.saved(), 0, 0)
    bench.ref = bench.harness.spawn(TaskPersistence(bench.harness.effects, assignment))

    bench.persist(task_due_in(-DAY_MS))
    assert bench.persisted() == [1]
    late()

    assert bench.saved().watermark_ms <= NOW_MS - DAY_MS


def test_a_task_of_1970_costs_few_deletes() -> None:
    """Not one for each stretch of the half a million hours since, which held nothing."""
    mark = Watermark(
        watermark_ms=NOW_MS - LAG_MS,
        loaded_until_ms=NOW_MS + DAY_MS,
        tasks_swept_until_ms=0,
        statuses_swept_until_ms=0,
    )
    bench = Bench(watermark=mark)

    for _ in range(3):
        bench.advance_watermark()
        bench.harness.clock.advance(DAY_MS)

    made = bench.requests.made
    assert made.count("delete_tasks") == 1
    assert made.count("delete_statuses") == 1


def test_p9_a_topic_that_is_new_to_the_store_is_noted_before_any_record_has_its_effect() -> None:
    """A third topic of the name would count as the second, and its records as older ones."""
    bench = Bench(held=("save_watermark",))
    noted = replace(bench.saved(), next_offset=kept_offset(1, 0), topic_id="new")
    known = Assignment(bench.harness.ownership, noted, 0, kept_offset(1, 0), topic_changed=True)
    ref = bench.harness.spawn(TaskPersistence(bench.harness.effects, known))

    ref.tell(PersistTasks(1, (task_due_in(1_000),), kept_offset(1, 1)))
    bench.harness.run()
    before = [each for each in bench.requests.made if each.startswith(("insert", "save"))]
    bench.requests.take("save_watermark")()
    bench.harness.run()

    assert before == ["save_watermark"]
    assert (bench.saved().topic_id, bench.saved().next_offset) == ("new", kept_offset(1, 0))
    assert "insert_tasks" in bench.requests.made


_SWEPT_MS = hour_of(NOW_MS) - 3 * HOUR_MS


def _mark(*, watermark_ms: int = hour_of(NOW_MS), thinned_ms: int = 0) -> Watermark:
    return Watermark(
        watermark_ms=watermark_ms,
        loaded_until_ms=NOW_MS + DAY_MS,
        tasks_swept_until_ms=_SWEPT_MS,
        statuses_swept_until_ms=_SWEPT_MS,
        thinned_until_ms=thinned_ms,
    )


def _failing(bench: Bench, count: int) -> list[StoredTask]:
    """Store tasks of the last hour, and that they failed."""
    first_ms = hour_of(NOW_MS) - HOUR_MS
    rows = [a_stored_task(due_in_ms=first_ms + n - NOW_MS, offset=1) for n in range(count)]
    bench.store(*rows)
    ends = [a_completion(key=row.key, result=CompletionResult.FAILURE) for row in rows]
    bench.stores.status.insert_completions(PARTITION, ends, 1).result(timeout=0)
    return rows


def test_p5_failed_tasks_are_kept_a_page_at_a_time() -> None:
    """What was asked for meanwhile has its turn before the next page."""
    bench = Bench(watermark=_mark())
    rows = _failing(bench, 100)
    bench.requests.hold("insert_tasks")
    bench.advance_watermark()
    bench.persist(task_due_in(1_000, offset=2))

    before = len(bench.requests.made)
    bench.serve("insert_tasks")
    behind = bench.requests.made[before:]
    bench.requests.hold_nothing()
    bench.serve("insert_tasks")

    assert behind == ["insert_tasks"]
    assert bench.persisted() == [1]
    kept = bench.stores.schedule.find_tasks(PARTITION, [row.key for row in rows]).result(timeout=0)
    assert len(kept) == 100 and "delete_tasks" in bench.requests.made


def test_p5_an_hour_in_which_a_task_is_opened_meanwhile_is_not_deleted() -> None:
    """Its row is among those that are not written once more."""
    bench = Bench(watermark=_mark())
    rows = _failing(bench, 40)
    opened = rows[-1]
    bench.requests.hold("insert_tasks")
    bench.advance_watermark()
    bench.persist(Command(CommandKind.RETRY, opened.key, 10, NOW_MS))
    bench.serve("insert_tasks")
    bench.requests.hold_nothing()
    bench.tell(TaskWithdrawn(opened.key, WithdrawalResult.ABSENT))
    failed = a_completion(key=opened.key, result=CompletionResult.FAILURE)
    bench.tell(StatusesFound({opened.key: KeyStatus(failed, FRESH)}))
    reopened = replace(failed, result=CompletionResult.REOPENED, offset=10)
    bench.stores.status.insert_completions(PARTITION, [reopened], 2).result(timeout=0)
    bench.tell(
        OutcomesRecorded((a_completion(key=opened.key, result=CompletionResult.REOPENED),), ())
    )

    assert "delete_tasks" not in bench.requests.made
    assert bench.saved().watermark_ms <= opened.key.scheduled_ms
    found = bench.stores.schedule.find_tasks(PARTITION, (opened.key,)).result(timeout=0)
    assert found == {opened.key: opened}


def test_p13_completions_of_thinned_hours_are_read_by_key() -> None:
    """A retry lowered the mark by days: there are as many as ever, and hardly a row."""
    thinned_ms = hour_of(NOW_MS)
    bench = Bench(watermark=_mark(watermark_ms=thinned_ms - HOUR_MS, thinned_ms=thinned_ms))
    opened, failed = _failing(bench, 2)
    later = task_due_in(1_000)
    bench.store(later)

    bench.tell(LoadTasks(NOW_MS + 300_000, 100))
    asked = bench.tracker.take(FindStatuses)
    closed = KeyStatus(a_completion(key=failed.key, result=CompletionResult.FAILURE), FRESH)
    bench.tell(StatusesFound({failed.key: closed}))
    first = bench.loaded()
    bench.tell(LoadTasks(NOW_MS + 300_000, 100))
    bench.answer_statuses()

    assert asked.keys == (opened.key, failed.key)
    assert (first.reached_ms, first.complete) == (thinned_ms, False)
    assert bench.loaded().complete
    assert bench.scheduled() == [opened.key, later.key]


def test_p5_hours_that_a_version_before_deleted_are_not_thinned_again() -> None:
    """It knows of one mark alone."""
    bench = Bench(watermark=_mark(thinned_ms=_SWEPT_MS - HOUR_MS))

    assert bench.saved().thinned_ms <= hour_of(NOW_MS)
    bench.advance_watermark()
    assert bench.requests.made.count("delete_tasks") == 1
