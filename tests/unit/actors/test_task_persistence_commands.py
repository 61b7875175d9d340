"""TaskPersistence: what each command does, wherever its key is."""

import pytest
from msgspec.structs import replace

from hourhand.actors.messages import (
    OutcomesRecorded,
    RecordOutcomes,
    ScheduleTasks,
    StatusesFound,
    TaskWithdrawn,
    WithdrawTask,
)
from hourhand.actors.model.execution.attempts import KeyStatus
from hourhand.actors.model.execution.commands import WithdrawalResult
from hourhand.actors.model.task.codec import Command, CommandKind
from hourhand.actors.model.task.status import CommandOutcome, CompletionResult, RecordedOutcome
from hourhand.actors.model.task.task import AttemptState
from hourhand.actors.model.values.errors import OwnershipLost
from tests.builders import CHANGING, NOW_MS, a_completion
from tests.unit.actors.task_persistence_bench import (
    LATER_MS,
    TASK,
    Bench,
    task_due_in,
)
from tests.unit.probes import PARTITION


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        (CommandKind.CANCEL, CompletionResult.CANCELLED),
        (CommandKind.DROP, CompletionResult.DROPPED),
    ],
)
@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (WithdrawalResult.WITHDRAWN, CommandOutcome.APPLIED),
        (WithdrawalResult.ABSENT, CommandOutcome.APPLIED),
        (WithdrawalResult.RUNNING, CommandOutcome.RUNNING),
    ],
)
def test_p12_a_key_is_closed_by_command(
    kind: CommandKind, result: CompletionResult, found: WithdrawalResult, outcome: CommandOutcome
) -> None:
    """Wherever it was; a running attempt may end."""
    bench = Bench()
    bench.store(TASK)

    assert bench.command(kind, found) is outcome
    (completion,) = bench.tracker.take(RecordOutcomes).completions
    assert (completion.result, completion.offset) == (result, 10)


@pytest.mark.parametrize("kind", [CommandKind.RESCHEDULE, CommandKind.RUN_NOW])
def test_p12_a_task_that_never_ran_is_moved(kind: CommandKind) -> None:
    """The old key is closed, the new row is written and passed on where the window reaches."""
    bench = Bench()
    bench.store(TASK)
    bench.load()
    bench.scheduled()
    to_ms = LATER_MS if kind is CommandKind.RESCHEDULE else None

    outcome = bench.command(kind, WithdrawalResult.WITHDRAWN, to_ms=to_ms)

    (completion,) = bench.tracker.take(RecordOutcomes).completions
    assert outcome is CommandOutcome.APPLIED
    assert completion.result is CompletionResult.MOVED
    assert completion.for_good is (kind is CommandKind.RUN_NOW)
    assert [key.scheduled_ms for key in bench.scheduled()] == [to_ms or NOW_MS]


def test_p12_a_task_that_runs_is_not_moved() -> None:
    """Nothing is written but the outcome."""
    bench = Bench()
    bench.store(TASK)

    outcome = bench.command(CommandKind.RESCHEDULE, WithdrawalResult.RUNNING, to_ms=LATER_MS)

    assert outcome is CommandOutcome.TOO_LATE
    assert "insert_tasks" not in bench.requests.made[1:]
    assert not bench.tracker.has(RecordOutcomes)


def test_p8_a_task_withdrawn_for_a_move_that_is_refused_goes_on_waiting() -> None:
    """The store knows of an attempt that memory did not: its start was recorded, no more."""
    bench = Bench()
    bench.store(TASK)
    bench.load()
    bench.scheduled()
    status = KeyStatus(None, AttemptState(last=1, suspect=True))

    outcome = bench.command(
        CommandKind.RESCHEDULE, WithdrawalResult.WITHDRAWN, to_ms=LATER_MS, status=status
    )

    assert outcome is CommandOutcome.TOO_LATE
    (resumed,) = bench.scheduler.take(ScheduleTasks).tasks
    assert resumed.key == TASK.key and resumed.attempts == status.attempts


@pytest.mark.parametrize("done", [False, True])
def test_p12_a_retry_opens_a_key_again_with_all_its_attempts(done: bool) -> None:
    """Blocked or failed for good; their numbers go on."""
    bench = Bench()
    bench.store(TASK)
    bench.load()
    bench.scheduled()
    failure = a_completion(key=TASK.key, result=CompletionResult.FAILURE, attempts=4)
    status = KeyStatus(failure if done else None, AttemptState(used=4, last=4))

    outcome = bench.command(CommandKind.RETRY, WithdrawalResult.WITHDRAWN, status=status)

    (completion,) = bench.tracker.take(RecordOutcomes).completions
    assert outcome is CommandOutcome.APPLIED
    assert completion.result is CompletionResult.REOPENED
    (resumed,) = bench.scheduler.take(ScheduleTasks).tasks
    assert (resumed.attempts.used, resumed.attempts.last) == (0, 4)


@pytest.mark.parametrize("kind", CHANGING)
def test_p12_a_replayed_command_changes_nothing(kind: CommandKind) -> None:
    """Its outcome is recorded; nobody is asked."""
    bench = Bench()
    bench.store(TASK)
    to_ms = LATER_MS if kind is CommandKind.RESCHEDULE else None
    first = bench.command(kind, WithdrawalResult.WITHDRAWN, to_ms=to_ms)
    bench.scheduled()
    bench.tracker.messages.clear()
    bench.requests.made.clear()

    second = bench.command(kind, WithdrawalResult.WITHDRAWN, to_ms=to_ms)

    assert second is first and not bench.scheduled() and not bench.tracker.messages
    assert set(bench.requests.made) == {"find_outcome"}


@pytest.mark.parametrize(("offset", "kept"), [(5, 10), (15, 15)])
def test_p6_a_replayed_move_writes_its_row_over_an_earlier_record_alone(
    offset: int, kept: int
) -> None:
    """The one it replaced may have been read again; one that came later has won (P12)."""
    bench = Bench()
    target = replace(TASK, key=TASK.key._replace(scheduled_ms=LATER_MS), offset=5)
    bench.persist(TASK, target)
    bench.persisted()
    bench.command(CommandKind.RESCHEDULE, WithdrawalResult.WITHDRAWN, to_ms=LATER_MS)
    bench.persist(replace(target, offset=offset))
    bench.persisted()
    bench.tracker.messages.clear()

    bench.command(CommandKind.RESCHEDULE, WithdrawalResult.ABSENT, to_ms=LATER_MS)

    rows = bench.stores.schedule.find_tasks(PARTITION, (target.key,)).result(timeout=0)
    assert rows[target.key].offset == kept


def test_p6_an_owner_that_was_replaced_decides_no_command() -> None:
    """What the newer one holds in memory is not withdrawn here."""
    bench = Bench()
    bench.store(TASK)
    bench.stores.ownership.claim(PARTITION, NOW_MS).result(timeout=0)

    with pytest.raises(OwnershipLost):
        bench.persist(Command(CommandKind.DROP, TASK.key, 10, NOW_MS))

    assert not bench.scheduler.has(WithdrawTask) and not bench.tracker.messages


def test_p6_an_owner_that_is_replaced_meanwhile_leaves_the_outcome_to_the_newer_one() -> None:
    """It may have loaded before the completion was durable, so it must decide again."""
    bench = Bench()
    bench.store(TASK)
    bench.persist(Command(CommandKind.DROP, TASK.key, 10, NOW_MS))
    bench.tell(TaskWithdrawn(TASK.key, WithdrawalResult.WITHDRAWN))
    bench.tell(StatusesFound({}))
    (completion,) = bench.tracker.take(RecordOutcomes).completions
    bench.stores.ownership.claim(PARTITION, NOW_MS).result(timeout=0)

    with pytest.raises(OwnershipLost):
        bench.tell(OutcomesRecorded((completion,), ()))

    assert bench.stores.ownership.find_outcome(PARTITION, 10).result(timeout=0) is None


def test_p12_a_move_that_was_half_done_is_finished_by_its_replay() -> None:
    """The old key is closed, the new row is missing."""
    bench = Bench()
    bench.store(TASK)
    moved = a_completion(
        key=TASK.key, result=CompletionResult.MOVED, offset=10, moved_to_ms=LATER_MS
    )

    outcome = bench.command(
        CommandKind.RESCHEDULE,
        WithdrawalResult.ABSENT,
        to_ms=LATER_MS,
        status=KeyStatus(moved, AttemptState()),
    )

    new_key = TASK.key._replace(scheduled_ms=LATER_MS)
    rows = bench.stores.schedule.find_tasks(PARTITION, (new_key,)).result(timeout=0)
    assert outcome is CommandOutcome.APPLIED and rows[new_key].offset == 10


def test_p12_a_command_for_an_unknown_key_says_so() -> None:
    """And records that."""
    bench = Bench()

    assert bench.command(CommandKind.CANCEL, WithdrawalResult.ABSENT) is CommandOutcome.UNKNOWN_KEY


def test_p12_commands_and_tasks_of_a_share_keep_their_order() -> None:
    """The command sees the row before it, and the record behind it opens the key again."""
    bench = Bench()
    bench.requests.hold("insert_tasks")
    cancel = Command(CommandKind.CANCEL, TASK.key, 4, NOW_MS)

    bench.persist(TASK, cancel, replace(TASK, offset=5))

    assert bench.requests.made == ["insert_tasks"]
    assert not bench.scheduler.has(WithdrawTask)


def test_p12_an_outcome_of_another_key_is_not_that_of_a_command() -> None:
    """It was recorded at the same offset of a topic that is gone: the command has its effect."""
    bench = Bench()
    bench.store(TASK)
    foreign = RecordedOutcome(CommandOutcome.APPLIED, task_due_in(1_000).key)
    bench.stores.ownership.insert_outcome(PARTITION, 10, foreign, 1).result(timeout=0)

    bench.command(CommandKind.CANCEL, WithdrawalResult.WITHDRAWN)

    found = bench.stores.ownership.find_outcome(PARTITION, 10).result(timeout=0)
    assert found is not None
    assert (found.key, found.outcome) == (TASK.key, CommandOutcome.APPLIED)
    assert bench.tracker.has(RecordOutcomes)
