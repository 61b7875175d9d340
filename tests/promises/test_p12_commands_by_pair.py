"""P12: a command for a pair of ids means the one task that the log has before it."""

import pytest

from hourhand import PairReceipt
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.task.codec import CommandKind, encode_task
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CommandOutcome, CompletionResult, RecordedOutcome
from hourhand.actors.model.task.task import Task
from tests.builders import CHANGING, NOW_MS, a_task
from tests.promises.group import Group

TASK = a_task(due_in_ms=60_000)
PAIR = (TASK.ordering_id, TASK.uniqueness_key)


def _fail(_task: Task, _attempt: int) -> None:
    raise ValueError("not this time")


def _outcome(group: Group, receipt: PairReceipt) -> RecordedOutcome:
    found = group.client.outcome(receipt)
    assert found is not None, "it is undecided"
    return found


def _ran_ms(group: Group) -> list[int]:
    return [ran.at_ms - NOW_MS for ran in group.journal.ran]


def _key(due_in_ms: int) -> TaskKey:
    return a_task(due_in_ms=due_in_ms).key


@pytest.mark.parametrize("has_node", [False, True])
def test_p12_a_cancel_by_pair_right_behind_the_task_finds_it(*, has_node: bool) -> None:
    """Both wait in the log where no node runs, and may be of one batch where one does."""
    group = Group()
    if has_node:
        group.join()
    group.client.schedule_task(TASK).result(0)
    receipt = group.client.cancel_task(PAIR).result(0)
    assert group.client.outcome(receipt) is None

    if not has_node:
        group.join()
    group.advance(200_000)

    assert _outcome(group, receipt) == RecordedOutcome(CommandOutcome.APPLIED, TASK.key)
    assert _ran_ms(group) == []


def test_p12_what_is_scheduled_behind_a_command_by_pair_is_not_meant() -> None:
    """The first cancel finds nothing, the second one the task between them."""
    group = Group()
    first = group.client.cancel_task(PAIR).result(0)
    group.append(TASK)
    second = group.client.cancel_task(PAIR).result(0)
    group.append(a_task(due_in_ms=120_000))
    group.join()
    group.advance(200_000)

    unknown = _outcome(group, first)
    assert unknown.outcome is CommandOutcome.UNKNOWN_PAIR
    assert unknown.key[1:] == PAIR
    assert _outcome(group, second) == RecordedOutcome(CommandOutcome.APPLIED, TASK.key)
    assert _ran_ms(group) == [120_000]


@pytest.mark.parametrize("kind", CHANGING)
def test_p12_a_pair_of_several_tasks_changes_none_and_names_them(kind: CommandKind) -> None:
    """Only a key tells them apart."""
    group = Group()
    group.append(TASK)
    group.append(a_task(due_in_ms=120_000))
    client, to = group.client, a_task(due_in_ms=90_000).scheduled_time
    sent = {
        CommandKind.CANCEL: lambda: client.cancel_task(PAIR),
        CommandKind.DROP: lambda: client.drop_task(PAIR),
        CommandKind.RETRY: lambda: client.retry_task(PAIR),
        CommandKind.RUN_NOW: lambda: client.run_task_now(PAIR),
        CommandKind.RESCHEDULE: lambda: client.reschedule_task(PAIR, to),
    }[kind]()
    group.join()
    group.settle()

    found = _outcome(group, sent.result(0))
    assert found.outcome is CommandOutcome.SEVERAL_TASKS
    assert found.several == (_key(60_000), _key(120_000))
    group.advance(200_000)
    assert _ran_ms(group) == [60_000, 120_000]


def test_p12_a_pair_follows_its_task_to_its_new_time() -> None:
    """Move, move again, run now: the same two ids each time, and the outcome has both keys."""
    group = Group()
    group.append(TASK)
    receipts = [
        group.client.reschedule_task(PAIR, a_task(due_in_ms=90_000).scheduled_time).result(0),
        group.client.reschedule_task(PAIR, a_task(due_in_ms=120_000).scheduled_time).result(0),
        group.client.run_task_now(PAIR).result(0),
    ]
    group.join()
    group.advance(200_000)

    found = [_outcome(group, each) for each in receipts]
    assert [each.outcome for each in found] == [CommandOutcome.APPLIED] * 3
    assert [(each.key, each.new_key) for each in found] == [
        (_key(60_000), _key(90_000)),
        (_key(90_000), _key(120_000)),
        (_key(120_000), _key(0)),
    ]
    assert _ran_ms(group) == [0]


def test_p12_a_command_by_pair_for_a_task_that_ended_says_which_one_it_was() -> None:
    """The last one that had both ids."""
    group = Group()
    group.join()
    group.append(TASK)
    group.append(a_task(due_in_ms=70_000))
    group.advance(100_000)
    receipt = group.client.cancel_task(PAIR).result(0)
    group.settle()

    expected = RecordedOutcome(CommandOutcome.ALREADY_CLOSED, _key(70_000))
    assert _outcome(group, receipt) == expected


def test_p12_a_retry_by_pair_means_the_task_that_failed() -> None:
    """Not one of its name that ended well; of two that failed it opens none and names both."""
    group = Group()
    group.join()
    group.journal.retry = RetryPolicy(attempts_max=1)
    group.append(a_task(due_in_ms=70_000))
    group.journal.says = _fail
    group.append(TASK)
    group.advance(65_000)
    group.journal.says = lambda _task, _attempt: None
    group.advance(35_000)
    first = group.client.retry_task(PAIR).result(0)
    group.settle()

    assert _outcome(group, first) == RecordedOutcome(CommandOutcome.APPLIED, TASK.key)
    assert group.result_of(TASK) is CompletionResult.SUCCESS

    group.journal.says = _fail
    for due_in_ms in (110_000, 120_000):
        group.append(a_task(due_in_ms=due_in_ms))
    group.advance(100_000)
    second = group.client.retry_task(PAIR).result(0)
    group.settle()

    several = _outcome(group, second)
    assert several.outcome is CommandOutcome.SEVERAL_TASKS
    assert several.several == (_key(110_000), _key(120_000))


def test_p12_a_retry_by_pair_opens_what_blocks_its_ordering_id() -> None:
    """The open task counts, whatever failed before it."""
    group = Group()
    group.join()
    group.journal.retry = RetryPolicy(attempts_max=1, on_exhausted="block")
    group.journal.says = _fail
    group.append(TASK)
    group.advance(61_000)
    group.journal.says = lambda _task, _attempt: None
    receipt = group.client.retry_task(PAIR).result(0)
    group.advance(10_000)

    assert _outcome(group, receipt) == RecordedOutcome(CommandOutcome.APPLIED, TASK.key)
    assert group.result_of(TASK) is CompletionResult.SUCCESS


def test_p12_a_command_by_pair_finds_a_task_that_the_watermark_passed() -> None:
    """A straggler blocks its ordering id for a day, and the next owner is asked."""
    group = Group()
    member = group.join()
    group.journal.retry = RetryPolicy(attempts_max=1, on_exhausted="block")
    group.journal.says = _fail
    group.append(TASK)
    for _ in range(24):
        group.advance(3_600_000)
    group.replace(member)
    receipt = group.client.drop_task(PAIR).result(0)
    group.settle()

    assert _outcome(group, receipt) == RecordedOutcome(CommandOutcome.APPLIED, TASK.key)
    assert group.result_of(TASK) is CompletionResult.DROPPED


def test_p12_a_pair_command_read_again_without_its_outcome_does_nothing_more() -> None:
    """Each outcome is forgotten: the command finds what it did, and no later task of its pair."""
    group = Group()
    member = group.join()
    group.append(TASK)
    receipt = group.client.cancel_task(PAIR).result(0)
    group.settle()
    group.append(a_task(due_in_ms=120_000))
    group.settle()
    group.data.outcomes.clear()
    group.kill(member)
    group.replay(offset=1)
    group.join()
    group.advance(200_000)

    assert _outcome(group, receipt) == RecordedOutcome(CommandOutcome.APPLIED, TASK.key)
    assert _ran_ms(group) == [120_000]


def test_p12_a_pair_is_found_among_many_tasks_of_its_ordering_id() -> None:
    """Its row is on a later page."""
    group = Group()
    for number in range(1_200):
        group.append(a_task(due_in_ms=30_000, uniqueness_key=f"{number:04d}"))
    group.append(TASK)
    receipt = group.client.cancel_task(PAIR).result(0)
    group.join()
    group.settle()

    assert _outcome(group, receipt) == RecordedOutcome(CommandOutcome.APPLIED, TASK.key)


def test_p10_a_task_without_a_time_is_poison() -> None:
    """Only a command may leave it out."""
    group = Group()
    group.join()
    value = encode_task(TASK).replace(b'"scheduledTime"', b'"when"')
    group.broker.partitions[0].append(NOW_MS, TASK.ordering_id.encode(), value, ())
    group.settle()

    (letter,) = group.broker.dead_letters.read(0, 10)[0]
    assert b"no scheduledTime" in (dict(letter.headers)["hourhandReason"] or b"")
