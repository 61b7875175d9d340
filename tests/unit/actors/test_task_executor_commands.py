"""TaskExecutor: later records and commands, whatever it is just waiting for."""

import pytest
from msgspec.structs import replace

from hourhand.actors.messages import (
    CheckTasks,
    RecordOutcomes,
    StartTasks,
    TaskWithdrawn,
    UpdateTask,
    WithdrawTask,
)
from hourhand.actors.model.execution.attempts import Ending, state_after
from hourhand.actors.model.execution.commands import Withdrawal, WithdrawalResult
from hourhand.actors.model.task.status import AttemptResult, CompletionResult
from hourhand.actors.model.task.task import FRESH
from hourhand.actors.ports.log import Position
from tests.builders import a_stored_task, an_attempt
from tests.unit.actors.execution_bench import TASK, WAIT_MS, Bench, holding_of
from tests.unit.probes import EPOCH, Probe


def test_p6_the_next_attempt_uses_the_latest_data() -> None:
    """The running one keeps the data it started with."""
    bench = Bench()

    attempt = bench.begin()
    bench.tell(UpdateTask(replace(TASK, body=b'{"invoice":43}', offset=9)))
    bench.fail_once()
    bench.advance(WAIT_MS)

    assert attempt.task.data == b'{"invoice":42}'
    assert bench.runner.only.task.data == b'{"invoice":43}'
    assert bench.runner.only.number == 2, "a later record does not forget attempts"


def test_p6_an_attempt_that_waits_for_an_allowance_begins_anew_with_the_latest_data() -> None:
    """It may wait for hours, and what it waits for may depend on its data."""
    bench = Bench()
    bench.begin()
    bench.runner.waits_for_a_worker = bench.runner.is_limited = True

    bench.tell(UpdateTask(replace(TASK, body=b'{"invoice":43}', offset=9)))

    assert bench.runner.only.task.data == b'{"invoice":43}'
    assert bench.runner.only.number == 1
    bench.end()
    assert bench.record_completion().offset == 9


def test_an_update_for_a_task_that_just_ended_does_no_harm() -> None:
    """The parent may send one before it hears of the end."""
    bench = Bench()
    bench.begin()
    bench.end()
    bench.record_completion()

    bench.tell(UpdateTask(replace(TASK, offset=9)))

    assert bench.is_over, "the update opened nothing"


def test_an_update_while_checking_is_checked_itself() -> None:
    """What is known of the older record says nothing about the newer one."""
    bench = Bench()
    bench.execute(TASK)

    bench.tell(UpdateTask(replace(TASK, offset=9)))
    bench.answer_check(closed=True)
    waiting = not bench.is_over
    bench.answer_check(closed=False)

    assert waiting and bench.runner.only.task.offset == 9


def test_an_answer_about_an_earlier_task_is_not_taken_for_this_one() -> None:
    """A withdrawn task leaves its question behind."""
    bench = Bench()
    bench.execute(TASK)
    assert holding_of(bench.withdraw()) is WithdrawalResult.WITHDRAWN
    bench.execute(a_stored_task(due_in_ms=0, uniqueness_key="next", offset=4))

    bench.answer_check(closed=True)
    not_finished = not bench.is_over
    bench.answer_check(closed=False)

    assert not_finished and bench.runner.only.task.key.uniqueness_key == "next"


@pytest.mark.parametrize("withdrawal", Withdrawal)
def test_a_task_being_checked_can_be_withdrawn(withdrawal: Withdrawal) -> None:
    """No attempt follows, whatever the check says."""
    bench = Bench()
    bench.execute(TASK)

    asker = bench.withdraw(withdrawal)
    bench.answer_check()

    assert holding_of(asker) is WithdrawalResult.WITHDRAWN
    assert not bench.runner.started and bench.is_let_go


def test_p6_a_cancelled_attempt_may_end_and_no_other_follows() -> None:
    """Its failure is recorded as history."""
    bench = Bench()

    bench.begin()
    asker = bench.withdraw()
    bench.end(Ending.FAILED)
    record = bench.record_attempt()
    bench.advance(WAIT_MS * 10)

    assert holding_of(asker) is WithdrawalResult.RUNNING
    assert record.next_attempt_ms is None
    assert not bench.runner.started and bench.is_over


@pytest.mark.parametrize("withdrawal", list(Withdrawal))
def test_p5_an_attempt_that_waits_for_a_worker_is_withdrawn(withdrawal: Withdrawal) -> None:
    """Its user code would be called after the key was closed."""
    bench = Bench()
    bench.runner.waits_for_a_worker = True

    bench.begin()
    asker = bench.withdraw(withdrawal)

    assert holding_of(asker) is WithdrawalResult.WITHDRAWN
    assert not bench.runner.started and bench.is_let_go


def test_a_retry_that_waits_for_a_worker_is_not_moved() -> None:
    """It ran before, so its attempts belong to this key."""
    bench = Bench()
    bench.begin()
    bench.fail_once()
    bench.runner.waits_for_a_worker = True
    bench.advance(WAIT_MS)

    asker = bench.withdraw(Withdrawal.MOVE)

    assert holding_of(asker) is WithdrawalResult.RUNNING
    assert bench.runner.only.number == 2


def test_p5_a_key_with_a_record_after_a_command_is_read_again_before_it_runs() -> None:
    """A cancelled key it opens, a dropped one it does not: the store knows which it was."""
    bench = Bench()
    bench.begin()
    bench.withdraw()
    bench.tell(UpdateTask(replace(TASK, offset=9)))
    bench.fail_once()
    bench.advance(WAIT_MS)

    request = bench.load(replace(TASK, offset=9))
    assert request.after < TASK.key <= request.up_to
    assert bench.runner.only.task.offset == 9


def test_p6_a_cancelled_attempt_that_ends_well_makes_the_key_done() -> None:
    """The cancel came too late."""
    bench = Bench()

    bench.begin()
    bench.withdraw()
    bench.end()

    assert bench.record_completion().result is CompletionResult.SUCCESS


def test_p6_a_cancelled_attempt_that_was_refused_is_not_started_again() -> None:
    """No lease meant that user code was not called; after a cancel it never is."""
    bench = Bench()

    bench.begin()
    bench.withdraw()
    bench.end(Ending.NOT_STARTED)
    bench.advance(WAIT_MS)

    assert not bench.runner.started and bench.is_over


def test_a_cancel_while_waiting_for_a_retry_ends_it() -> None:
    """The timer of the retry does not fire into the next task."""
    bench = Bench()
    bench.begin()
    bench.fail_once()

    asker = bench.withdraw()
    bench.advance(WAIT_MS * 2)

    assert holding_of(asker) is WithdrawalResult.WITHDRAWN and not bench.runner.started


def test_a_cancel_in_the_same_moment_as_the_retry_is_due_ends_it() -> None:
    """The message is in the mailbox before the timer's."""
    bench = Bench()
    bench.begin()
    bench.fail_once()
    asker = Probe()

    bench.harness.clock.advance(WAIT_MS)
    bench.ref.tell(WithdrawTask(TASK.key, Withdrawal.CLOSE, asker))
    bench.run()

    assert holding_of(asker) is WithdrawalResult.WITHDRAWN and not bench.runner.started


def test_p6_a_cancel_while_a_failure_is_recorded_allows_no_further_attempt() -> None:
    """Even where the next one would be due at once."""
    bench = Bench()
    bench.begin()
    bench.end(Ending.RETRY, retry_after_ms=0)

    asker = bench.withdraw()
    bench.record_attempt()

    assert holding_of(asker) is WithdrawalResult.WITHDRAWN
    assert not bench.runner.started and bench.is_let_go


def test_a_command_while_the_completion_is_recorded_finds_the_key_closed() -> None:
    """It is answered when the completion is durable."""
    bench = Bench()
    bench.begin()
    bench.end()

    asker = bench.withdraw()
    early = list(asker.messages)
    bench.record_completion()

    assert not early and holding_of(asker) is WithdrawalResult.ABSENT


def test_a_task_that_ran_is_not_moved() -> None:
    """A reschedule finds that an attempt ran, and the retry goes on."""
    bench = Bench()
    bench.begin()
    bench.fail_once()

    asker = bench.withdraw(Withdrawal.MOVE)
    bench.advance(WAIT_MS)

    assert holding_of(asker) is WithdrawalResult.RAN and bench.runner.only.number == 2


def test_a_move_while_a_failure_is_recorded_is_refused_and_the_retry_goes_on() -> None:
    """An attempt ran."""
    bench = Bench()
    bench.begin()
    bench.end(Ending.FAILED)

    asker = bench.withdraw(Withdrawal.MOVE)
    bench.record_attempt()
    bench.advance(WAIT_MS)

    assert holding_of(asker) is WithdrawalResult.RAN and bench.runner.only.number == 2


@pytest.mark.parametrize("withdrawal", [Withdrawal.CLOSE, Withdrawal.RETRY])
def test_p7_a_task_that_waits_for_its_dead_letter_can_be_withdrawn(withdrawal: Withdrawal) -> None:
    """A command that waited with it would hold the partition while the dead-letter topic fails."""
    bench = Bench(attempts_max=1, on_exhausted="dead_letter")
    bench.begin()
    bench.fail_once()

    asker = bench.withdraw(withdrawal)

    ((_record, _reason, letter),) = bench.harness.writer.letters
    assert holding_of(asker) is WithdrawalResult.WITHDRAWN
    assert letter.cancelled() and bench.is_let_go
    assert not bench.tracker.has(RecordOutcomes)


def test_p7_a_task_that_waits_for_its_dead_letter_is_not_moved() -> None:
    """It ran, and goes on waiting for its letter."""
    bench = Bench(attempts_max=1, on_exhausted="dead_letter")
    bench.begin()
    bench.fail_once()

    asker = bench.withdraw(Withdrawal.MOVE)
    ((_record, _reason, letter),) = bench.harness.writer.letters
    letter.set_result(Position(0, 1))
    bench.run()

    assert holding_of(asker) is WithdrawalResult.RAN
    assert bench.record_completion().result is CompletionResult.FAILURE


def test_p6_a_dead_letter_has_the_latest_data() -> None:
    """Where a record comes while an earlier one's letter fails."""
    bench = Bench(attempts_max=1, on_exhausted="dead_letter")
    bench.begin()
    bench.fail_once()

    bench.tell(UpdateTask(replace(TASK, body=b'{"invoice":43}', offset=9)))

    (_, _, before), (record, _, letter) = bench.harness.writer.letters
    assert before.cancelled() and not letter.cancelled()
    assert record.offset == 9
    letter.set_result(Position(0, 1))
    bench.run()
    assert bench.record_completion().offset == 9


# What runs is asked to end.


def test_p6_an_attempt_that_a_command_ends_is_not_tried_again() -> None:
    """Its end is history, and uses up no attempt."""
    bench = Bench()
    attempt = bench.begin()

    asker = bench.interrupt()
    bench.end(Ending.CANCELLED)
    record = bench.record_attempt()
    bench.advance(WAIT_MS * 10)

    assert bench.runner.interrupted == [attempt]
    answer = asker.take(TaskWithdrawn)
    assert (answer.result, answer.attempt) == (WithdrawalResult.RUNNING, 1)
    assert (record.attempt, record.used, record.result) == (1, 0, AttemptResult.DROPPED)
    assert record.finished_ms is not None, "it would be taken for a suspect"
    assert not bench.runner.started and bench.is_over


def test_p4_what_waits_behind_code_that_is_asked_to_end_starts_after_its_end_is_durable() -> None:
    """A thread may take as long as it likes."""
    bench = Bench(slots=2)
    bench.begin()
    bench.execute(a_stored_task(due_in_ms=1, uniqueness_key="next", offset=1))

    bench.interrupt()
    while_it_runs = list(bench.running)
    bench.end(Ending.CANCELLED)
    before_it_is_durable = [*bench.running, *bench.tracker.take_all(CheckTasks)]
    bench.record_attempt()
    bench.answer_check()

    assert while_it_runs == [TASK.key.uniqueness_key] and not before_it_is_durable
    assert bench.running == ["next"]


def test_p6_an_attempt_is_asked_to_end_by_a_second_command() -> None:
    """The first one let it end by itself."""
    bench = Bench()
    attempt = bench.begin()

    bench.withdraw()
    asked_before = list(bench.runner.interrupted)
    asker = bench.interrupt()

    assert not asked_before and bench.runner.interrupted == [attempt]
    assert holding_of(asker) is WithdrawalResult.RUNNING


def test_p12_a_command_that_is_read_again_ends_no_later_task() -> None:
    """A record behind it has opened the key once more."""
    bench = Bench()
    bench.begin(replace(TASK, offset=9))

    bench.interrupt(offset=8)

    assert not bench.runner.interrupted


def test_p6_a_key_that_is_scheduled_again_while_its_code_ends_runs_again_after_that() -> None:
    """With all its attempts; their numbers go on."""
    bench = Bench()
    bench.begin()
    bench.interrupt()

    bench.tell(UpdateTask(replace(TASK, offset=9)))
    while_it_runs = len(bench.runner.started)
    bench.end(Ending.CANCELLED)
    record = bench.record_attempt()
    bench.load(replace(TASK, offset=9, attempts=state_after(FRESH, record)))

    assert while_it_runs == 1
    assert (bench.runner.only.number, bench.runner.only.task.attempts.used) == (2, 0)


def test_p5_an_attempt_without_a_worker_is_withdrawn_and_not_asked_to_end() -> None:
    """Its code is never called."""
    bench = Bench()
    bench.runner.waits_for_a_worker = True
    bench.begin()

    asker = bench.interrupt()

    assert holding_of(asker) is WithdrawalResult.WITHDRAWN and not bench.runner.interrupted


def test_a_command_while_a_success_is_recorded_comes_too_late_to_end_anything() -> None:
    """The key is done."""
    bench = Bench()
    bench.begin()
    bench.end()

    asker = bench.interrupt()
    bench.record_completion()

    assert holding_of(asker) is WithdrawalResult.ABSENT and not bench.runner.interrupted


def test_p16_an_attempt_of_an_earlier_tree_is_asked_to_end_and_its_key_is_read_again() -> None:
    """That tree may have been told of a later record."""
    attempt = an_attempt(task=TASK, epoch=EPOCH)
    bench = Bench(left=[attempt])

    asker = bench.interrupt()
    bench.tell(StartTasks())
    bench.end(Ending.CANCELLED)
    bench.record_attempt()

    assert holding_of(asker) is WithdrawalResult.RUNNING
    assert bench.runner.interrupted == [attempt] and bench.asks_store


def test_p3_code_of_an_owner_before_the_last_one_is_asked_to_end_too() -> None:
    """It runs here, whatever its end proves."""
    attempt = an_attempt(task=TASK, epoch=EPOCH - 1)
    bench = Bench(left=[attempt])

    asker = bench.interrupt()

    assert holding_of(asker) is WithdrawalResult.RUNNING
    assert bench.runner.interrupted == [attempt]
