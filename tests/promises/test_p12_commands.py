"""P12: commands are ordered with schedules, each has an outcome, and replay changes nothing."""

from collections.abc import Callable

import pytest

from hourhand import PairReceipt, Receipt
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.operations.events import TreeRebuilt
from hourhand.actors.model.task.status import CommandOutcome, CompletionResult
from hourhand.actors.model.task.task import Task
from tests.builders import NOW_MS, a_task
from tests.promises.faults import WRITES, the_nth
from tests.promises.group import Group

TASK = a_task(due_in_ms=60_000)
LATER = a_task(due_in_ms=120_000)

PAIR = (TASK.ordering_id, TASK.uniqueness_key)

COMMANDS: dict[str, Callable[[Group], Receipt | PairReceipt]] = {
    "cancel": lambda group: group.client.cancel_task(TASK.key).result(0),
    "drop": lambda group: group.client.drop_task(TASK.key).result(0),
    "retry": lambda group: group.client.retry_task(TASK.key).result(0),
    "run_now": lambda group: group.client.run_task_now(TASK.key).result(0),
    "reschedule": lambda group: group.client.reschedule_task(TASK.key, LATER.scheduled_time).result(
        0
    ),
}

BY_PAIR: dict[str, Callable[[Group], Receipt | PairReceipt]] = {
    "cancel by pair": lambda group: group.client.cancel_task(PAIR).result(0),
    "drop by pair": lambda group: group.client.drop_task(PAIR).result(0),
    "retry by pair": lambda group: group.client.retry_task(PAIR).result(0),
    "run_now by pair": lambda group: group.client.run_task_now(PAIR).result(0),
    "reschedule by pair": lambda group: group.client.reschedule_task(
        PAIR, LATER.scheduled_time
    ).result(0),
}
BOTH_WAYS = COMMANDS | BY_PAIR

STATES = ("unknown", "pending", "retrying", "blocked", "succeeded", "failed", "cancelled", "moved")

APPLIED, TOO_LATE = CommandOutcome.APPLIED, CommandOutcome.TOO_LATE
CLOSED, UNKNOWN = CommandOutcome.ALREADY_CLOSED, CommandOutcome.UNKNOWN_KEY
EXPECTED = {
    "unknown": dict.fromkeys(COMMANDS, UNKNOWN),
    "pending": dict.fromkeys(COMMANDS, APPLIED),
    "retrying": {**dict.fromkeys(COMMANDS, APPLIED), "run_now": TOO_LATE, "reschedule": TOO_LATE},
    "blocked": {**dict.fromkeys(COMMANDS, APPLIED), "run_now": TOO_LATE, "reschedule": TOO_LATE},
    "succeeded": {**dict.fromkeys(COMMANDS, CLOSED), "retry": APPLIED},
    "failed": {**dict.fromkeys(COMMANDS, CLOSED), "retry": APPLIED},
    "cancelled": dict.fromkeys(COMMANDS, CLOSED),
    "moved": dict.fromkeys(COMMANDS, CLOSED),
}
# The pair has another open task there, or it has none at all.
EXPECTED_BY_PAIR = EXPECTED | {
    "unknown": dict.fromkeys(COMMANDS, CommandOutcome.UNKNOWN_PAIR),
    "moved": dict.fromkeys(COMMANDS, APPLIED),
}


def _fail(_task: Task, _attempt: int) -> None:
    raise ValueError("not this time")


def _kind_of(command: str) -> str:
    return command.partition(" ")[0]


def _expected(state: str, command: str) -> CommandOutcome:
    expected = EXPECTED_BY_PAIR if command in BY_PAIR else EXPECTED
    return expected[state][_kind_of(command)]


def _outcome(group: Group, receipt: Receipt | PairReceipt) -> CommandOutcome | None:
    found = group.client.outcome(receipt)
    return None if found is None else found.outcome


def _bring_to(group: Group, state: str) -> None:
    """Have the task in a state, and the clock where it is in it."""
    if state == "unknown":
        return
    group.append(TASK)
    group.settle()
    match state:
        case "pending":
            pass
        case "retrying":
            group.journal.says = _fail
            group.advance(61_000)
        case "blocked":
            group.journal.retry = RetryPolicy(attempts_max=1, on_exhausted="block")
            group.journal.says = _fail
            group.advance(61_000)
        case "failed":
            group.journal.retry = RetryPolicy(attempts_max=1)
            group.journal.says = _fail
            group.advance(61_000)
        case "succeeded":
            group.advance(61_000)
        case "cancelled":
            COMMANDS["cancel"](group)
        case "moved":
            group.client.reschedule_task(TASK.key, a_task(due_in_ms=90_000).scheduled_time)
        case _:
            raise AssertionError(state)
    group.settle()


@pytest.mark.parametrize("command", BOTH_WAYS)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("restarted", [False, True])
def test_p12_every_command_has_its_outcome_in_every_state(
    state: str, command: str, *, restarted: bool
) -> None:
    """True if the key is in memory or only in the store."""
    group = Group()
    member = group.join()
    _bring_to(group, state)
    if restarted:
        group.replace(member)

    receipt = BOTH_WAYS[command](group)
    group.settle()

    assert _outcome(group, receipt) is _expected(state, command)


@pytest.mark.parametrize("command", BOTH_WAYS)
@pytest.mark.parametrize("state", STATES)
def test_p12_a_whole_history_read_again_changes_nothing(state: str, command: str) -> None:
    """All records once more on a new node: same outcome, same runs, same end."""
    group = Group()
    member = group.join()
    _bring_to(group, state)
    receipt = BOTH_WAYS[command](group)
    group.journal.says = lambda _task, _attempt: None
    group.advance(200_000)
    before = (_outcome(group, receipt), len(group.journal.ran), group.result_of(TASK))

    group.kill(member)
    group.replay()
    group.join()
    group.advance(200_000)

    assert (_outcome(group, receipt), len(group.journal.ran), group.result_of(TASK)) == before


RUNS = {"cancel": [], "drop": [], "retry": [60_000], "run_now": [0], "reschedule": [120_000]}


@pytest.mark.parametrize("command", BOTH_WAYS)
@pytest.mark.parametrize("nth", range(1, 4))
@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("lost", [False, True])
def test_p12_a_command_that_is_interrupted_at_any_write_is_finished_by_its_replay(
    command: str, nth: int, *, killed: bool, lost: bool
) -> None:
    """The n-th write fails, or only its answer does; the tree is rebuilt, or the node dies."""
    group = Group()
    member = group.join()
    group.append(TASK)
    group.settle()
    chosen = the_nth(nth, *WRITES)
    if lost:
        member.faults.loses = chosen
    else:
        member.faults.fails = chosen
    receipt = BOTH_WAYS[command](group)
    group.settle()
    if killed and member.count(TreeRebuilt):
        group.replace(member)
    group.advance(200_000)

    moments, expected = [ran.at_ms - NOW_MS for ran in group.journal.ran], RUNS[_kind_of(command)]
    assert _outcome(group, receipt) is APPLIED
    assert len(moments) == len(expected)
    for moment, due in zip(moments, expected, strict=True):
        assert due <= moment <= due + 5_000


@pytest.mark.parametrize("nth", range(1, 7))
def test_p12_a_later_record_of_the_old_key_survives_the_replay_of_a_move(nth: int) -> None:
    """Two tasks in the end: the moved one with the old data, the old key with the new."""
    group = Group()
    member = group.join()
    group.append(a_task(due_in_ms=60_000, data={"version": 1}))
    group.settle()
    member.faults.fails = the_nth(nth, *WRITES)
    COMMANDS["reschedule"](group)
    group.append(a_task(due_in_ms=60_000, data={"version": 2}))
    group.settle()
    group.replace(member)
    group.advance(200_000)

    assert [(ran.at_ms - NOW_MS, ran.data) for ran in group.journal.ran] == [
        (60_000, {"version": 2}),
        (120_000, {"version": 1}),
    ]


def test_p12_a_move_read_again_after_a_later_record_keeps_the_moved_data() -> None:
    """Every offset and every outcome is forgotten, but the rows are not."""
    group = Group()
    member = group.join()
    group.append(a_task(due_in_ms=60_000, data={"version": 1}))
    COMMANDS["reschedule"](group)
    group.append(a_task(due_in_ms=60_000, data={"version": 2}))
    group.settle()
    group.data.outcomes.clear()
    group.kill(member)
    group.replay(offset=1)
    mark = group.data.claims[0]
    assert mark.watermark.next_offset in {None, 0}
    group.join()
    group.advance(200_000)

    assert [ran.data for ran in group.journal.ran] == [{"version": 2}, {"version": 1}]


def test_p12_a_move_onto_a_waiting_key_survives_the_replay_of_that_keys_record() -> None:
    """The record before it is written once more, but its time is over."""
    group = Group()
    member = group.join()
    group.append(a_task(due_in_ms=120_000, data={"version": 1}))
    group.append(a_task(due_in_ms=60_000, data={"version": 2}))
    COMMANDS["reschedule"](group)
    group.settle()
    group.kill(member)
    group.replay()
    group.join()
    group.advance(200_000)

    assert [(ran.at_ms - NOW_MS, ran.data) for ran in group.journal.ran] == [
        (120_000, {"version": 2}),
    ]


def test_p12_a_move_onto_a_waiting_key_survives_replay_though_the_old_key_waits_again() -> None:
    """The data is in no row any more once the new key's own record is written again."""
    group = Group()
    member = group.join()
    group.append(a_task(due_in_ms=60_000, data={"version": 1}))
    group.append(a_task(due_in_ms=120_000, data={"version": 2}))
    COMMANDS["reschedule"](group)
    group.append(a_task(due_in_ms=60_000, data={"version": 3}))
    group.settle()
    group.kill(member)
    group.replay(offset=1)
    group.join()
    group.advance(200_000)

    assert [(ran.at_ms - NOW_MS, ran.data) for ran in group.journal.ran] == [
        (60_000, {"version": 3}),
        (120_000, {"version": 1}),
    ]


def test_p12_commands_take_effect_in_the_order_they_were_sent() -> None:
    """Schedule, move, cancel the new key, schedule it again."""
    group = Group()
    group.append(TASK)
    COMMANDS["reschedule"](group)
    group.client.cancel_task(LATER.key).result(0)
    group.append(a_task(due_in_ms=120_000, data={"again": True}))
    group.join()
    group.advance(200_000)

    assert [(ran.at_ms - NOW_MS, ran.data) for ran in group.journal.ran] == [
        (120_000, {"again": True})
    ]


def test_p12_a_move_onto_a_done_key_leaves_the_task_where_it_is() -> None:
    """It would vanish otherwise."""
    group = Group()
    group.join()
    done = a_task(due_in_ms=1_000)
    group.append(done)
    group.append(TASK)
    group.advance(2_000)
    to = done.scheduled_time
    receipt = group.client.reschedule_task(TASK.key, to).result(0)
    group.advance(200_000)

    assert _outcome(group, receipt) is CLOSED
    assert [ran.at_ms - NOW_MS for ran in group.journal.ran] == [1_000, 60_000]


def test_p12_run_now_closes_the_old_key_for_good() -> None:
    """A later schedule record of it opens nothing."""
    group = Group()
    group.join()
    group.append(TASK)
    receipt = COMMANDS["run_now"](group)
    group.settle()
    group.append(TASK)
    group.advance(200_000)

    found = group.client.outcome(receipt)
    assert found is not None and found.new_key == a_task(due_in_ms=0).key
    assert [ran.at_ms for ran in group.journal.ran] == [NOW_MS]
    assert group.result_of(TASK) is CompletionResult.MOVED


def test_p12_a_move_of_a_running_attempt_is_too_late() -> None:
    """And neither key changes."""
    group = Group()
    member = group.join(held=True)
    group.append(TASK)
    group.advance(60_000)
    member.runner.begin()
    receipt = COMMANDS["reschedule"](group)
    group.settle()
    member.runner.end()
    group.advance(100_000)

    assert _outcome(group, receipt) is TOO_LATE
    assert group.result_of(TASK) is CompletionResult.SUCCESS
    assert member.runner.begin() == 0
