"""TaskExecutor: what follows from one attempt, and what may interrupt it."""

import sys
from datetime import timedelta

import pytest
from msgspec.structs import replace

from hourhand.actors.messages import (
    DrainTasks,
    RecordOutcomes,
    RecordStarts,
)
from hourhand.actors.model.execution.attempts import AttemptEnded, Ending, started_record
from hourhand.actors.model.execution.commands import Withdrawal, WithdrawalResult
from hourhand.actors.model.execution.task_state import Fate
from hourhand.actors.model.operations.events import AttemptFinished, TaskHeld
from hourhand.actors.model.task.status import AttemptResult, CompletionResult
from hourhand.actors.model.task.task import AttemptState, StoredTask
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.actors.ports.log import Position
from hourhand.actors.task_executor import TaskExecutorRole
from tests.builders import NOW_MS, a_stored_task
from tests.unit.actors.execution_bench import (
    AWKWARD_NAMES,
    TASK,
    WAIT_MS,
    Awkward,
    Bench,
    holding_of,
)
from tests.unit.probes import EPOCH


def test_a_task_is_run_once_and_closed_as_a_success() -> None:
    """The ordering id goes on only after the completion is durable."""
    bench = Bench()

    attempt = bench.begin()
    bench.end()
    settled_early = list(bench.runner.settled)
    told_early = bench.is_over
    recorded = bench.record()

    assert (attempt.number, attempt.epoch, attempt.timeout_ms) == (1, EPOCH, 7_000)
    (completion,) = recorded.completions
    assert completion.result is CompletionResult.SUCCESS
    assert completion.offset == 3 and not recorded.records
    assert not settled_early and not told_early
    assert bench.runner.settled == [attempt]
    assert bench.is_over


def test_a_subclass_may_name_its_attributes_as_it_likes() -> None:
    """Neither side sees the other's state, and no constructor of ours need be called."""
    role = Awkward()
    bench = Bench(role)

    bench.begin()
    setattr(role, AWKWARD_NAMES[0], "mine")
    bench.end(Ending.FAILED)
    bench.record_attempt()

    assert bench.is_slow
    assert {getattr(role, name) for name in AWKWARD_NAMES} == {"mine"}


def test_p5_a_closed_task_is_not_run() -> None:
    """The tracker says so, and nothing is recorded."""
    bench = Bench()

    bench.execute(TASK)
    bench.answer_check(closed=True)

    assert not bench.runner.started and bench.is_over


def test_a_dropped_task_is_closed_with_its_reason() -> None:
    """A drop is done: it is never tried again."""
    bench = Bench()

    bench.begin()
    bench.runner.end(Ending.DROPPED, reason="customer left")
    bench.run()

    completion = bench.record_completion()
    assert completion.result is CompletionResult.DROPPED
    assert completion.reason == "customer left"


def test_the_next_attempt_waits_until_number_and_time_are_durable() -> None:
    """Attempt number and next time are durable before the next attempt."""
    bench = Bench()

    bench.begin()
    bench.end(Ending.FAILED)
    bench.advance(WAIT_MS * 10)
    started_early = list(bench.runner.started)
    record = bench.record_attempt()
    bench.advance(1)

    assert not started_early
    assert (record.attempt, record.used, record.result) == (1, 1, AttemptResult.FAILURE)
    assert record.next_attempt_ms == NOW_MS + WAIT_MS
    assert bench.runner.only.number == 2


def test_a_retry_runs_after_its_wait_and_not_before() -> None:
    """The parent hears that what is behind belongs in the store."""
    bench = Bench()

    bench.begin()
    bench.fail_once()
    bench.advance(WAIT_MS - 1)
    early = list(bench.runner.started)
    bench.advance(1)

    assert not early and bench.runner.only.number == 2
    assert bench.is_slow


def test_a_retry_waits_though_an_earlier_task_of_its_id_did() -> None:
    """The end of the earlier wait says nothing of the later one."""
    bench = Bench()

    bench.begin()
    bench.fail_once()
    bench.advance(WAIT_MS)
    bench.end()
    bench.record_completion()
    bench.begin()
    bench.fail_once()
    bench.advance(WAIT_MS - 1)
    early = list(bench.runner.started)
    bench.advance(1)

    assert not early and bench.runner.only.number == 2


def test_p7_a_task_that_failed_before_it_was_loaded_waits() -> None:
    """For its next attempt, which counts on, also where its key is known to be open."""
    bench = Bench(known_since_ms=0)
    failed = AttemptState(used=1, last=1, next_attempt_ms=NOW_MS + WAIT_MS)

    bench.execute(replace(TASK, attempts=failed))
    bench.advance(WAIT_MS - 1)
    early = list(bench.runner.started)
    bench.advance(1)

    assert not early and bench.runner.only.number == 2
    assert bench.is_slow


def test_retry_after_overrides_the_policys_wait() -> None:
    """``Retry(after=...)`` says when; it counts as an attempt."""
    bench = Bench()

    bench.begin()
    bench.end(Ending.RETRY, retry_after_ms=5)
    record = bench.record_attempt()

    assert (record.result, record.used, record.next_attempt_ms) == (
        AttemptResult.RETRY,
        1,
        NOW_MS + 5,
    )


def test_a_wait_without_end_is_kept_within_the_years_a_row_can_hold() -> None:
    """``Retry(after=timedelta.max)`` is a long wait, not a number no store can hold."""
    bench = Bench()

    bench.begin()
    bench.end(Ending.RETRY, retry_after_ms=round(timedelta.max.total_seconds() * 1000))

    next_ms = bench.record_attempt().next_attempt_ms
    assert next_ms is not None and NOW_MS < next_ms <= 253_402_300_799_999


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.RETRY, Ending.TIMED_OUT])
def test_used_up_attempts_close_the_key_as_failed(ending: Ending) -> None:
    """``skip``: the last attempt goes with the completion."""
    bench = Bench(attempts_max=2)

    bench.begin()
    bench.fail_once()
    bench.advance(WAIT_MS)
    bench.end(ending)
    recorded = bench.record()

    ((completion,), (record,)) = recorded.completions, recorded.records
    assert completion.result is CompletionResult.FAILURE
    assert completion.attempts == 2 and record.next_attempt_ms is None
    assert bench.is_over


def test_a_blocked_key_holds_its_ordering_id() -> None:
    """``block``: recorded, then held until an operator acts."""
    bench = Bench(attempts_max=1, on_exhausted="block")

    bench.begin()
    bench.fail_once()
    bench.advance(WAIT_MS * 100)

    assert not bench.runner.started and not bench.is_over
    assert bench.is_slow
    assert holding_of(bench.withdraw(Withdrawal.RETRY)) is WithdrawalResult.WITHDRAWN


def test_a_dead_letter_is_acknowledged_before_the_key_is_closed() -> None:
    """``dead_letter``: the record as it stood in the log."""
    bench = Bench(attempts_max=1, on_exhausted="dead_letter")

    bench.begin()
    bench.end(Ending.FAILED)
    before = list(bench.harness.writer.letters)
    bench.record_attempt()
    letter, _reason, future = bench.harness.writer.letters[0]
    early = bench.tracker.has(RecordOutcomes)
    future.set_result(Position(0, 1))
    bench.run()

    assert not before, "the last attempt is durable first: another owner does not repeat it"
    assert not early and letter.offset == 3
    assert bench.record_completion().result is CompletionResult.FAILURE


def test_p7_what_waits_for_its_dead_letter_keeps_nothing_behind_it_in_memory() -> None:
    """The dead-letter topic may take nothing for hours."""
    bench = Bench(attempts_max=1, on_exhausted="dead_letter")

    bench.begin()
    bench.fail_once()

    assert bench.is_slow and not bench.is_over


def test_a_dead_letter_that_fails_for_good_fails_the_role() -> None:
    """Its partition has it written again as often as it takes, so this is a bug."""
    bench = Bench(attempts_max=1, on_exhausted="dead_letter")
    bench.begin()
    bench.fail_once()
    ((_record, _reason, letter),) = bench.harness.writer.letters

    letter.set_exception(LogUnavailable("gone"))

    with pytest.raises(LogUnavailable):
        bench.run()


def test_a_node_that_stops_does_not_wait_for_a_dead_letter() -> None:
    """The next owner finds the attempts used up, and writes it."""
    bench = Bench(attempts_max=1, on_exhausted="dead_letter")
    bench.begin()
    bench.fail_once()

    bench.tell(DrainTasks())

    ((_record, _reason, letter),) = bench.harness.writer.letters
    assert bench.is_drained
    assert letter.cancelled() and not bench.tracker.has(RecordOutcomes)


def test_a_task_loaded_with_all_attempts_used_is_not_run() -> None:
    """A suspect that used up its attempts by dying is given up."""
    bench = Bench(attempts_max=2)

    bench.execute(replace(TASK, attempts=AttemptState(used=2, last=3, suspect=True)))
    bench.answer_check()

    completion = bench.record_completion()
    assert not bench.runner.started
    assert (completion.result, completion.attempts) == (CompletionResult.FAILURE, 3)


def test_a_task_that_was_not_overdue_records_no_start() -> None:
    """A first attempt that succeeds has no attempt row."""
    assert Bench().begin().record_starts is None


def test_each_start_of_a_kind_with_one_attempt_is_recorded() -> None:
    """It does not count: its node may die before user code is called."""
    attempt = Bench(attempts_max=1, one_attempt_kinds={None}).begin()

    assert attempt.record_starts is not None and not attempt.suspect
    record = started_record(attempt, NOW_MS)
    assert (record.attempt, record.used, record.finished_ms) == (1, 0, None)
    assert Bench(one_attempt_kinds={"mail"}).begin().record_starts is None


@pytest.mark.parametrize(("suspect", "used"), [(False, 1), (True, 2)])
def test_only_a_suspects_start_counts_as_an_attempt(suspect: bool, used: int) -> None:
    """A bystander of a dying process keeps its attempts."""
    bench = Bench()
    state = AttemptState(used=1, last=4, suspect=suspect)

    attempt = bench.begin(replace(TASK, attempts=state, overdue_when_loaded=True))
    assert attempt.record_starts is not None
    recorded = attempt.record_starts((attempt,))
    message = bench.tracker.take(RecordStarts)

    record = started_record(message.attempts[0], NOW_MS)

    assert message.recorded is recorded and attempt.suspect is suspect
    assert (record.attempt, record.used) == (5, used)
    assert record.result is AttemptResult.STARTED and record.finished_ms is None


def test_a_failed_suspect_is_counted_once() -> None:
    """Its durable start and its end are the same attempt."""
    bench = Bench()
    state = AttemptState(used=1, last=1, suspect=True)

    bench.begin(replace(TASK, attempts=state, overdue_when_loaded=True))
    record = bench.fail_once()
    bench.advance(WAIT_MS)

    assert (record.attempt, record.used) == (2, 2)
    assert bench.runner.only.record_starts is None and not bench.runner.only.suspect


def test_an_attempt_without_a_lease_is_tried_again() -> None:
    """User code was not called, so nothing is counted."""
    bench = Bench()

    bench.begin()
    bench.end(Ending.NOT_STARTED)
    bench.advance(200)

    assert bench.runner.only.number == 1 and not bench.tracker.messages


def test_a_clock_set_far_back_and_forward_again_does_not_strand_a_task() -> None:
    """The wait follows the wall clock, however far away the due time looked."""
    bench = Bench()

    bench.begin()
    bench.harness.clock.step_wall(-86_400_000)
    bench.end(Ending.NOT_STARTED)
    bench.harness.clock.step_wall(86_400_000)
    bench.advance(2_000)

    assert bench.runner.only.number == 1


def test_the_ends_of_other_attempts_are_ignored() -> None:
    """An attempt of an earlier task may answer late."""
    bench = Bench()

    first = bench.begin()
    listener = bench.runner.started[0].listener
    bench.end()
    bench.record_completion()
    bench.begin(a_stored_task(due_in_ms=0, uniqueness_key="next"))

    listener(AttemptEnded(first, Ending.DONE, NOW_MS, NOW_MS))
    bench.run()

    assert bench.runner.only.task.key.uniqueness_key == "next"
    assert not bench.tracker.messages


def given_up(*, overdue: bool = False) -> StoredTask:
    """Return a task whose three attempts are recorded as all that it may have."""
    state = AttemptState(used=3, last=3)
    return replace(TASK, attempts=state, overdue_when_loaded=overdue)


@pytest.mark.parametrize("overdue", [False, True])
def test_a_task_that_was_given_up_is_blocked_again_without_a_word(overdue: bool) -> None:
    """Its policy is asked where attempts run, before any start is made durable."""
    bench = Bench(on_exhausted="block")

    attempt = bench.begin(given_up(overdue=overdue))
    bench.end(Ending.USED_UP)

    assert attempt.was_given_up
    assert bench.is_slow and not bench.tracker.has(RecordOutcomes)
    assert bench.runner.settled == [attempt]


def test_a_policy_that_allows_less_than_before_ends_a_durable_start() -> None:
    """Left without an end it would read as that of a process that died."""
    bench = Bench(on_exhausted="block")
    state = AttemptState(used=3, last=3, next_attempt_ms=NOW_MS)

    bench.begin(replace(TASK, attempts=state, overdue_when_loaded=True))
    bench.end(Ending.USED_UP)
    record = bench.record_attempt()

    assert (record.attempt, record.used, record.next_attempt_ms) == (4, 3, None)
    assert record.finished_ms is not None and bench.is_slow
    assert not bench.runner.started


def test_a_suspect_without_an_attempt_left_is_not_even_constructed() -> None:
    """Its constructor may be what ended the process; its class says how often that may be."""
    bench = Bench(attempts_max=2)
    state = AttemptState(used=2, last=2, suspect=True)

    bench.execute(replace(TASK, attempts=state, overdue_when_loaded=True))
    bench.answer_check()

    assert not bench.runner.started
    assert bench.record_completion().result is CompletionResult.FAILURE


@pytest.mark.parametrize(("overdue", "number"), [(False, 0), (True, 1)])
def test_a_task_whose_data_cannot_be_opened_here_is_held(overdue: bool, number: int) -> None:
    """It uses up no attempt; where its start was durable, that has an end."""
    bench = Bench()

    bench.begin(replace(TASK, overdue_when_loaded=overdue))
    bench.end(Ending.HELD)
    record = bench.record_attempt()

    assert (record.attempt, record.used, record.error_class) == (number, 0, "PayloadSealed")
    assert bench.harness.telemetry.of(TaskHeld) and bench.is_slow
    assert not bench.harness.telemetry.of(AttemptFinished)


def test_p13_a_task_at_hand_takes_few_bytes_beside_its_attempt() -> None:
    """A hundred thousand ids may be busy: with its id it took 344 bytes before it had a record."""
    bench = Bench(known_since_ms=0)
    bench.execute(TASK)
    ordering = bench.actor._orderings[TASK.key.ordering_id]
    role = ordering.at_hand(TASK.key)

    assert isinstance(role, TaskExecutorRole) and role.fate is Fate.OPEN
    parts = (ordering, role, ordering.executors)
    assert sum(map(sys.getsizeof, parts)) <= 344
    assert (ordering.queue, ordering.run, ordering.unordered, role.setback) == (None,) * 4
