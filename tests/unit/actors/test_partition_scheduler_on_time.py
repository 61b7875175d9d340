"""PartitionScheduler while some ids have a backlog: what is on time has slots of its own."""

import pytest

from hourhand.actors.messages import (
    BandsChanged,
    ExecuteTasks,
    LowerCheckpoint,
    MeasureProgress,
    ScheduleTasks,
    ShrinkWindow,
    StartTasks,
    UpdateTask,
)
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.window.band import BandName
from tests.builders import NOW_MS
from tests.unit.actors.partition_scheduler_bench import Bench, task_due_in
from tests.unit.probes import Probe

SLOTS = 8
KEPT = 2


def bench_with_backlog(*due_in_ms: int, started: bool = True) -> Bench:
    """Return a bench with these tasks of ids that have a backlog."""
    bench = Bench(started=started, slots=SLOTS)
    if due_in_ms:
        bench.schedule(*due_in_ms)
    bench.tell(BandsChanged(0))
    return bench


def on_time(bench: Bench, *due_in_ms: int) -> None:
    """Send tasks of ids on time."""
    bench.tell(ScheduleTasks(tuple(task_due_in(due) for due in due_in_ms), band=BandName.ON_TIME))


def lowered(bench: Bench) -> list[tuple[TaskKey, bool]]:
    """Take what left memory, in order."""
    messages = bench.harness.persistence.take_all(LowerCheckpoint)
    return [(each.key, each.band is BandName.ON_TIME) for each in messages]


def test_slots_are_kept_for_what_is_on_time() -> None:
    """However much is overdue."""
    bench = bench_with_backlog()

    bench.schedule(*range(-108, -100))
    overdue = bench.executed()
    on_time(bench, -2, -1)

    assert overdue == [str(due) for due in range(-108, -100 - KEPT)]
    assert bench.executed() == ["-2", "-1"]


def test_what_is_on_time_passes_what_waits_for_the_executor() -> None:
    """And nothing else does: not the backlog, and not what comes once that is worked off."""
    bench = bench_with_backlog()

    bench.schedule(-103)
    on_time(bench, -2, -1)
    bench.tell(BandsChanged(None))
    bench.schedule(-3)

    passing = [each for each in bench.executor.first if isinstance(each, ExecuteTasks)]
    assert [[task.key.uniqueness_key for task in each.tasks] for each in passing] == [["-2", "-1"]]
    assert bench.executed() == ["-103", "-2", "-1", "-3"]


def test_what_is_on_time_may_have_all_slots_and_goes_first() -> None:
    """The backlog gets what is left of them."""
    bench = bench_with_backlog(*range(-108, -100))
    bench.executed()

    bench.schedule(-99)
    on_time(bench, -2, -1)
    full = bench.executed()
    bench.release(KEPT + 1)
    first = bench.executed()
    bench.release(KEPT)

    assert (full, first, bench.executed()) == ([], ["-2", "-1"], ["-99"])


def test_p2_what_is_on_time_is_not_early_and_not_late_where_the_others_wait_for_slots() -> None:
    """The timer is for what is not due yet."""
    bench = bench_with_backlog(*range(-109, -100))
    bench.release(KEPT)
    bench.executed()
    on_time(bench, 500)

    bench.harness.advance(499)
    early = bench.executed()
    bench.harness.advance(1)

    assert (early, bench.executed()) == ([], ["500"])


def test_p4_where_the_backlog_is_worked_off_there_is_one_queue_again() -> None:
    """In key order, and with all slots."""
    bench = bench_with_backlog(started=False)
    bench.schedule(-5, -1)
    on_time(bench, -4, -2)

    bench.tell(BandsChanged(None))
    bench.schedule(-3)
    bench.tell(StartTasks())

    assert bench.executed() == ["-5", "-4", "-3", "-2", "-1"]


def test_what_was_blocked_goes_on_where_the_backlog_is_worked_off() -> None:
    """Its slots are not kept any more."""
    bench = bench_with_backlog()
    bench.schedule(*range(-108, -100))
    bench.executed()

    bench.tell(BandsChanged(None))

    assert bench.executed() == ["-102", "-101"]


def test_p8_the_first_of_both_queues_holds_the_watermark_back() -> None:
    """Whichever it is."""
    bench = bench_with_backlog(started=False)
    bench.schedule(2_000)
    on_time(bench, 1_000)

    bench.tell(MeasureProgress(None, (), NOW_MS, Probe()))

    assert bench.executor.take(MeasureProgress).earliest_ms == NOW_MS + 1_000


def test_p13_the_others_leave_memory_before_what_is_on_time() -> None:
    """They have to wait anyway."""
    bench = bench_with_backlog(1_000, 2_000)
    on_time(bench, 3_000, 4_000)

    bench.tell(ShrinkWindow(3))

    assert lowered(bench) == [(task_due_in(1_000).key, False)]


def test_p13_what_is_on_time_leaves_memory_when_nothing_else_is_there() -> None:
    """The others first, so that none of them is beyond what was left (P8)."""
    bench = bench_with_backlog(1_000, 2_000)
    on_time(bench, 1_500, 2_500)

    bench.tell(ShrinkWindow(1))

    nothing = TaskKey(task_due_in(1_000).key.scheduled_ms - 1, "", "")
    assert lowered(bench) == [(nothing, False), (task_due_in(1_500).key, True)]


def test_p13_both_count() -> None:
    """Tasks and bytes."""
    bench = bench_with_backlog(1_000)

    on_time(bench, 2_000)

    budget = bench.harness.siblings.budget
    assert budget.waiting_bytes == 2 * task_due_in(1_000).size_bytes


@pytest.mark.parametrize("due_in_ms", [1_000, 2_000])
def test_p12_a_command_finds_a_task_in_either_queue(due_in_ms: int) -> None:
    """And it is gone."""
    bench = bench_with_backlog(1_000)
    on_time(bench, 2_000)

    bench.withdraw(due_in_ms)
    bench.harness.advance(2_000)

    assert bench.executed() == [str(3_000 - due_in_ms)]


@pytest.mark.parametrize("due_in_ms", [1_000, 2_000])
def test_p6_a_later_record_finds_a_task_in_either_queue(due_in_ms: int) -> None:
    """It is what runs."""
    bench = bench_with_backlog(1_000)
    on_time(bench, 2_000)
    newer = task_due_in(due_in_ms, offset=9)

    bench.tell(UpdateTask(newer))
    bench.harness.advance(2_000)

    executed = [task for each in bench.executor.take_all(ExecuteTasks) for task in each.tasks]
    assert newer in executed and len(executed) == 2
