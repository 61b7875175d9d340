"""PartitionExecutor: one child for each busy ordering id, ended only when it saw everything."""

import pytest

from actors.messages import (
    AdoptAttempt,
    ExecuteTask,
    HoldOrdering,
    HoldOrderings,
    MeasureProgress,
    ProgressMeasured,
    SlotsReleased,
    SpillQueue,
    StartTasks,
    TasksReleased,
    TaskWithdrawn,
    UpdateTask,
    WithdrawTask,
)
from actors.model.commands import Withdrawal, WithdrawalResult
from actors.model.key import first_key_at
from actors.model.ownership import Straggler
from actors.model.task import StoredTask
from actors.partition_executor import PartitionExecutor
from actors.ports.runner import Runner
from tests.builders import NOW_MS, a_stored_task, an_attempt
from tests.unit.actors.partition_executor_bench import Bench
from tests.unit.probes import Harness, Probe, ProbeActor


def _task(ordering_id: str, due_in_ms: int = 0) -> StoredTask:
    return a_stored_task(due_in_ms=due_in_ms, ordering_id=ordering_id)


def _sent(child: ProbeActor, kind: type[object]) -> int:
    return sum(isinstance(message, kind) for message in child.messages)


def test_each_busy_ordering_id_has_one_child() -> None:
    """Its tasks go there, in order."""
    bench = Bench()
    first, second = _task("x", 0), _task("x", 5)

    bench.execute(first, _task("y"), second)

    assert bench.children[0].messages == [ExecuteTask(first), ExecuteTask(second)]
    assert len(bench.children) == 2


def test_an_idle_child_that_saw_everything_is_ended() -> None:
    """The next task of its id gets a new one."""
    bench = Bench()
    bench.execute(_task("x"))

    bench.release("x", received=1)
    bench.execute(_task("x", 5))

    assert len(bench.children) == 2 and _sent(bench.children[1], ExecuteTask) == 1
    assert [child.actor_ref.is_alive() for child in bench.children] == [False, True]


def test_an_idle_child_that_has_a_message_under_way_is_kept() -> None:
    """The task would be lost."""
    bench = Bench()
    bench.execute(_task("x"), _task("x", 5))

    bench.release("x", received=1)
    bench.execute(_task("x", 9))

    assert len(bench.children) == 1 and _sent(bench.children[0], ExecuteTask) == 3


def test_slots_released_together_are_told_once() -> None:
    """One message for all that is released until it is handled."""
    bench = Bench()
    bench.execute(_task("x"), _task("y"))

    for ordering_id in ("x", "y"):
        bench.ref.tell(TasksReleased(ordering_id, 1, 1, None, held=False))
    bench.harness.run()
    together = bench.harness.scheduler.take_all(SlotsReleased)
    bench.execute(_task("x"))
    bench.release("x", received=1)

    assert together == [SlotsReleased(2)]
    assert bench.harness.scheduler.take_all(SlotsReleased) == [SlotsReleased(1)]


def test_a_command_for_an_id_that_is_not_busy_is_answered_at_once() -> None:
    """The store alone knows the key."""
    bench = Bench()
    asker = Probe()

    bench.tell(WithdrawTask(_task("x").key, Withdrawal.CLOSE, asker))

    assert asker.take(TaskWithdrawn).result is WithdrawalResult.ABSENT


def test_p12_a_command_on_its_way_to_a_child_is_never_lost() -> None:
    """The child counts it, and is not ended before it answered."""
    bench = Bench()
    bench.execute(_task("x"))

    bench.tell(WithdrawTask(_task("x").key, Withdrawal.CLOSE, Probe()))
    bench.release("x", received=1)
    bench.execute(_task("x", 5))

    assert len(bench.children) == 1 and _sent(bench.children[0], WithdrawTask) == 1


def test_progress_is_the_first_open_task_of_any_id() -> None:
    """As the children report it, and what is on its way to them."""
    bench = Bench()
    bench.execute(_task("x", -50), _task("y", -30))
    before = bench.progress()

    bench.release("x", received=1, released=0, first_ms=NOW_MS - 10)

    assert before == ProgressMeasured(NOW_MS - 50, ())
    assert bench.progress() == ProgressMeasured(NOW_MS - 30, ())


def test_a_report_from_before_a_task_was_sent_does_not_hide_it() -> None:
    """The child had not seen it yet."""
    bench = Bench()
    bench.execute(_task("x", -10))
    bench.execute(_task("x", -50))

    bench.release("x", received=1, released=0, first_ms=NOW_MS - 10)

    assert bench.progress().earliest_ms == NOW_MS - 50


def test_held_ids_are_stragglers_earliest_first() -> None:
    """The watermark may pass them."""
    bench = Bench()
    bench.execute(_task("x", -30), _task("y", -50), _task("z", -10))

    bench.release("x", received=1, released=0, first_ms=NOW_MS - 30, held=True)
    bench.release("y", received=1, released=0, first_ms=NOW_MS - 50, held=True)

    held = (Straggler("y", NOW_MS - 50), Straggler("x", NOW_MS - 30))
    assert bench.progress() == ProgressMeasured(NOW_MS - 10, held)


def test_p8_an_id_that_several_hold_is_one_straggler_from_its_first_task_on() -> None:
    """A new owner reads what lies before the watermark from one time of each id."""
    bench = Bench()
    asker = Probe()
    bench.execute(_task("y", -70), _task("x", -50))
    bench.release("x", received=1, released=0, first_ms=NOW_MS - 50, held=True)
    bench.release("y", received=1, released=0, first_ms=NOW_MS - 70, held=True)
    known = (Straggler("x", NOW_MS - 90), Straggler("y", NOW_MS - 60))

    bench.tell(MeasureProgress(None, known, NOW_MS, asker))

    held = (Straggler("x", NOW_MS - 90), Straggler("y", NOW_MS - 70))
    assert asker.take(ProgressMeasured).held == held


def test_an_id_with_tasks_before_the_watermark_counts_as_held() -> None:
    """Whatever it does, or the watermark would go back."""
    bench = Bench()
    bench.execute(_task("x", -30))

    assert bench.progress(NOW_MS) == ProgressMeasured(None, (Straggler("x", NOW_MS - 30),))


def test_what_the_scheduler_counted_is_passed_on() -> None:
    """A task on its way between the two is counted by one of them."""
    bench = Bench()
    asker, held = Probe(), Straggler("s", NOW_MS - 99)

    bench.tell(MeasureProgress(NOW_MS - 70, (held,), NOW_MS - 60_000, asker))

    assert asker.take(ProgressMeasured) == ProgressMeasured(NOW_MS - 70, (held,))


def test_p16_what_an_earlier_tree_left_running_is_adopted_before_any_task() -> None:
    """One child for each ordering id."""
    harness = Harness()
    runner: Runner = harness.runner
    attempts = [an_attempt(task=_task("x")), an_attempt(task=_task("y"))]
    harness.runner.left.extend([*attempts, an_attempt(task=_task("z"), partition=9)])

    bench = Bench(harness)
    bench.execute(_task("x", 5))

    assert runner.unsettled(0) == attempts
    assert [child.messages[0] for child in bench.children] == [
        AdoptAttempt(attempt) for attempt in attempts
    ]


def test_p4_an_id_that_adopted_an_attempt_hears_that_the_partition_may_start() -> None:
    """It counts nothing: an id that is done is idle before and after."""
    harness = Harness()
    harness.runner.left.append(an_attempt(task=_task("x")))
    bench = Bench(harness)

    bench.tell(StartTasks())
    told = list(bench.children[0].messages)
    bench.release("x", received=1, released=0)

    assert [type(message) for message in told] == [AdoptAttempt, StartTasks]
    assert bench.progress().earliest_ms is None


def test_a_straggler_reads_what_lies_before_the_watermark() -> None:
    """From its first incomplete task on."""
    bench = Bench()

    bench.tell(HoldOrderings((Straggler("x", NOW_MS - 50),), NOW_MS - 20))

    assert bench.children[0].messages == [
        HoldOrdering(first_key_at(NOW_MS - 50), first_key_at(NOW_MS - 20))
    ]
    assert bench.progress(NOW_MS - 20).held == (Straggler("x", NOW_MS - 50),)


def test_a_straggler_behind_a_watermark_that_was_lowered_again_has_nothing_to_read() -> None:
    """The ordinary load comes by."""
    bench = Bench()

    bench.tell(HoldOrderings((Straggler("x", NOW_MS - 20),), NOW_MS - 50))

    assert not bench.children


def test_an_id_whose_user_code_runs_long_is_told_to_spill_its_queue() -> None:
    """One that is known to be held is not, nor any other."""
    bench = Bench()
    slow, held, quick = _task("x"), _task("y"), _task("z")
    bench.execute(slow, held, quick)
    bench.release("y", received=1, released=0, first_ms=NOW_MS, held=True)
    bench.harness.runner.slow = [an_attempt(task=slow), an_attempt(task=held)]

    bench.harness.advance(1_000)

    assert [_sent(child, SpillQueue) for child in bench.children] == [1, 0, 0]


def test_p6_a_later_record_of_a_busy_id_goes_there_and_makes_no_other_busy() -> None:
    """It is counted: an id that has not seen it is not ended, nor given back to a lane."""
    bench = Bench()
    bench.execute(_task("x"))

    bench.tell(UpdateTask(_task("x")))
    bench.tell(UpdateTask(_task("y")))
    bench.release("x", received=1)
    early = bench.progress().earliest_ms
    bench.release("x", received=2, released=0)

    assert len(bench.children) == 1 and _sent(bench.children[0], UpdateTask) == 1
    assert early is not None and bench.progress().earliest_ms is None


def test_it_is_started_by_its_parent_only() -> None:
    """On its own it would have no tree to fail with."""
    with pytest.raises(TypeError, match="spawn"):
        PartitionExecutor.start()
