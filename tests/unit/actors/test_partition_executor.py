"""PartitionExecutor: which ids are busy, what a message leads to, and how far everything is."""

import gc
from types import FunctionType, ModuleType

import pytest

from hourhand.actors.messages import (
    CheckTasks,
    MeasureProgress,
    OutcomesRecorded,
    ProgressMeasured,
    RecordOutcomes,
    SlotsReleased,
    StartTasks,
    UpdateTask,
)
from hourhand.actors.model.execution.attempts import AttemptEnded, Ending
from hourhand.actors.model.execution.commands import WithdrawalResult
from hourhand.actors.model.operations.ownership import Straggler
from hourhand.actors.model.task.key import first_key_at
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.partition_executor import PartitionExecutor
from tests.builders import NOW_MS, a_stored_task, an_attempt
from tests.unit.actors.execution_bench import Bench, holding_of
from tests.unit.fakes import SLOW_MS
from tests.unit.probes import EPOCH, Probe


def _task(ordering_id: str, due_in_ms: int = 0) -> StoredTask:
    return a_stored_task(due_in_ms=due_in_ms, ordering_id=ordering_id)


def _begin(bench: Bench, *tasks: StoredTask) -> None:
    bench.execute(*tasks)
    bench.answer_check()


def test_p7_ordering_ids_do_not_wait_for_each_other() -> None:
    """Each has a task at hand."""
    bench = Bench(known_since_ms=0)

    bench.execute(_task("x"), _task("y"), _task("x", 5))

    assert [each.attempt.task.key.ordering_id for each in bench.runner.started] == ["x", "y"]


def test_what_a_message_leads_to_is_sent_together() -> None:
    """Checks, outcomes, slots and successes of many ids: each kind once."""
    bench = Bench()
    tasks = [_task(f"id-{number}") for number in range(5)]
    bench.execute(*tasks)
    checks = bench.tracker.messages[:]
    bench.answer_check()
    for each in tuple(bench.runner.started):
        each.listener(AttemptEnded(each.attempt, Ending.DONE, NOW_MS, NOW_MS))
    bench.runner.started.clear()
    bench.harness.run()
    outcomes = bench.tracker.messages[:]

    bench.ref.tell(_answer(bench))
    bench.harness.run()

    assert [type(message) for message in (*checks, *outcomes)] == [CheckTasks, RecordOutcomes]
    assert bench.harness.scheduler.take_all(SlotsReleased) == [SlotsReleased(5)]
    assert len(bench.runner.settled) == 5


@pytest.mark.parametrize("waits", [False, True], ids=["nothing waits", "a task waits"])
def test_slots_are_told_of_where_a_task_waits_for_one(waits: bool) -> None:
    """A task that comes later looks at the budget by itself."""
    bench = Bench(known_since_ms=0)
    bench.budget.keep_waiting(0 if waits else -1)
    bench.execute(_task("x"), _task("y"))
    for each in tuple(bench.runner.started):
        each.listener(AttemptEnded(each.attempt, Ending.DONE, NOW_MS, NOW_MS))
    bench.harness.run()
    bench.ref.tell(_answer(bench))
    bench.harness.run()

    told = bench.harness.scheduler.take_all(SlotsReleased)
    assert told == ([SlotsReleased(2)] if waits else [])
    assert bench.budget.slots == 0


def _answer(bench: Bench) -> object:
    asked = bench.tracker.take(RecordOutcomes)
    return OutcomesRecorded(asked.completions, asked.records)


def test_an_idle_id_is_forgotten_and_its_next_task_has_an_executor_of_its_own() -> None:
    """A user's object lives as long as its id is busy."""
    bench = Bench()

    for due_in_ms in (0, 5):
        bench.begin(_task("x", due_in_ms))
        bench.finish()

    assert bench.made == [None, None] and bench.is_over


def test_a_command_for_an_id_that_is_not_busy_is_answered_at_once() -> None:
    """The store alone knows the key."""
    bench = Bench()

    assert holding_of(bench.withdraw()) is WithdrawalResult.ABSENT


def test_progress_is_the_first_open_task_of_any_id() -> None:
    """Whatever else of them ended."""
    bench = Bench()
    _begin(bench, _task("x", -50), _task("y", -30))
    before = bench.progress()

    bench.finish()

    assert before == ProgressMeasured(NOW_MS - 50, ())
    assert bench.progress() == ProgressMeasured(NOW_MS - 30, ())


def test_slow_ids_are_stragglers_earliest_first() -> None:
    """The watermark may pass them."""
    bench = Bench()
    _begin(bench, _task("y", -50), _task("x", -30), _task("z", -10))
    bench.runner.slow = [each.attempt for each in bench.runner.started[:2]]

    bench.advance(SLOW_MS)

    held = (Straggler("y", NOW_MS - 50), Straggler("x", NOW_MS - 30))
    assert bench.progress() == ProgressMeasured(NOW_MS - 10, held)


def test_p8_an_id_that_several_hold_is_one_straggler_from_its_first_task_on() -> None:
    """A new owner reads what lies before the watermark from one time of each id."""
    bench, asker = Bench(), Probe()
    _begin(bench, _task("y", -70), _task("x", -50))
    bench.runner.slow = [each.attempt for each in bench.runner.started]
    bench.advance(SLOW_MS)
    known = (Straggler("x", NOW_MS - 90), Straggler("y", NOW_MS - 60))

    bench.tell(MeasureProgress(None, known, NOW_MS, asker))

    held = (Straggler("x", NOW_MS - 90), Straggler("y", NOW_MS - 70))
    assert asker.take(ProgressMeasured).stragglers == held


def test_an_id_with_tasks_before_the_watermark_counts_as_one_that_it_passed() -> None:
    """Whatever it does, or the watermark would go back."""
    bench = Bench()
    bench.begin(_task("x", -30))

    assert bench.progress(NOW_MS) == ProgressMeasured(None, (Straggler("x", NOW_MS - 30),))


def test_what_the_scheduler_counted_is_passed_on() -> None:
    """A task on its way between the two is counted by one of them."""
    bench, asker, held = Bench(), Probe(), Straggler("s", NOW_MS - 99)

    bench.tell(MeasureProgress(NOW_MS - 70, (held,), NOW_MS - 60_000, asker))

    assert asker.take(ProgressMeasured) == ProgressMeasured(NOW_MS - 70, (held,))


def test_p16_what_an_earlier_tree_left_running_is_adopted_with_its_outcome() -> None:
    """A later task of its id waits for it; what another partition left is not touched."""
    attempts = [an_attempt(task=_task("x"), epoch=EPOCH), an_attempt(task=_task("z"), partition=9)]
    bench = Bench(left=attempts)
    bench.tell(StartTasks())

    bench.execute(_task("x", 5))
    waiting = [each.attempt for each in bench.runner.started]
    bench.end()
    closed = bench.record_completion()
    bench.answer_check()

    assert waiting == attempts[:1] and closed.key == attempts[0].task.key
    assert bench.runner.only.task.key.scheduled_ms == NOW_MS + 5


def test_p16_an_attempt_that_another_owner_came_after_is_waited_for_and_its_key_read() -> None:
    """Its outcome proves nothing."""
    attempt = an_attempt(task=_task("x"), epoch=EPOCH - 1)
    bench = Bench(left=[attempt])
    bench.tell(StartTasks())

    bench.end()
    recorded = bench.tracker.has(RecordOutcomes)
    bench.load(attempt.task)

    assert not recorded and bench.runner.settled == [attempt]
    assert bench.runner.only.number == 1 and bench.runner.only.epoch == EPOCH


@pytest.mark.parametrize("starts", [False, True])
def test_p4_an_id_that_adopted_an_attempt_begins_nothing_before_the_partition_may_start(
    starts: bool,
) -> None:
    """The log may hold an earlier task."""
    attempt = an_attempt(task=_task("x"), epoch=EPOCH)
    bench = Bench(left=[attempt])
    if starts:
        bench.tell(StartTasks())

    bench.execute(_task("x", 5))
    bench.finish()

    assert bool(bench.runner.started) is starts


def test_p4_an_adopted_attempt_that_was_refused_begins_anew_when_the_partition_may_start() -> None:
    """The log may hold a later record of its key, or a command."""
    attempt = an_attempt(task=_task("x"), epoch=EPOCH)
    bench = Bench(left=[attempt])

    bench.end(Ending.NOT_STARTED)
    bench.advance(60_000)
    early = bench.running, bench.asks_store
    bench.tell(StartTasks())
    bench.load(attempt.task)

    assert early == ([], False) and len(bench.running) == 1


def test_p4_a_pause_that_ends_before_the_partition_may_start_begins_nothing() -> None:
    """What the id left to the store is read when it may."""
    bench = Bench(left=[an_attempt(task=_task("x"), epoch=EPOCH)])
    bench.pause("x")
    bench.end(Ending.FAILED)
    bench.record()

    bench.pause()
    early = bench.asks_store
    bench.tell(StartTasks())

    assert not early and bench.asks_store


def test_a_straggler_reads_what_lies_before_the_watermark_before_anything_else() -> None:
    """From its first incomplete task on; nothing of the id overtakes it."""
    bench = Bench()

    bench.load_straggler("x", NOW_MS - 50, NOW_MS - 20)
    bench.execute(_task("x"))
    early = bench.running
    progress = bench.progress(NOW_MS - 20)
    request = bench.load(_task("x", -50))

    assert (request.after, request.up_to) == (first_key_at(NOW_MS - 50), first_key_at(NOW_MS - 20))
    assert not early and progress.stragglers == (Straggler("x", NOW_MS - 50),)
    assert bench.runner.only.task.key.scheduled_ms == NOW_MS - 50


def test_a_straggler_behind_a_watermark_that_was_lowered_again_has_nothing_to_read() -> None:
    """The ordinary load comes by."""
    bench = Bench()

    bench.load_straggler("x", NOW_MS - 20, NOW_MS - 50)

    assert not bench.asks_store and bench.is_over


def test_p6_a_later_record_makes_no_id_busy() -> None:
    """It is read from the store in its turn."""
    bench = Bench()

    bench.tell(UpdateTask(_task("y")))

    assert bench.is_over


def test_a_tree_that_is_gone_is_not_kept_by_attempts_that_run() -> None:
    """The runner has them for hours; what waited with them would take memory twice (P13)."""
    bench = Bench()
    bench.begin(_task("x"))
    listener = bench.runner.started[0].listener
    bench.harness.system.stop_tree(bench.ref)

    holders = _reachable(listener)

    assert not any(isinstance(each, PartitionExecutor) for each in holders)


def _reachable(root: object) -> list[object]:
    """Return what an object keeps in memory, classes and modules left aside."""
    found: dict[int, object] = {}
    todo = [root]
    while todo:
        each = todo.pop()
        if id(each) in found or isinstance(each, type | ModuleType | FunctionType):
            continue
        found[id(each)] = each
        todo += gc.get_referents(each)
    return list(found.values())


def test_it_is_started_by_its_parent_only() -> None:
    """On its own it would have no tree to fail with."""
    with pytest.raises(TypeError, match="spawn"):
        PartitionExecutor.start()
