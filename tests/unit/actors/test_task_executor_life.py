"""TaskExecutor: tasks that expire, and attempts that are snoozed."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from hourhand.actors.messages import TaskWithdrawn
from hourhand.actors.model.execution.attempts import Ending
from hourhand.actors.model.execution.commands import Withdrawal, WithdrawalResult
from hourhand.actors.model.operations.events import AttemptRefused, TaskClosed
from hourhand.actors.model.task.codec import decode_record
from hourhand.actors.model.task.status import AttemptResult, CompletionResult
from hourhand.actors.model.task.task import AttemptState, StoredTask
from tests.builders import NOW_MS, a_record, a_task
from tests.unit.actors.execution_bench import WAIT_MS, Bench, task_named

EXPIRES_MS = 5_000


def expiring(
    after_ms: int = EXPIRES_MS, *, due_in_ms: int = 0, kind: str | None = None
) -> StoredTask:
    """Return a due task that expires so long after its time."""
    task = a_task(due_in_ms=due_in_ms, kind=kind)
    expires = timedelta(milliseconds=after_ms)
    found = decode_record(a_record(task=task.model_copy(update={"expires": expires}), offset=3))
    assert isinstance(found, StoredTask)
    return found


def is_closed_as_expired(bench: Bench) -> bool:
    """Make the outcome durable; return whether it is an expired task without a start."""
    completion = bench.record_completion()
    result = completion.result
    assert completion.reason is not None and completion.reason.startswith("expired at ")
    return result is CompletionResult.EXPIRED and completion.started_ms is None


def test_a_task_that_has_expired_is_closed_and_not_started() -> None:
    """The next task of the id goes on once that is durable."""
    bench = Bench()
    behind = task_named("b")

    bench.execute(expiring(due_in_ms=-EXPIRES_MS))
    bench.answer_check()
    bench.execute(behind)

    assert not bench.runner.started and is_closed_as_expired(bench)
    bench.answer_check()
    assert bench.runner.only.task.key == behind.key
    assert TaskClosed in map(type, bench.harness.telemetry.events)


def test_a_task_that_has_not_expired_is_started_with_its_expiry() -> None:
    """The gate looks at it as the last thing before user code."""
    attempt = Bench().begin(expiring())

    assert attempt.expires_ms == attempt.task.key.scheduled_ms + EXPIRES_MS


def test_an_attempt_that_waits_for_a_worker_or_a_limit_is_taken_back_at_the_expiry() -> None:
    """An attempt that runs by then runs on."""
    waiting, running = Bench(), Bench()
    waiting.begin(expiring())
    running.begin(expiring())
    waiting.runner.waits_for_a_worker = True

    for bench in (waiting, running):
        bench.advance(EXPIRES_MS - 1)
        assert len(bench.runner.started) == 1
        bench.advance(1)

    assert not waiting.runner.started and is_closed_as_expired(waiting) and waiting.is_over
    running.end()
    assert running.record_completion().result is CompletionResult.SUCCESS


def test_an_attempt_that_the_gate_refuses_behind_its_expiry_closes_the_task_at_once() -> None:
    """Nobody waits for a lease, and nobody is told that there was none."""
    bench = Bench()
    bench.begin(expiring())
    bench.harness.clock.advance(EXPIRES_MS)

    bench.end(Ending.NOT_STARTED)

    assert is_closed_as_expired(bench) and bench.is_over
    assert AttemptRefused not in map(type, bench.harness.telemetry.events)


def test_a_task_that_waits_for_its_retry_expires_at_its_expiry() -> None:
    """Not when its next attempt would be due."""
    bench = Bench()
    bench.begin(expiring(WAIT_MS // 2))
    bench.fail_once()

    bench.advance(WAIT_MS // 2 - 1)
    assert bench.is_slow
    bench.advance(1)

    completion = bench.record_completion()
    assert completion.result is CompletionResult.EXPIRED and completion.attempts == 1
    assert bench.is_over


def test_a_blocked_task_expires_and_its_ordering_id_goes_on() -> None:
    """No operator could have it run any more."""
    bench = Bench(attempts_max=1, on_exhausted="block")
    bench.begin(expiring())
    bench.fail_once()

    bench.advance(EXPIRES_MS)

    assert bench.record_completion().result is CompletionResult.EXPIRED and bench.is_over


def test_a_task_of_an_unknown_kind_expires_as_any_other() -> None:
    """Held or not."""
    expired, held = Bench(), Bench()
    expired.execute(expiring(due_in_ms=-EXPIRES_MS, kind="unknown"))
    expired.answer_check()
    held.execute(expiring(kind="unknown"))
    held.answer_check()
    held.record_attempt()

    held.advance(EXPIRES_MS)

    assert is_closed_as_expired(expired) and is_closed_as_expired(held)


def test_a_kind_may_have_an_expiry_and_a_tasks_own_comes_before_it() -> None:
    """Tasks of other kinds have none."""
    bench = Bench(expires_after_ms={None: 100})

    bench.execute(
        replace(task_named("b"), key=task_named("a").key._replace(scheduled_ms=NOW_MS - 100))
    )
    bench.answer_check()
    assert is_closed_as_expired(bench)
    attempt = bench.begin(expiring(due_in_ms=-100))

    assert attempt.expires_ms == NOW_MS - 100 + EXPIRES_MS
    assert Bench(expires_after_ms={"mail": 1}).begin().expires_ms is None


def test_a_task_that_an_operator_opened_again_behind_its_expiry_runs() -> None:
    """One that was opened before its expiry still expires."""
    opened = AttemptState(last=2, reopened_ms=NOW_MS)
    early = AttemptState(last=2, reopened_ms=NOW_MS - EXPIRES_MS)
    task = expiring(due_in_ms=-EXPIRES_MS)
    late, bench = Bench(), Bench()

    late.execute(replace(task, attempts=early))
    late.answer_check()

    assert is_closed_as_expired(late)
    assert bench.begin(replace(task, attempts=opened)).expires_ms is None


# Snoozes.


def test_a_snoozed_attempt_goes_on_later_under_its_number() -> None:
    """No attempt is used up, and the time is durable before anything follows."""
    bench = Bench(attempts_max=1)
    bench.begin()

    for snoozes in (1, 2, 3):
        bench.end(Ending.SNOOZED, retry_after_ms=700)
        early = list(bench.runner.started)
        record = bench.record_attempt()
        bench.advance(699)
        assert not early and not bench.runner.started and bench.is_slow
        bench.advance(1)

        assert (record.attempt, record.used, record.snoozed) == (1, 0, snoozes)
        assert record.result is AttemptResult.SNOOZED and record.error_class is None
        assert bench.runner.only.number == 1
        assert bench.runner.only.task.attempts.snoozed == snoozes
    bench.end()

    assert bench.record_completion().attempts == 1 and bench.is_over


def test_an_attempt_that_fails_after_snoozes_is_counted_once() -> None:
    """The next one has its own snoozes."""
    bench = Bench()
    bench.begin()
    bench.end(Ending.SNOOZED, retry_after_ms=10)
    bench.record_attempt()
    bench.advance(10)

    record = bench.fail_once()
    bench.advance(WAIT_MS)

    assert (record.attempt, record.used, record.snoozed) == (1, 1, 0)
    assert bench.runner.only.number == 2 and bench.runner.only.task.attempts.snoozed == 0


def test_a_task_that_was_snoozed_is_not_moved() -> None:
    """Its code was called."""
    bench = Bench()
    bench.begin()
    bench.end(Ending.SNOOZED, retry_after_ms=1_000)
    bench.record_attempt()

    assert bench.withdraw(Withdrawal.MOVE).take(TaskWithdrawn).result is WithdrawalResult.RAN


@pytest.mark.parametrize("suspect", [False, True])
def test_the_next_owner_knows_how_often_an_attempt_was_snoozed(suspect: bool) -> None:
    """After a death of its process the next attempt has the same count of snoozes."""
    bench = Bench()
    state = AttemptState(last=4, used=1, snoozed=6, suspect=suspect)

    attempt = bench.begin(replace(task_named("a"), attempts=state))

    assert attempt.number == 4 + suspect and attempt.task.attempts.snoozed == 6
