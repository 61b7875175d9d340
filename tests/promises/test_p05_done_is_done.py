"""P5: a done key never runs again while its completion is kept."""

from datetime import timedelta

import pytest
import tenacity

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.outcome import Drop
from hourhand.actors.model.task.key import first_key_at
from hourhand.actors.model.task.status import CommandOutcome, CompletionResult
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.settings import WatermarkSettings
from tests.builders import NOW_MS, a_task
from tests.promises.group import QUIET, Group, Member

DAY_MS = 86_400_000
FIRST_KEY = first_key_at(NOW_MS - DAY_MS)


def _finish(group: Group, how: str) -> CompletionResult:
    """Say how the next attempts end; return what the key will be closed as."""
    if how == "well":
        return CompletionResult.SUCCESS
    if how == "dropped":
        group.journal.says = lambda _task, _attempt: Drop("no longer wanted")
        return CompletionResult.DROPPED
    group.journal.retry = RetryPolicy(attempts_max=1)
    group.journal.says = _fail
    return CompletionResult.FAILURE


def _fail(_task: Task, _attempt: int) -> None:
    raise ValueError("never works")


@pytest.mark.parametrize("how", ["well", "failed", "dropped"])
@pytest.mark.parametrize("restarted", [False, True])
def test_p5_a_record_that_is_read_again_does_not_run_again(how: str, *, restarted: bool) -> None:
    """The group forgot its offsets, or the producer repeats itself."""
    group = Group()
    member = group.join()
    result = _finish(group, how)
    group.client.schedule_task(a_task(due_in_ms=1_000)).result(0)
    group.advance(5_000)
    if restarted:
        group.kill(member)
        group.replay()
        group.join()
    group.append(a_task(due_in_ms=1_000, data={"another": "record"}))
    group.advance(120_000)

    assert group.journal.names == ["invoice-42"]
    assert group.result_of(a_task(due_in_ms=1_000)) is result


def test_p5_a_whole_log_read_again_by_a_new_node_changes_nothing() -> None:
    """A hundred tasks, and every offset forgotten."""
    group = Group(partitions=2)
    for number in range(100):
        group.client.schedule_task(
            a_task(due_in_ms=number * 100, ordering_id=f"id-{number % 9}", uniqueness_key="x")
        ).result(0)
    member = group.join()
    group.advance(60_000)
    ran = len(group.journal.ran)
    group.kill(member)
    for partition in range(2):
        group.replay(partition)

    group.join()
    group.advance(600_000)

    assert ran == 100
    assert len(group.journal.ran) == 100


def _swept(group: Group) -> Member:
    """Run a task and wait until its hour is deleted from the schedule."""
    member = group.join()
    group.client.schedule_task(a_task(due_in_ms=1_000)).result(0)
    group.advance(hours=5)
    assert group.data.tasks.of_key(0, a_task(due_in_ms=1_000).key) == []
    return member


@pytest.mark.parametrize("days", [0, 1, 13])
def test_p5_it_stays_done_after_its_row_was_deleted(days: int) -> None:
    """The completion outlives the schedule row by its retention."""
    group = Group(tree=QUIET, step_ms=600_000)
    _swept(group)
    group.advance(days * DAY_MS)

    group.append(a_task(due_in_ms=1_000))
    group.advance(hours=1)

    assert group.journal.names == ["invoice-42"]


def test_p5_it_stays_done_after_an_older_task_lowered_the_watermark_below_it() -> None:
    """The new node loads from before the done key, and finds no row of it."""
    group = Group(tree=QUIET, step_ms=600_000)
    member = _swept(group)
    group.journal.says = _fail
    group.append(a_task(due_in_ms=-DAY_MS, uniqueness_key="ancient", ordering_id="other"))
    group.settle()
    group.replace(member)

    group.append(a_task(due_in_ms=1_000))
    group.settle()

    assert group.journal.names.count("invoice-42") == 1


def test_p5_its_completion_goes_only_after_its_retention() -> None:
    """And after its row; whoever schedules it then has a new task."""
    group = Group(tree=QUIET, step_ms=3_600_000)
    _swept(group)
    task = a_task(due_in_ms=1_000)
    group.advance(timedelta(days=13, hours=18) / timedelta(milliseconds=1))
    kept = group.result_of(task)
    group.advance(hours=12)

    assert group.clock.now_ms() - NOW_MS > 14 * DAY_MS
    assert kept is CompletionResult.SUCCESS
    assert group.result_of(task) is None


def _failed(group: Group, how: str = "failed", **task: object) -> Task:
    """Run a task that ends so."""
    _finish(group, how)
    failing = a_task(due_in_ms=1_000, **task)  # type: ignore[arg-type]
    group.append(failing)
    group.advance(60_000)
    return failing


@pytest.mark.parametrize("days", [0.03, 0.2, 1, 6.9])
@pytest.mark.parametrize("how", ["failed", "dropped"])
@pytest.mark.parametrize("restarted", [False, True])
def test_p5_a_retry_opens_failed_work_for_days(how: str, days: float, *, restarted: bool) -> None:
    """With its data, although its hour was deleted long ago, and its neighbours with it."""
    group = Group(tree=QUIET, step_ms=600_000)
    member = group.join()
    group.append(a_task(due_in_ms=500, uniqueness_key="well", ordering_id="another"))
    group.advance(600)
    task = _failed(group, how)
    group.advance(days * DAY_MS)
    if restarted:
        group.replace(member)
    group.journal.says = lambda _task, _attempt: None

    receipt = group.client.retry_task(task.key).result(0)
    group.advance(60_000)

    outcome = group.client.outcome(receipt)
    assert outcome is not None and outcome.outcome is CommandOutcome.APPLIED
    assert group.journal.ran[-1].data == task.data
    assert group.result_of(task) is CompletionResult.SUCCESS
    if days > 0.1:
        rows = group.data.tasks.before(0, FIRST_KEY, NOW_MS + DAY_MS)
        assert [row.key for row in rows] == [task.key]


def test_p5_what_ended_well_stays_done_while_older_work_is_open_again() -> None:
    """A new owner reads from before it on, and finds no row of it."""
    group = Group(tree=QUIET, step_ms=600_000)
    member = group.join()
    task = _failed(group)
    group.journal.says = lambda _task, _attempt: None
    well = a_task(due_in_ms=2 * 3_600_000, uniqueness_key="well", ordering_id="another")
    group.append(well)
    group.advance(DAY_MS)
    group.journal.says = _fail
    group.journal.retry = RetryPolicy(attempts_max=2, wait=tenacity.wait_fixed(3_600))
    group.client.retry_task(task.key).result(0)
    group.settle()
    assert group.data.claims[0].watermark.watermark_ms <= NOW_MS + 1_000
    group.replace(member)

    group.append(well)
    group.settle()

    assert group.journal.names == ["invoice-42", "well", "invoice-42"]


def test_p5_failed_work_is_kept_for_its_retention_from_its_end_on() -> None:
    """Not from its time: this one failed after ten days."""
    group = Group(tree=QUIET, step_ms=3_600_000)
    group.join()
    group.journal.retry = RetryPolicy(attempts_max=2, wait=tenacity.wait_fixed(10 * 86_400))
    group.journal.says = _fail
    task = a_task(due_in_ms=1_000)
    group.append(task)
    group.advance(10 * DAY_MS + 60_000)
    kept = []
    for _ in range(9):
        kept.append(bool(group.data.tasks.of_key(0, task.key)))
        group.advance(DAY_MS)

    assert len(group.journal.ran) == 2
    assert kept == [True] * 7 + [kept[7]] + [False]
    receipt = group.client.retry_task(task.key).result(0)
    group.advance(1_000)
    outcome = group.client.outcome(receipt)
    assert outcome is not None and outcome.outcome is CommandOutcome.DATA_GONE
    assert group.result_of(task) is CompletionResult.FAILURE


def test_p5_what_was_brought_back_is_done_for_its_whole_retention() -> None:
    """It counts from when its row is deleted again."""
    group = Group(tree=QUIET, step_ms=3_600_000)
    group.join()
    task = _failed(group)
    group.advance(6 * DAY_MS)
    group.journal.says = lambda _task, _attempt: None
    group.client.retry_task(task.key).result(0)
    group.advance(13 * DAY_MS)

    group.append(task)
    group.advance(60_000)

    assert len(group.journal.ran) == 2


def test_p5_a_crowd_of_failed_tasks_is_kept_while_others_run() -> None:
    """Some are written a page at a time; one that is retried meanwhile is not lost."""
    group = Group(tree=QUIET, step_ms=600_000)
    group.join()
    _finish(group, "failed")
    crowd = [
        a_task(due_in_ms=n, ordering_id=f"id-{n % 50}", uniqueness_key=str(n)) for n in range(700)
    ]
    for task in crowd:
        group.append(task)
    group.advance(hours=3)

    rows = group.data.tasks.before(0, FIRST_KEY, NOW_MS + DAY_MS)
    assert {row.key for row in rows} == {task.key for task in crowd}
    group.journal.says = lambda _task, _attempt: None
    for task in crowd:
        group.client.retry_task(task.key).result(0)
    group.advance(hours=2)
    assert {group.result_of(task) for task in crowd} == {CompletionResult.SUCCESS}
    group.advance(8 * DAY_MS)
    assert not group.data.tasks.before(0, FIRST_KEY, NOW_MS + DAY_MS)


def test_p5_without_a_retention_of_their_own_failed_tasks_go_with_their_hour() -> None:
    """``failed_retention_ms`` of 0: whoever wants none of it pays nothing for it."""
    watermark = WatermarkSettings(interval_ms=600_000, failed_retention_ms=0)
    group = Group(tree=QUIET.model_copy(update={"watermark": watermark}), step_ms=600_000)
    group.join()
    task = _failed(group)

    group.advance(hours=3)

    assert group.data.tasks.of_key(0, task.key) == []


def test_p5_cancelled_is_not_done() -> None:
    """A later schedule record opens the key again."""
    group = Group()
    group.join()
    task = a_task(due_in_ms=10_000)
    group.client.schedule_task(task).result(0)
    group.client.cancel_task(task.key).result(0)
    group.advance(1_000)
    group.client.schedule_task(task).result(0)
    group.advance(20_000)

    assert group.journal.names == ["invoice-42"]
    assert group.result_of(task) is CompletionResult.SUCCESS


def test_p5_moved_is_not_done() -> None:
    """The old key may be scheduled again beside the new one."""
    group = Group()
    group.join()
    task = a_task(due_in_ms=10_000)
    group.client.schedule_task(task).result(0)
    group.client.reschedule_task(task.key, a_task(due_in_ms=20_000).scheduled_time).result(0)
    group.client.schedule_task(task).result(0)
    group.advance(30_000)

    assert [ran.at_ms - NOW_MS for ran in group.journal.ran] == [10_000, 20_000]


def test_p5_an_operators_retry_reopens_a_failed_key_once() -> None:
    """It runs again, ends well, and is done again."""
    group = Group()
    group.join()
    _finish(group, "failed")
    task = a_task(due_in_ms=1_000)
    group.client.schedule_task(task).result(0)
    group.advance(5_000)
    group.journal.says = lambda _task, _attempt: None
    receipt = group.client.retry_task(task.key).result(0)
    group.advance(5_000)
    group.append(task)
    group.advance(5_000)

    outcome = group.client.outcome(receipt)
    assert outcome is not None and outcome.outcome is CommandOutcome.APPLIED
    assert [ran.attempt for ran in group.journal.ran] == [1, 2]
    assert group.result_of(task) is CompletionResult.SUCCESS


@pytest.mark.parametrize("messages", range(30))
def test_p5_an_end_amid_a_cancel_leaves_the_key_done(messages: int) -> None:
    """Whichever message the end falls behind, a later record opens nothing."""
    group = Group()
    member = group.join(held=True)
    task = a_task(due_in_ms=1_000)
    group.client.schedule_task(task).result(0)
    group.advance(1_000)
    member.runner.begin()
    group.client.cancel_task(task.key).result(0)
    member.virtual.node.step(0)
    for _ in range(messages):
        member.virtual.system.run_one()
    member.runner.end()
    group.settle()
    group.append(task)
    group.advance(60_000)

    assert group.result_of(task) is CompletionResult.SUCCESS
    assert member.runner.begin() == 0
