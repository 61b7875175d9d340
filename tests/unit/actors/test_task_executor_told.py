"""TaskExecutor: what others learn of an attempt, and when."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from hourhand.actors.messages import StartTasks
from hourhand.actors.model.execution.attempts import Attempt, Ending
from hourhand.actors.model.execution.backoff import OnExhausted
from hourhand.actors.model.execution.commands import WithdrawalResult
from hourhand.actors.model.operations.events import (
    AttemptFinished,
    AttemptRefused,
    RetriesExhausted,
    TaskClosed,
)
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.task.task import AttemptState
from hourhand.actors.ports.runner import Executable
from tests.builders import NOW_MS, a_stored_task, an_attempt
from tests.unit.actors.execution_bench import LONG_AGO_MS, TASK, Bench, Job, holding_of
from tests.unit.probes import EPOCH, PARTITION


def test_an_attempt_has_the_timeout_of_the_settings() -> None:
    """That of its executor is read where it runs."""
    role = Job()
    role.timeout = timedelta(seconds=3)

    assert Bench(role).begin().timeout_ms == 7_000


def test_the_end_of_an_attempt_that_failed_is_told_at_once() -> None:
    """Once, with its number and what went wrong."""
    bench = Bench()
    bench.begin()

    bench.end(Ending.FAILED)

    (event,) = bench.harness.telemetry.of(AttemptFinished)
    assert (event.key, event.attempt, event.error_class) == (TASK.key, 1, "ValueError")


def test_the_end_of_an_attempt_that_closed_its_task_is_told_when_that_is_durable() -> None:
    """With what it closed."""
    bench = Bench()
    tasks = [a_stored_task(due_in_ms=0, ordering_id=f"id-{each}") for each in range(2)]
    bench.execute(*tasks)
    bench.answer_check()
    bench.end()
    bench.end()
    early = bench.harness.telemetry.of(AttemptFinished)

    bench.record()
    bench.record()

    keys = [task.key for task in tasks]
    assert not early
    assert [each.key for each in bench.harness.telemetry.of(AttemptFinished)] == keys
    assert [each.key for each in bench.harness.telemetry.of(TaskClosed)] == keys


def test_p16_a_failed_attempt_is_the_runners_until_it_is_durable() -> None:
    """A tree that came after this one would adopt it; after that its retry is all there is."""
    bench = Bench()
    attempt = bench.begin()
    bench.end(Ending.FAILED)
    early = list(bench.runner.settled)

    bench.record_attempt()

    assert (early, bench.runner.settled) == ([], [attempt])


def test_a_refused_attempt_of_another_owner_lets_the_ordering_id_go_on_at_once() -> None:
    """No lease will ever allow it."""
    attempt = an_attempt(task=TASK, epoch=EPOCH - 1)
    bench = Bench(left=[attempt])
    bench.tell(StartTasks())

    bench.end(Ending.NOT_STARTED)

    assert bench.asks_store


def test_a_key_that_just_ended_is_answered_as_absent() -> None:
    """Whoever asks waits for an answer."""
    assert holding_of(Bench().withdraw()) is WithdrawalResult.ABSENT


def test_a_key_that_is_closed_without_an_attempt_was_finished_now() -> None:
    """Its completion is kept for so long from then on."""
    bench = Bench(attempts_max=2)
    used_up = replace(TASK, attempts=AttemptState(used=2, last=2))
    bench.harness.clock.advance(5_000)

    bench.begin(used_up)
    bench.end(Ending.USED_UP)

    assert bench.record_completion().finished_ms == NOW_MS + 5_000


def test_a_closed_key_is_told_of_once_it_is_durable() -> None:
    """With its result."""
    bench = Bench()
    bench.begin()
    bench.end(Ending.DROPPED)
    early = bench.harness.telemetry.of(TaskClosed)

    bench.record_completion()

    assert not early
    assert bench.harness.telemetry.of(TaskClosed) == [
        TaskClosed(PARTITION, TASK.key, CompletionResult.DROPPED)
    ]


@pytest.mark.parametrize("on_exhausted", ["skip", "dead_letter", "block"])
def test_used_up_attempts_are_told_of(on_exhausted: OnExhausted) -> None:
    """With what follows; once."""
    bench = Bench(attempts_max=1, on_exhausted=on_exhausted)
    bench.begin()
    bench.end(Ending.FAILED)
    if on_exhausted != "skip":
        bench.record_attempt()

    (told,) = bench.harness.telemetry.of(AttemptFinished)
    failed_ms, error_class = told.finished_ms, told.error_class
    assert failed_ms and error_class
    assert bench.harness.telemetry.of(RetriesExhausted) == [
        RetriesExhausted(PARTITION, TASK.key, on_exhausted, 1, failed_ms, error_class)
    ]


def test_a_refused_attempt_is_told_of_and_has_no_end() -> None:
    """No user code ran."""
    bench = Bench()
    bench.begin()

    bench.end(Ending.NOT_STARTED)

    assert bench.harness.telemetry.of(AttemptRefused) == [AttemptRefused(PARTITION, TASK.key)]
    assert not bench.harness.telemetry.of(AttemptFinished)


def test_p7_a_retry_that_waits_is_told_to_the_parent_by_its_key() -> None:
    """Which lets what stands behind it go back to the store."""
    bench = Bench()
    bench.begin()

    bench.fail_once()

    assert bench.is_slow


def test_p3_the_end_of_an_attempt_is_told_before_the_next_of_its_id_may_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Workers tell of a start at once; who listens would else see two attempts side by side."""
    bench = Bench(known_since_ms=LONG_AGO_MS)
    bench.send("a", "b")
    ended_at_start: list[list[str]] = []
    start = bench.runner.start

    def noted(attempts: Sequence[tuple[Attempt, Executable]], *args: Any) -> None:
        ends = bench.harness.telemetry.of(AttemptFinished)
        ended_at_start.append([each.key.uniqueness_key for each in ends])
        start(attempts, *args)

    monkeypatch.setattr(bench.runner, "start", noted)
    bench.end()
    bench.record()

    assert ended_at_start == [["a"]]
