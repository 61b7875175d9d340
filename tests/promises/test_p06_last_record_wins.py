"""P6: the last record of a key wins while the key is pending."""

import pytest

from hourhand import Receipt
from hourhand.actors.model.task.status import CommandOutcome, CompletionResult
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.settings import TreeSettings, WindowSettings
from tests.builders import a_task
from tests.promises.faults import the_nth
from tests.promises.group import Group, Member

DUE_MS = 1_000
TASK = a_task(due_in_ms=DUE_MS)


def _schedule(group: Group, version: int) -> None:
    group.append(a_task(due_in_ms=DUE_MS, data={"version": version}))


def _fail(_task: Task, _attempt: int) -> None:
    raise ValueError("not this time")


def _outcome(group: Group, receipt: Receipt) -> CommandOutcome | None:
    found = group.client.outcome(receipt)
    return None if found is None else found.outcome


def _running(group: Group, tree_tasks: int = 0) -> Member:
    member = group.join(held=True)
    _schedule(group, 1)
    group.advance(DUE_MS)
    assert member.runner.begin() == 1
    return member


def _fail_and_wait(group: Group, member: Member) -> int:
    """Fail what runs; return how many attempts begin in the minutes that follow."""
    member.runner.end(ValueError("not this time"))
    begun = 0
    for _ in range(30):
        group.advance(10_000)
        begun += member.runner.begin()
        member.runner.end(ValueError("not this time"))
    return begun


@pytest.mark.parametrize("restarted", [False, True])
def test_p6_the_last_data_runs(*, restarted: bool) -> None:
    """In one batch, in several, and before or after a restart."""
    group = Group()
    member = group.join()
    _schedule(group, 1)
    _schedule(group, 2)
    group.settle()
    _schedule(group, 3)
    if restarted:
        group.replace(member)
    group.advance(10_000)

    assert [ran.data for ran in group.journal.ran] == [{"version": 3}]


def test_p6_a_running_attempt_keeps_its_data_and_the_next_uses_the_new() -> None:
    """The record arrives while user code runs."""
    group = Group()
    member = _running(group)
    _schedule(group, 2)
    group.settle()
    member.runner.end(ValueError("not this time"))
    group.advance(10_000)
    member.runner.begin()

    assert [attempt.task.data for attempt in member.runner.begun] == [
        b'{"version":1}',
        b'{"version":2}',
    ]


def test_p6_data_that_came_before_a_rebuild_is_used_by_the_next_attempt() -> None:
    """An adopted attempt knows only the old data."""
    group = Group()
    member = _running(group)
    _schedule(group, 2)
    group.settle()
    member.faults.fails = the_nth(1, "insert_tasks")
    group.append(a_task(due_in_ms=900_000, uniqueness_key="far"))
    group.advance(5_000)
    member.runner.end(ValueError("not this time"))
    group.advance(10_000)
    member.runner.begin()

    assert member.runner.begun[-1].task.data == b'{"version":2}'
    assert member.runner.begun[-1].number == 2


def test_p6_a_waiting_retry_uses_the_new_data() -> None:
    """The record arrives between two attempts."""
    group = Group()
    group.join()
    group.journal.says = _fail
    _schedule(group, 1)
    group.advance(5_000)
    _schedule(group, 2)
    group.advance(60_000)

    assert [ran.data for ran in group.journal.ran] == [
        {"version": 1},
        {"version": 2},
        {"version": 2},
    ]


def test_p6_a_cancel_before_it_is_due_means_no_attempt() -> None:
    """And the outcome says that it was applied."""
    group = Group()
    group.join()
    _schedule(group, 1)
    receipt = group.client.cancel_task(TASK.key).result(0)
    group.advance(60_000)

    assert group.journal.ran == []
    assert group.result_of(TASK) is CompletionResult.CANCELLED
    assert _outcome(group, receipt) is CommandOutcome.APPLIED


def test_p6_a_cancel_between_attempts_means_no_further_one() -> None:
    """It waited for its retry."""
    group = Group()
    group.join()
    group.journal.says = _fail
    _schedule(group, 1)
    group.advance(5_000)
    receipt = group.client.cancel_task(TASK.key).result(0)
    group.advance(60_000)

    assert len(group.journal.ran) == 1
    assert _outcome(group, receipt) is CommandOutcome.APPLIED


def test_p6_a_cancelled_attempt_that_fails_is_the_last() -> None:
    """It may end; its outcome said `running`."""
    group = Group()
    member = _running(group)
    receipt = group.client.cancel_task(TASK.key).result(0)
    group.settle()

    assert _fail_and_wait(group, member) == 0
    assert _outcome(group, receipt) is CommandOutcome.RUNNING
    assert group.result_of(TASK) is CompletionResult.CANCELLED


def test_p6_a_cancelled_attempt_that_ends_well_makes_the_key_done() -> None:
    """So a later schedule record opens nothing."""
    group = Group()
    member = _running(group)
    group.client.cancel_task(TASK.key).result(0)
    group.settle()
    member.runner.end()
    group.settle()
    _schedule(group, 2)
    group.advance(60_000)

    assert group.result_of(TASK) is CompletionResult.SUCCESS
    assert member.runner.begin() == 0


def test_p6_a_schedule_after_the_cancel_opens_a_running_key_again() -> None:
    """The attempt fails, and the next one runs with the new data."""
    group = Group()
    member = _running(group)
    group.client.cancel_task(TASK.key).result(0)
    group.settle()
    _schedule(group, 2)
    group.settle()

    assert _fail_and_wait(group, member) == 2
    assert member.runner.begun[-1].task.data == b'{"version":2}'


@pytest.mark.parametrize("when", ["at once", "after the load"])
def test_p6_a_cancel_of_a_running_attempt_outlives_a_rebuild(when: str) -> None:
    """The new tree adopts the attempt; that it is the last is written in the store."""
    group = Group()
    member = _running(group)
    group.client.cancel_task(TASK.key).result(0)
    group.settle()
    member.faults.fails = the_nth(1, "insert_tasks")
    group.append(a_task(due_in_ms=900_000, uniqueness_key="far"))
    group.advance(10)
    if when == "after the load":
        group.advance(5_000)

    assert _fail_and_wait(group, member) == 0
    assert group.result_of(TASK) is CompletionResult.CANCELLED


def test_p6_an_adopted_attempt_that_fails_before_anything_is_loaded_is_checked() -> None:
    """The new tree knows no completion yet; it may not take that for an open key."""
    group = Group()
    member = _running(group)
    group.client.cancel_task(TASK.key).result(0)
    group.settle()
    member.faults.fails = the_nth(1, "insert_tasks")
    group.append(a_task(due_in_ms=900_000, uniqueness_key="far"))
    group.settle()
    member.faults.keeps = lambda request: request.kind == "load_tasks"
    group.advance(1_000)
    member.runner.end(ValueError("not this time"))
    group.advance(15_000)
    begun = member.runner.begin()
    member.faults.release()
    group.advance(60_000)

    assert begun == 0
    assert member.runner.begin() == 0


def test_p6_a_cancel_reaches_an_attempt_whose_newer_record_still_waits() -> None:
    """No slot is free, so the newer record waits outside the executor."""
    group = Group(tree=TreeSettings(window=WindowSettings(executing_tasks_max=1)))
    member = _running(group)
    _schedule(group, 2)
    group.settle()
    receipt = group.client.cancel_task(TASK.key).result(0)
    group.settle()

    assert _outcome(group, receipt) is CommandOutcome.RUNNING
    assert _fail_and_wait(group, member) == 0


def test_p6_a_cancel_of_an_attempt_that_was_then_refused_means_no_attempt() -> None:
    """It had a worker's promise only; the lease was gone when its turn came."""
    group = Group()
    member = group.join(held=True)
    _schedule(group, 1)
    group.advance(DUE_MS)
    assert len(member.runner.queued) == 1
    group.client.cancel_task(TASK.key).result(0)
    group.settle()
    group.clock.step_wall(-60_000)
    member.runner.begin()
    group.advance(180_000)

    assert member.runner.begin() == 0
    assert group.result_of(TASK) is CompletionResult.CANCELLED


def test_p6_a_cancel_then_schedule_in_one_batch_leaves_the_key_open() -> None:
    """Order in the log decides, not arrival in one poll."""
    group = Group()
    group.join()
    _schedule(group, 1)
    group.client.cancel_task(TASK.key).result(0)
    _schedule(group, 3)
    group.client.cancel_task(a_task(uniqueness_key="unknown").key).result(0)
    group.advance(60_000)

    assert [ran.data for ran in group.journal.ran] == [{"version": 3}]
