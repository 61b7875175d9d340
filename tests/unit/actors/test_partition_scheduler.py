"""PartitionScheduler: never early, in key order, no more than there are slots."""

import pytest

from hourhand.actors.messages import (
    DrainTasks,
    ExecuteTasks,
    LoadMeasured,
    LoadStragglers,
    LowerCheckpoint,
    MeasureLoad,
    MeasureProgress,
    ScheduleTasks,
    ShrinkWindow,
    StartTasks,
    TaskWithdrawn,
    UpdateTask,
    WithdrawTask,
)
from hourhand.actors.model.execution.commands import Withdrawal, WithdrawalResult
from hourhand.actors.model.operations.events import WindowShrunk
from hourhand.actors.model.operations.ownership import Straggler
from hourhand.actors.partition_scheduler import PartitionScheduler
from tests.builders import NOW_MS
from tests.unit.actors.partition_scheduler_bench import Bench, task_due_in
from tests.unit.probes import PARTITION, Probe


def test_p2_a_task_is_handed_on_when_it_is_due_and_not_before() -> None:
    """To the millisecond."""
    bench = Bench()
    bench.schedule(5_000)

    bench.harness.advance(4_999)
    early = bench.executed()
    bench.harness.advance(1)

    assert (early, bench.executed()) == ([], ["5000"])


def test_p2_a_clock_set_back_makes_a_task_wait() -> None:
    """Until the wall clock says that it is due."""
    bench = Bench()
    bench.schedule(5_000)

    bench.harness.advance(3_000)
    bench.harness.clock.step_wall(-10_000)
    bench.harness.advance(11_999)
    early = bench.executed()
    bench.harness.advance(1)

    assert (early, bench.executed()) == ([], ["5000"])


def test_a_clock_set_forward_is_noticed_within_the_check_interval() -> None:
    """No timer sleeps longer."""
    bench = Bench()
    bench.schedule(3_600_000)

    bench.harness.clock.step_wall(3_600_000)
    bench.harness.advance(1_000)

    assert bench.executed() == ["3600000"]


def test_p4_due_tasks_are_handed_on_in_key_order() -> None:
    """In one message where they are due together."""
    bench = Bench(started=False)
    bench.schedule(-1, -3, -2)

    bench.tell(StartTasks())

    assert bench.executor.messages[1:] == [StartTasks()]
    assert bench.executed() == ["-3", "-2", "-1"]


def test_an_earlier_task_that_comes_later_does_not_wait_for_the_timer_of_another() -> None:
    """There is one timer, for the earliest."""
    bench = Bench()
    bench.schedule(900)

    bench.schedule(10)
    bench.harness.advance(10)

    assert bench.executed() == ["10"]


def test_p4_nothing_is_handed_on_before_the_partition_may_start() -> None:
    """However long it is due."""
    bench = Bench(started=False)
    bench.schedule(-1)
    bench.harness.advance(60_000)
    early = bench.executed()

    bench.tell(StartTasks())

    assert (early, bench.executed()) == ([], ["-1"])


def test_records_of_one_key_are_merged() -> None:
    """A replay does not undo a later record, nor run twice."""
    bench = Bench()

    bench.tell(ScheduleTasks((task_due_in(10, offset=9),)))
    bench.tell(ScheduleTasks((task_due_in(10, offset=5),)))
    bench.harness.advance(10)

    batch = bench.executor.take(ExecuteTasks)
    assert [task.offset for task in batch.tasks] == [9]


def test_it_says_how_much_is_in_memory() -> None:
    """Waiting and executing apart."""
    bench = Bench()
    bench.schedule(-1, 5_000, 6_000)

    bench.tell(MeasureLoad())

    assert bench.harness.controller.take(LoadMeasured) == LoadMeasured(2, 1)


def test_p13_it_says_unasked_that_memory_is_full() -> None:
    """What comes by the log does not ask for room."""
    bench = Bench()

    bench.schedule(*range(1_000, 1_011))

    assert bench.harness.controller.take(LoadMeasured) == LoadMeasured(11, 0)


def test_p13_the_latest_tasks_are_left_to_the_store() -> None:
    """And the checkpoint is lowered to the last that is kept."""
    bench = Bench()
    bench.schedule(3_000, 1_000, 2_000, 4_000)

    bench.tell(ShrinkWindow(2))
    bench.harness.advance(10_000)

    assert bench.harness.persistence.take(LowerCheckpoint).key == task_due_in(2_000).key
    assert bench.executed() == ["1000", "2000"]
    assert bench.harness.telemetry.of(WindowShrunk) == [WindowShrunk(PARTITION, 2)]


def test_a_window_shrunk_to_nothing_lowers_the_checkpoint_below_all() -> None:
    """Every task must be loaded again."""
    bench = Bench()
    bench.schedule(1_000, 2_000)

    bench.tell(ShrinkWindow(0))

    assert bench.harness.persistence.take(LowerCheckpoint).key < task_due_in(1_000).key


def test_a_window_that_is_small_enough_is_not_shrunk() -> None:
    """The checkpoint stays."""
    bench = Bench()
    bench.schedule(1_000)

    bench.tell(ShrinkWindow(1))

    assert not bench.harness.persistence.has(LowerCheckpoint)


def test_p6_a_later_record_is_for_the_task_that_waits_and_for_whoever_was_handed_it() -> None:
    """It makes none wait that did not."""
    bench = Bench()
    bench.schedule(1_000)

    updates = [UpdateTask(task_due_in(due, offset=9)) for due in (1_000, -5)]
    for update in updates:
        bench.tell(update)
    bench.harness.advance(10_000)

    executed = bench.executor.take(ExecuteTasks)
    assert executed.tasks == (task_due_in(1_000, offset=9),)
    assert bench.executor.take_all(UpdateTask) == updates
    assert not bench.executed()


def test_what_was_left_to_the_store_is_taken_again() -> None:
    """A shrunk task comes back by a later load."""
    bench = Bench()
    bench.schedule(1_000, 2_000)
    bench.tell(ShrinkWindow(1))

    bench.schedule(2_000)
    bench.harness.advance(2_000)

    assert bench.executed() == ["1000", "2000"]


def test_progress_goes_on_to_the_executor_with_what_waits_here() -> None:
    """The first open task, withdrawn ones left out."""
    bench = Bench()
    bench.schedule(1_000, 2_000)
    bench.withdraw(1_000)

    bench.tell(MeasureProgress(None, (), 0, Probe()))

    assert bench.executor.take(MeasureProgress).earliest_ms == NOW_MS + 2_000


def test_stragglers_not_handed_on_yet_count_as_held() -> None:
    """Or the watermark would pass them without listing them."""
    bench = Bench(started=False)
    straggler = Straggler("x", NOW_MS - 50)
    bench.tell(LoadStragglers((straggler,), NOW_MS))

    bench.tell(MeasureProgress(None, (), NOW_MS, Probe()))

    assert bench.executor.take(MeasureProgress).stragglers == (straggler,)


def test_p4_held_orderings_reach_the_executor_before_any_task() -> None:
    """What the watermark left behind runs first; old attempts are followed when all is there."""
    bench = Bench(started=False)
    bench.schedule(-1)
    bench.tell(LoadStragglers((Straggler("x", NOW_MS - 50),), NOW_MS))

    bench.tell(StartTasks())

    kinds = [type(message) for message in bench.executor.messages]
    assert kinds == [LoadStragglers, ExecuteTasks, StartTasks]


@pytest.mark.parametrize("withdrawal", Withdrawal)
def test_a_waiting_task_is_withdrawn(withdrawal: Withdrawal) -> None:
    """It is not handed on any more; the executor, which may run an older record, answers."""
    bench = Bench()
    bench.schedule(1_000)

    asker = bench.withdraw(1_000, withdrawal)
    bench.harness.advance(2_000)

    assert not asker.messages
    assert [type(message) for message in bench.executor.messages] == [WithdrawTask]


def test_a_waiting_task_that_ran_is_not_moved() -> None:
    """It goes on waiting."""
    bench = Bench()
    bench.tell(ScheduleTasks((task_due_in(1_000, last=1),)))

    asker = bench.withdraw(1_000, Withdrawal.MOVE)
    bench.harness.advance(1_000)

    assert asker.take(TaskWithdrawn).result is WithdrawalResult.RAN
    assert bench.executed() == ["1000"]


def test_p12_a_command_for_a_task_handed_on_follows_it() -> None:
    """Behind it, in the same mailbox."""
    bench = Bench()
    bench.schedule(-1)

    asker = bench.withdraw(-1)

    assert [type(m) for m in bench.executor.messages] == [ExecuteTasks, WithdrawTask]
    assert not asker.messages


def test_p15_nothing_is_handed_on_after_a_drain_began() -> None:
    """Neither by the timer, nor by slots, nor by what arrives."""
    bench = Bench()
    bench.schedule(-2)
    bench.schedule(1_000)
    early = len(bench.executed())

    bench.tell(DrainTasks())
    bench.schedule(-1)
    bench.release(1)
    bench.harness.advance(5_000)

    assert early == 1
    assert not bench.executed() and bench.executor.has(DrainTasks)


def test_p15_a_partition_that_drains_while_it_catches_up_never_starts() -> None:
    """Held orderings would begin tasks that nobody drains."""
    bench = Bench(started=False)
    bench.schedule(-1)
    bench.tell(LoadStragglers((Straggler("x", NOW_MS - 50),), NOW_MS))
    bench.tell(DrainTasks())

    bench.tell(StartTasks())

    assert [type(message) for message in bench.executor.messages] == [DrainTasks]


def test_it_is_started_by_its_parent_only() -> None:
    """On its own it would have no tree to fail with."""
    with pytest.raises(TypeError, match="spawn"):
        PartitionScheduler.start()
