"""TaskExecutor: later records and commands, whatever it is just waiting for."""

import pytest
from msgspec.structs import replace

from actors.messages import (
    RecordOutcomes,
    UpdateTask,
    WithdrawTask,
)
from actors.model.attempts import Ending
from actors.model.commands import Withdrawal, WithdrawalResult
from actors.model.status import CompletionResult
from actors.ports.log import Position
from tests.builders import a_stored_task
from tests.unit.actors.execution_bench import TASK, WAIT_MS, Bench, holding_of
from tests.unit.probes import Probe


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
