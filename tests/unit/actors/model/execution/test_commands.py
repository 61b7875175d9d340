"""The contract of each command to a key in each state, by table and by example (P12)."""

import pytest
from msgspec.structs import replace

from hourhand.actors.model.execution.attempts import KeyStatus
from hourhand.actors.model.execution.commands import (
    Decision,
    KnownTask,
    WithdrawalResult,
    decide,
    known_task,
    recorded_outcome,
    replacing_row,
    split_runs,
)
from hourhand.actors.model.task.codec import Command, CommandKind
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import (
    CommandOutcome,
    Completion,
    CompletionResult,
    RecordedOutcome,
)
from hourhand.actors.model.task.task import FRESH, AttemptState, StoredTask
from tests.builders import CHANGING, NOW_MS, a_completion, a_key, a_stored_task

OFFSET = 10
"""Where the command stands; rows before it were made by lower offsets."""


def _command(kind: CommandKind, *, to_ms: int = NOW_MS + 90_000) -> Command:
    to = to_ms if kind is CommandKind.RESCHEDULE else None
    return Command(kind, a_key(), OFFSET, recorded_ms=NOW_MS, to_ms=to)


_CANCEL_RUNNING = Command(CommandKind.CANCEL, a_key(), OFFSET, NOW_MS, running=True)


def _known(
    *,
    row: StoredTask | None = None,
    completion: Completion | None = None,
    attempts: AttemptState = FRESH,
    running: bool = False,
) -> KnownTask:
    return KnownTask(row or a_stored_task(offset=1), completion, attempts, running)


def _decide(
    kind: CommandKind, known: KnownTask, new_key_completion: Completion | None = None
) -> Decision:
    return decide(_command(kind), known, new_key_completion, NOW_MS)


@pytest.mark.parametrize("kind", CHANGING)
def test_p12_a_key_nobody_scheduled_is_unknown(kind: CommandKind) -> None:
    """Nothing is written for it."""
    known = KnownTask(row=None, completion=None, attempts=FRESH, running=False)

    assert _decide(kind, known) == Decision(CommandOutcome.UNKNOWN_KEY)


@pytest.mark.parametrize("kind", sorted(set(CHANGING) - {CommandKind.RETRY}))
@pytest.mark.parametrize("result", sorted(set(CompletionResult) - {CompletionResult.REOPENED}))
def test_p12_a_closed_key_stays_closed(kind: CommandKind, result: CompletionResult) -> None:
    """Only an operator's retry opens a done key."""
    known = _known(completion=a_completion(result=result, offset=5))

    assert _decide(kind, known) == Decision(CommandOutcome.ALREADY_CLOSED)


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        (CommandKind.CANCEL, CompletionResult.CANCELLED),
        (CommandKind.DROP, CompletionResult.DROPPED),
    ],
)
@pytest.mark.parametrize("running", [True, False])
def test_p6_cancel_and_drop_close_the_key_and_say_whether_it_runs(
    kind: CommandKind, result: CompletionResult, *, running: bool
) -> None:
    """A running attempt may end; the outcome says so."""
    decision = _decide(kind, _known(running=running))

    assert decision.outcome is (CommandOutcome.RUNNING if running else CommandOutcome.APPLIED)
    assert decision.completion is not None
    assert (decision.completion.result, decision.completion.offset) == (result, OFFSET)
    assert decision.completion.closes(1)
    assert (decision.row, decision.resumed) == (None, None)


@pytest.mark.parametrize(
    ("kind", "new_time_ms", "for_good"),
    [
        (CommandKind.RESCHEDULE, NOW_MS + 90_000, False),
        (CommandKind.RUN_NOW, NOW_MS, True),
    ],
)
def test_p12_a_move_closes_the_old_key_then_writes_the_new_row(
    kind: CommandKind, new_time_ms: int, *, for_good: bool
) -> None:
    """The row keeps its data and takes the command's offset."""
    decision = _decide(kind, _known())

    new_key = TaskKey(new_time_ms, a_key().ordering_id, a_key().uniqueness_key)
    assert decision.outcome is CommandOutcome.APPLIED
    assert decision.new_key == new_key
    assert decision.row == StoredTask(new_key, a_stored_task().data, OFFSET)
    assert decision.completion is not None
    assert decision.completion.moved_to_ms == new_time_ms
    assert decision.completion.for_good is for_good


@pytest.mark.parametrize("kind", [CommandKind.RESCHEDULE, CommandKind.RUN_NOW])
@pytest.mark.parametrize(
    "known", [_known(running=True), _known(attempts=AttemptState(used=1, last=1))]
)
def test_p12_a_move_is_too_late_once_an_attempt_runs_or_ran(
    kind: CommandKind, known: KnownTask
) -> None:
    """It writes nothing."""
    assert _decide(kind, known) == Decision(CommandOutcome.TOO_LATE)


def test_p12_a_replayed_move_only_does_what_is_missing() -> None:
    """The old key was closed before the crash, the new row may be missing."""
    first = _decide(CommandKind.RESCHEDULE, _known())

    again = _decide(CommandKind.RESCHEDULE, _known(completion=first.completion))

    assert again.completion is None
    assert (again.outcome, again.row, again.new_key) == (
        CommandOutcome.APPLIED,
        first.row,
        first.new_key,
    )


def test_a_move_to_a_key_that_never_runs_again_is_refused() -> None:
    """The task would vanish; it goes on waiting where it is."""
    done = a_completion(result=CompletionResult.SUCCESS)

    decision = _decide(CommandKind.RESCHEDULE, _known(), new_key_completion=done)

    assert decision.outcome is CommandOutcome.ALREADY_CLOSED
    assert (decision.completion, decision.row) == (None, None)
    assert decision.resumed == a_stored_task(offset=1)


def test_a_move_to_a_key_that_was_moved_away_before_is_applied() -> None:
    """There and back again: the later record opens the key."""
    moved_away = a_completion(result=CompletionResult.MOVED, offset=5)

    decision = _decide(CommandKind.RESCHEDULE, _known(), new_key_completion=moved_away)

    assert decision.outcome is CommandOutcome.APPLIED
    assert decision.row is not None


def test_a_move_to_its_own_time_changes_nothing() -> None:
    """The task goes on waiting under the same key."""
    command = _command(CommandKind.RESCHEDULE, to_ms=a_key().scheduled_ms)

    decision = decide(command, _known(), None, NOW_MS)

    assert decision.outcome is CommandOutcome.APPLIED
    assert (decision.completion, decision.row) == (None, None)
    assert decision.resumed == a_stored_task(offset=1)
    assert decision.new_key == a_key()


@pytest.mark.parametrize(
    "result", [CompletionResult.SUCCESS, CompletionResult.FAILURE, CompletionResult.DROPPED]
)
def test_p5_an_operators_retry_reopens_a_done_key(result: CompletionResult) -> None:
    """All attempts are available again; their numbers go on, so no row is written over."""
    known = _known(
        completion=a_completion(result=result, offset=1, attempts=7),
        attempts=AttemptState(used=3, last=3, next_attempt_ms=NOW_MS),
    )

    decision = _decide(CommandKind.RETRY, known)

    assert decision.outcome is CommandOutcome.APPLIED
    assert decision.completion is not None
    assert decision.completion.result is CompletionResult.REOPENED
    assert decision.completion.attempts == 7
    assert not decision.completion.closes(1)
    assert decision.row == known.row and decision.resumed is None
    assert decision.row is not None
    assert decision.row.attempts == AttemptState(used=0, last=7, reopened_ms=NOW_MS)


@pytest.mark.parametrize(
    ("recorded_ms", "outcome"),
    [(NOW_MS - 1, CommandOutcome.RAN_ALREADY), (NOW_MS, CommandOutcome.APPLIED)],
)
def test_p12_a_retry_from_before_the_task_ended_well_meant_what_failed(
    recorded_ms: int, outcome: CommandOutcome
) -> None:
    """Two operators ask at once: the work is done once.  Who has seen the success means it."""
    known = _known(completion=a_completion(result=CompletionResult.SUCCESS, offset=1))
    command = Command(CommandKind.RETRY, a_key(), OFFSET, recorded_ms=recorded_ms)

    assert decide(command, known, None, NOW_MS).outcome is outcome


def test_p8_a_key_that_is_opened_again_has_its_row_written_once_more() -> None:
    """Also where a crash cut that short: a failed tree's delete of its hour may come later."""
    opened = a_completion(result=CompletionResult.REOPENED, offset=OFFSET, attempts=7)

    decision = _decide(CommandKind.RETRY, _known(completion=opened))

    assert decision.row == a_stored_task(offset=1) and decision.resumed is None


@pytest.mark.parametrize("result", [CompletionResult.CANCELLED, CompletionResult.MOVED])
def test_a_retry_does_not_reopen_what_was_cancelled_or_moved(result: CompletionResult) -> None:
    """A schedule record does."""
    known = _known(completion=a_completion(result=result, offset=5))

    assert _decide(CommandKind.RETRY, known) == Decision(CommandOutcome.ALREADY_CLOSED)


def test_a_retry_of_a_running_task_leaves_it_alone() -> None:
    """It is being tried already."""
    assert _decide(CommandKind.RETRY, _known(running=True)) == Decision(CommandOutcome.RUNNING)


def test_a_retry_of_a_waiting_task_ends_its_wait() -> None:
    """A blocked task, or one that waits for its next attempt, may start at once."""
    waiting = AttemptState(used=5, last=5, next_attempt_ms=NOW_MS + 100_000)

    decision = _decide(CommandKind.RETRY, _known(attempts=waiting))

    assert decision.outcome is CommandOutcome.APPLIED
    assert decision.resumed is not None
    assert decision.resumed.attempts == AttemptState(
        used=0, last=5, next_attempt_ms=0, reopened_ms=NOW_MS
    )


def test_p6_a_later_record_opens_what_a_cancel_closed_and_commands_work_again() -> None:
    """The completion of the cancel closes nothing made after it."""
    cancelled = a_completion(result=CompletionResult.CANCELLED, offset=5)
    known = _known(row=a_stored_task(offset=8), completion=cancelled)

    assert known.closing is None
    assert _decide(CommandKind.DROP, known).outcome is CommandOutcome.APPLIED


def test_p12_a_key_that_was_moved_here_closed_stays_closed_without_its_row() -> None:
    """Its offset is below every record's of this log, the bulk loads' -1 too."""
    completion = a_completion(result=CompletionResult.CANCELLED, offset=-(2**48) + 3)
    known = KnownTask(row=None, completion=completion, attempts=FRESH, running=False)

    assert _decide(CommandKind.CANCEL, known) == Decision(CommandOutcome.ALREADY_CLOSED)


@pytest.mark.parametrize("withdrawal", list(WithdrawalResult))
def test_what_is_known_of_a_key_is_its_row_its_status_and_whether_it_runs(
    withdrawal: WithdrawalResult,
) -> None:
    """Nothing is left out."""
    row, completion, state = a_stored_task(), a_completion(), AttemptState(used=1, last=2)

    known = known_task(row, KeyStatus(completion, state), withdrawal)

    running = withdrawal is WithdrawalResult.RUNNING
    assert known == KnownTask(row, completion, state, running)


def test_a_key_is_left_open_where_it_has_a_row_and_nothing_closes_it() -> None:
    """A command that is refused, or a move to its own time."""
    refused = Decision(CommandOutcome.TOO_LATE)
    closed = a_completion(offset=1)

    assert refused.leaves_open(_known())
    assert not refused.leaves_open(_known(completion=closed))
    assert not refused.leaves_open(KnownTask(None, None, FRESH, running=False))
    assert not Decision(CommandOutcome.APPLIED, closed).leaves_open(_known())


def test_what_closes_a_key_tells_when_by_what_and_after_how_many_attempts() -> None:
    """History shows it."""
    known = _known(attempts=AttemptState(used=1, last=3))

    cancelled = _decide(CommandKind.CANCEL, known).completion
    moved = _decide(CommandKind.RESCHEDULE, _known()).completion

    assert cancelled == Completion(
        a_key(),
        CompletionResult.CANCELLED,
        OFFSET,
        attempts=3,
        finished_ms=NOW_MS,
        reason="by command",
    )
    assert moved is not None and moved.finished_ms == NOW_MS


@pytest.mark.parametrize("replaces", [False, True])
def test_p12_a_move_onto_a_stored_key_remembers_the_row_it_wrote(replaces: bool) -> None:
    """The record of the row it replaced may be read again."""
    command = _command(CommandKind.RESCHEDULE)
    decision = decide(command, _known(), None, NOW_MS)
    assert decision.new_key is not None and decision.row is not None

    recorded = recorded_outcome(command, decision, {decision.new_key} if replaces else set())
    row = replacing_row(command, recorded)

    data = decision.row.data if replaces else None
    expected = RecordedOutcome(CommandOutcome.APPLIED, a_key(), decision.new_key, data)
    assert recorded == expected
    assert row == (decision.row if replaces else None)


def test_p6_runs_of_tasks_end_at_each_command_and_the_last_record_of_a_key_wins() -> None:
    """In the order of the log."""
    old, new, other = (
        a_stored_task(uniqueness_key=key, offset=offset)
        for offset, key in enumerate(("a", "a", "b"))
    )
    command = _command(CommandKind.CANCEL)

    assert list(split_runs([old, other, new])) == [(new, other)]
    assert list(split_runs([command, old, new, command, command, other])) == [
        command,
        (new,),
        command,
        command,
        (other,),
    ]
    assert not list(split_runs([]))


DATA = b'{"of":"the letter"}'
_LAST_3 = AttemptState(used=3, last=3)


def _replayed(known: KnownTask) -> Decision:
    command = Command(CommandKind.RETRY, a_key(), OFFSET, recorded_ms=NOW_MS, body=DATA)
    return decide(command, known, None, NOW_MS)


@pytest.mark.parametrize("row", [None, a_stored_task(offset=1), a_stored_task(offset=99)])
@pytest.mark.parametrize("result", [CompletionResult.FAILURE, CompletionResult.DROPPED])
def test_p5_a_replay_opens_failed_work_with_the_data_of_its_letter(
    row: StoredTask | None, result: CompletionResult
) -> None:
    """True if its row is kept or not; attempts are counted from one again, their numbers go on."""
    completion = a_completion(result=result, offset=5, attempts=3)

    decision = _replayed(KnownTask(row, completion, _LAST_3, running=False))

    assert decision.outcome is CommandOutcome.APPLIED
    assert decision.completion is not None
    assert decision.completion.result is CompletionResult.REOPENED
    assert decision.row is not None and decision.resumed is None
    assert (decision.row.body, decision.row.offset) == (DATA, OFFSET)
    assert decision.row.attempts == AttemptState(last=3, reopened_ms=NOW_MS)


@pytest.mark.parametrize(
    ("known", "outcome"),
    [
        (_known(), CommandOutcome.STILL_OPEN),
        (_known(running=True), CommandOutcome.RUNNING),
        (_known(completion=a_completion(offset=5)), CommandOutcome.RAN_ALREADY),
        (
            _known(completion=a_completion(result=CompletionResult.CANCELLED, offset=5)),
            CommandOutcome.ALREADY_CLOSED,
        ),
        (
            _known(completion=a_completion(result=CompletionResult.REOPENED, offset=5)),
            CommandOutcome.STILL_OPEN,
        ),
    ],
)
def test_p12_a_replay_of_what_needs_none_changes_nothing(
    known: KnownTask, outcome: CommandOutcome
) -> None:
    """And says why."""
    assert _replayed(known) == Decision(outcome)


def test_p12_a_replay_of_a_key_that_nobody_remembers_stores_it() -> None:
    """Its completion was deleted, or its record never had an effect."""
    decision = _replayed(KnownTask(None, None, FRESH, running=False))

    assert decision.outcome is CommandOutcome.APPLIED
    assert decision.row == StoredTask(a_key(), DATA, OFFSET)


@pytest.mark.parametrize("row", [None, a_stored_task(offset=1), a_stored_task(offset=OFFSET)])
def test_p12_a_replay_that_a_crash_cut_short_is_finished(row: StoredTask | None) -> None:
    """Its completion is durable; its row may be, its outcome is not."""
    opened = a_completion(result=CompletionResult.REOPENED, offset=OFFSET, attempts=3)

    decision = _replayed(KnownTask(row, opened, AttemptState(last=3), running=False))

    assert decision.outcome is CommandOutcome.APPLIED
    assert decision.row == StoredTask(a_key(), DATA, OFFSET)


@pytest.mark.parametrize(
    ("outcome", "row"),
    [
        (CommandOutcome.APPLIED, StoredTask(a_key(), DATA, OFFSET)),
        (CommandOutcome.STILL_OPEN, None),
    ],
)
def test_p12_the_row_of_a_replay_is_written_once_more(
    outcome: CommandOutcome, row: StoredTask | None
) -> None:
    """The record that it replaced may be read again."""
    command = Command(CommandKind.RETRY, a_key(), OFFSET, body=DATA)

    assert replacing_row(command, RecordedOutcome(outcome, a_key())) == row


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (CompletionResult.FAILURE, CommandOutcome.DATA_GONE),
        (CompletionResult.DROPPED, CommandOutcome.DATA_GONE),
        (CompletionResult.SUCCESS, CommandOutcome.RAN_ALREADY),
    ],
)
def test_p12_a_retry_without_data_says_so(
    result: CompletionResult, outcome: CommandOutcome
) -> None:
    """Its hour was deleted; the key stays closed."""
    known = KnownTask(None, a_completion(result=result, offset=5), _LAST_3, running=False)

    assert _decide(CommandKind.RETRY, known) == Decision(outcome)


def test_a_cancel_counts_the_attempt_that_runs() -> None:
    """Its row is written when it ends."""
    known = KnownTask(a_stored_task(offset=1), None, FRESH, running=True, running_attempt=1)

    decision = _decide(CommandKind.CANCEL, known)

    assert decision.outcome is CommandOutcome.RUNNING
    assert decision.completion is not None and decision.completion.attempts == 1


def test_p12_what_was_cancelled_while_it_ran_is_cancelled_once_more_to_end_it() -> None:
    """The later command closes the key, so its outcome tells when the code has ended."""
    completion = a_completion(result=CompletionResult.CANCELLED, offset=5)
    known = KnownTask(a_stored_task(offset=1), completion, FRESH, running=True, running_attempt=1)

    decision = decide(_CANCEL_RUNNING, known, None, NOW_MS)

    assert decision.outcome is CommandOutcome.RUNNING
    assert decision.completion is not None and decision.completion.offset == OFFSET


@pytest.mark.parametrize(
    ("running", "result", "outcome"),
    [
        (False, CompletionResult.CANCELLED, CommandOutcome.ALREADY_CLOSED),
        (False, CompletionResult.SUCCESS, CommandOutcome.ALREADY_CLOSED),
        (True, CompletionResult.DROPPED, CommandOutcome.RUNNING),
    ],
)
def test_p5_a_command_that_ends_code_changes_nothing_of_another_closed_key(
    running: bool, result: CompletionResult, outcome: CommandOutcome
) -> None:
    """Where nothing runs there is nothing to end; what was dropped stays so while its code ends."""
    known = _known(completion=a_completion(result=result, offset=5), running=running)

    decision = decide(_CANCEL_RUNNING, known, None, NOW_MS)

    assert decision == Decision(outcome)


@pytest.mark.parametrize("kind", [CommandKind.RESCHEDULE, CommandKind.RUN_NOW])
def test_an_expired_task_gets_no_other_time_and_is_closed(kind: CommandKind) -> None:
    """Its replay, where a crash kept the outcome from being written, answers the same."""
    known = replace(_known(), expires_ms=NOW_MS)

    decision = _decide(kind, known)
    again = _decide(kind, replace(known, completion=decision.completion))
    before = _decide(kind, replace(known, expires_ms=NOW_MS + 1))

    assert decision.outcome is again.outcome is CommandOutcome.TOO_LATE
    assert decision.completion is not None and decision.row is None
    assert decision.completion.result is CompletionResult.EXPIRED
    assert again.completion is None and before.outcome is CommandOutcome.APPLIED


def _replacing(due_in_ms: int) -> Command:
    body, to_ms = b'{"new":1}', NOW_MS + due_in_ms
    key = a_key()
    return Command(CommandKind.REPLACE, key, OFFSET, NOW_MS, to_ms, body, by_pair=True)


def test_p12_a_replace_that_a_crash_cut_short_writes_its_own_data() -> None:
    """The old key is closed already; the row that is missing is that of the new task."""
    command = _replacing(90_000)
    first = decide(command, _known(), None, NOW_MS)
    assert first.completion is not None and first.completion.offset == OFFSET

    again = decide(command, _known(completion=first.completion), None, NOW_MS)

    assert again.completion is None and not again.is_new
    assert again.row == first.row
    assert again.row is not None and again.row.body == b'{"new":1}'


def test_p12_a_replace_of_what_ended_since_schedules_its_task() -> None:
    """The outcome names the new task alone."""
    done = a_completion(result=CompletionResult.SUCCESS)

    decision = decide(_replacing(90_000), _known(completion=done), None, NOW_MS)

    assert decision.is_new and decision.completion is None and decision.row is not None
    recorded = recorded_outcome(_replacing(90_000), decision, ())
    assert recorded.key == recorded.new_key == decision.row.key


def test_p6_a_replace_at_the_time_of_its_task_keeps_what_was_attempted() -> None:
    """It is the last record of the key."""
    command = _replacing(a_key().scheduled_ms - NOW_MS)
    known = _known(attempts=AttemptState(used=2, last=2))

    decision = decide(command, known, None, NOW_MS)

    assert decision.row is not None and decision.row.attempts.used == 2
    assert (decision.row.offset, decision.completion) == (OFFSET, None)
