"""P12: a replace leaves one open task of a pair, whichever the log has before it."""

from datetime import timedelta
from typing import Any

import pytest

from hourhand import Receipt
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CommandOutcome, CompletionResult, RecordedOutcome
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.scheduler.services.system.requested_tasks import WINDOW_MS_MAX
from tests.builders import NOW_MS, a_task
from tests.promises.group import Group

FIRST = a_task(due_in_ms=60_000, data={"text": "first"})


def _new(due_in_ms: int, text: str = "new") -> Task:
    return a_task(due_in_ms=due_in_ms, data={"text": text})


def _key(due_in_ms: int) -> TaskKey:
    return a_task(due_in_ms=due_in_ms).key


def _replace(group: Group, task: Task) -> Receipt:
    return group.client.schedule_task(task, replace=True).result(0)


def _outcome(group: Group, receipt: Receipt) -> RecordedOutcome:
    found = group.client.outcome(receipt)
    assert found is not None, "it is undecided"
    return found


def _ran(group: Group) -> list[tuple[int, object]]:
    return [(ran.at_ms - NOW_MS, ran.data) for ran in group.journal.ran]


@pytest.mark.parametrize("has_node", [False, True])
@pytest.mark.parametrize("due_in_ms", [30_000, 60_000, 90_000])
def test_p12_a_replace_moves_the_open_task_to_its_time_and_data(
    *, has_node: bool, due_in_ms: int
) -> None:
    """Earlier, later, or at its own time; also where both wait in the log for a node."""
    group = Group()
    if has_node:
        group.join()
    group.append(FIRST)
    receipt = _replace(group, _new(due_in_ms))
    if not has_node:
        group.join()
    group.advance(200_000)

    expected = RecordedOutcome(CommandOutcome.APPLIED, FIRST.key, _key(due_in_ms))
    assert receipt.key == _key(due_in_ms)
    assert _outcome(group, receipt) == expected
    assert _ran(group) == [(due_in_ms, {"text": "new"})]


def test_p12_a_replace_without_an_open_task_schedules_it() -> None:
    """No task of the pair, one that ended, one that was cancelled: each time there is one."""
    group = Group()
    group.join()
    first = _replace(group, _new(10_000, "one"))
    group.advance(20_000)
    second = _replace(group, _new(30_000, "two"))
    group.client.cancel_task(_key(30_000)).result(0)
    third = _replace(group, _new(40_000, "three"))
    group.advance(200_000)

    for receipt, due_in_ms in ((first, 10_000), (second, 30_000), (third, 40_000)):
        key = _key(due_in_ms)
        assert _outcome(group, receipt) == RecordedOutcome(CommandOutcome.APPLIED, key, key)
    assert _ran(group) == [(10_000, {"text": "one"}), (40_000, {"text": "three"})]


def test_p12_replaces_follow_each_other_in_the_order_of_the_log() -> None:
    """The last one's task is left, wherever those before it were due."""
    group = Group()
    for due_in_ms in (90_000, 20_000, 150_000, 50_000):
        _replace(group, _new(due_in_ms, str(due_in_ms)))
    group.join()
    group.advance(300_000)

    assert _ran(group) == [(50_000, {"text": "50000"})]


def test_p12_a_replace_of_several_open_tasks_changes_none() -> None:
    """Nobody knows which one was meant; the outcome names them."""
    group = Group()
    group.append(FIRST)
    group.append(_new(70_000, "second"))
    receipt = _replace(group, _new(80_000))
    group.join()
    group.settle()

    found = _outcome(group, receipt)
    assert (found.outcome, found.several) == (
        CommandOutcome.SEVERAL_TASKS,
        (FIRST.key, _key(70_000)),
    )
    group.advance(200_000)
    assert [data for _, data in _ran(group)] == [{"text": "first"}, {"text": "second"}]


def test_p12_a_replace_by_a_key_that_is_done_changes_nothing() -> None:
    """The open task would vanish: done is done (P5)."""
    group = Group()
    group.join()
    group.append(_new(0, "done"))
    group.settle()
    group.append(FIRST)
    receipt = _replace(group, _new(0))
    group.advance(200_000)

    found = _outcome(group, receipt)
    assert (found.outcome, found.new_key) == (CommandOutcome.ALREADY_CLOSED, _key(0))
    assert [data for _, data in _ran(group)] == [{"text": "done"}, {"text": "first"}]


def test_p12_a_replaced_task_that_waits_for_its_retry_is_not_tried_again() -> None:
    """A move is too late for it, a replace is not: the new task begins with all its attempts."""
    group = Group()
    group.join()

    def fails_first(task: Task, _attempt: int) -> None:
        if task.data == {"text": "first"}:
            raise ValueError("not this time")

    group.journal.says = fails_first
    group.append(FIRST)
    group.advance(61_000)
    receipt = _replace(group, _new(100_000))
    group.advance(200_000)

    assert _outcome(group, receipt).outcome is CommandOutcome.APPLIED
    assert [(each.at_ms - NOW_MS, each.attempt) for each in group.journal.ran] == [
        (60_000, 1),
        (100_000, 1),
    ]


@pytest.mark.parametrize("ends_well", [False, True])
def test_p12_a_replaced_task_that_runs_may_end_and_is_not_tried_again(*, ends_well: bool) -> None:
    """As by a cancel: its success counts."""
    group = Group()
    member = group.join(held=True)
    group.append(FIRST)
    group.advance(61_000)
    assert member.runner.begin() == 1
    receipt = _replace(group, _new(100_000))
    group.settle()
    assert _outcome(group, receipt) == RecordedOutcome(
        CommandOutcome.RUNNING, FIRST.key, _key(100_000)
    )

    member.runner.end(None if ends_well else ValueError("not this time"))
    group.advance(60_000)
    member.runner.begin()

    expected = CompletionResult.SUCCESS if ends_well else CompletionResult.MOVED
    assert group.result_of(FIRST) is expected
    assert [each.task.key for each in member.runner.begun] == [FIRST.key, _key(100_000)]


def test_p12_a_replace_that_is_read_again_changes_nothing() -> None:
    """Neither the row that it replaced, nor one that came after it."""
    group = Group()
    member = group.join()
    group.append(FIRST)
    _replace(group, FIRST.model_copy(update={"data": {"text": "same time"}}))
    _replace(group, _new(90_000))
    group.settle()
    group.replay()
    heir = group.replace(member)
    group.advance(200_000)

    assert heir.virtual is not member.virtual
    assert _ran(group) == [(90_000, {"text": "new"})]


def test_a_replace_is_true_or_false_and_nothing_beside_it() -> None:
    """Refused before anything is sent."""
    client = Group().client
    window = timedelta(milliseconds=WINDOW_MS_MAX)
    wrong: list[dict[str, Any]] = [{"replace": 1}, {"replace": True, "debounce": window}]
    for named in wrong:
        refused = client.schedule_task(FIRST, **named).exception(0)
        assert isinstance(refused, InvalidTask)
