"""Attempts: one at a time per ordering id, each end told once, none lost, and what it means."""

import asyncio
from datetime import timedelta

import pytest

from hourhand.actors.model.execution.attempts import Attempt, AttemptEnded, Ending
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.outcome import Done, Drop, Retry
from hourhand.actors.ports.runner import AttemptListener
from hourhand.scheduler.node.attempts import (
    AttemptRegistry,
    RunningAttempt,
)
from hourhand.scheduler.node.endings import (
    ERROR_MESSAGE_CHARS_MAX,
    ERROR_STACK_CHARS_MAX,
    ended_badly,
    ended_well,
    not_started,
)
from tests.builders import NOW_MS, RecordingExecutable, a_stored_task, an_attempt
from tests.unit.scheduler.node.runner_bench import Bench

EXECUTOR = RecordingExecutable()


class Ends(list[AttemptEnded]):
    """Keeps the ends it is told."""

    def __call__(self, ended: AttemptEnded) -> None:
        """Implements ``AttemptListener``."""
        self.append(ended)


def added(registry: AttemptRegistry, attempt: Attempt, listener: AttemptListener) -> RunningAttempt:
    """Register one attempt."""
    (running,) = registry.add([(attempt, EXECUTOR)], listener)
    return running


def test_p3_an_ordering_id_has_one_attempt_at_a_time() -> None:
    """Other ids and partitions do not count."""
    registry = AttemptRegistry()
    added(registry, an_attempt(), Ends())
    added(registry, an_attempt(partition=1), Ends())
    added(registry, an_attempt(task=a_stored_task(ordering_id="other")), Ends())

    with pytest.raises(AssertionError, match="still running"):
        added(registry, an_attempt(number=2), Ends())


def test_an_ended_attempt_is_kept_until_it_is_settled() -> None:
    """Its outcome may not be durable yet."""
    registry, ends, attempt = AttemptRegistry(), Ends(), an_attempt()
    running = added(registry, attempt, ends)
    ended = not_started(attempt, NOW_MS)

    registry.end(running, ended)
    kept = [each.attempt for each in registry.of_partition(0)]
    registry.settle([attempt])

    assert ends == [ended] and kept == [attempt] and not registry.of_partition(0)


def test_settling_an_attempt_leaves_its_successor_alone() -> None:
    """It may be settled twice."""
    registry, first, second = AttemptRegistry(), an_attempt(), an_attempt(number=2)
    added(registry, first, Ends())
    registry.settle([first])
    added(registry, second, Ends())

    registry.settle([first])

    assert registry.find(second) is not None


@pytest.mark.parametrize("ended_before", [False, True])
def test_p16_an_end_is_told_to_whoever_adopted_the_attempt(ended_before: bool) -> None:
    """At once where it ended already."""
    registry, old, new, attempt = AttemptRegistry(), Ends(), Ends(), an_attempt()
    running = added(registry, attempt, old)
    ended = not_started(attempt, NOW_MS)
    if ended_before:
        registry.end(running, ended)

    registry.adopt(attempt, new)
    if not ended_before:
        registry.end(running, ended)

    assert new == [ended] and len(old) == int(ended_before)


def test_an_abandoned_attempt_that_never_began_is_forgotten_when_it_ends() -> None:
    """Nobody will ever settle it, and its end says nothing."""
    registry, ends, attempt = AttemptRegistry(), Ends(), an_attempt()
    running = added(registry, attempt, ends)
    running.started_monotonic_ms = 1.0

    reported = registry.abandon((0,))
    registry.end(running, not_started(attempt, NOW_MS))

    assert list(reported) == [running] and not ends and not registry.of_partition(0)


def test_p16_the_end_of_an_abandoned_attempt_is_kept_for_whoever_adopts_it() -> None:
    """Its partition may come back; whoever stops the node meanwhile has nothing to wait for."""
    bench, ends, attempt = Bench(), Ends(), an_attempt()
    registry = bench.calls.registry
    running = added(registry, attempt, Ends())
    registry.abandon((0,))
    ended = ended_well(attempt, None, NOW_MS, NOW_MS)
    registry.end(running, ended)

    assert bench.runner.unsettled(0) == [attempt]
    assert bench.runner.unsettled(0, given_up=False) == []
    bench.runner.adopt(attempt, ends)
    bench.runner.settle([attempt])
    assert ends == [ended] and not bench.runner.unsettled(0)


@pytest.mark.parametrize("fails", [True, False])
def test_p16_an_attempt_that_was_cancelled_with_its_partition_counts_if_it_ended_well(
    *, fails: bool
) -> None:
    """That it failed says nothing of the task: it was cancelled."""
    registry, ends, attempt = AttemptRegistry(), Ends(), an_attempt()
    running = added(registry, attempt, Ends())
    registry.let_cancel(running, lambda: None)
    registry.abandon((0,))
    registry.adopt(attempt, ends)
    ended = ended_well(attempt, None, NOW_MS, NOW_MS)
    if fails:
        ended = ended_badly(attempt, asyncio.CancelledError(), NOW_MS, NOW_MS)
    registry.end(running, ended)

    assert [each.ending for each in ends] == [Ending.NOT_STARTED if fails else Ending.DONE]


def test_only_what_runs_is_reported_as_abandoned() -> None:
    """What waits for a worker will be refused, what ended is forgotten."""
    registry = AttemptRegistry()
    added(registry, an_attempt(), Ends())
    ended_attempt = an_attempt(task=a_stored_task(ordering_id="other"))
    running = added(registry, ended_attempt, Ends())
    running.started_monotonic_ms = 1.0
    registry.end(running, not_started(ended_attempt, NOW_MS))

    assert not registry.abandon((0,)) and len(registry.of_partition(0)) == 1


def test_an_attempt_that_ended_between_being_seen_and_being_adopted_is_told() -> None:
    """It was abandoned, so nobody remembers how it ended; its adopter must not wait for ever."""
    registry, ends, attempt = AttemptRegistry(), Ends(), an_attempt()
    running = added(registry, attempt, Ends())
    registry.abandon((0,))
    registry.end(running, not_started(attempt, NOW_MS))

    registry.adopt(attempt, ends)

    assert [ended.ending for ended in ends] == [Ending.NOT_STARTED]


@pytest.mark.parametrize(
    ("outcome", "ending"),
    [
        (None, Ending.DONE),
        (Done(), Ending.DONE),
        (Retry(), Ending.RETRY),
        (Drop("old"), Ending.DROPPED),
    ],
)
def test_what_a_return_value_means(outcome: object, ending: Ending) -> None:
    """Nothing is done."""
    assert ended_well(an_attempt(), outcome, NOW_MS, NOW_MS + 1).ending is ending


class _Unshowable:
    def __repr__(self) -> str:
        """Raise: it is user code."""
        raise ValueError("no repr")


@pytest.mark.parametrize("outcome", [Retry, True, "done", 0, _Unshowable()])
def test_a_return_value_that_means_nothing_is_a_type_error(outcome: object) -> None:
    """Garbage is a failure, not a success in silence."""
    with pytest.raises(TypeError, match=r"execute returned .*: it returns nothing"):
        ended_well(an_attempt(), outcome, NOW_MS, NOW_MS)


@pytest.mark.parametrize(
    ("after", "after_ms"),
    [(timedelta(seconds=1.5), 1_500), (timedelta(0), 0), (None, None)],
)
def test_a_retry_says_when(after: timedelta | None, after_ms: int | None) -> None:
    """After the attempt's end."""
    ended = ended_well(an_attempt(), Retry(after), NOW_MS, NOW_MS)

    assert ended.retry_after_ms == after_ms


def test_an_error_is_kept_as_far_as_history_holds_it() -> None:
    """The innermost frames say most."""
    try:
        raise ValueError("x" * 10_000)
    except ValueError as error:
        ended = ended_badly(an_attempt(), error, NOW_MS, NOW_MS)

    assert ended.ending is Ending.FAILED and ended.error_class == "ValueError"
    assert ended.error_message is not None and ended.error_stack is not None
    assert len(ended.error_message) == ERROR_MESSAGE_CHARS_MAX
    assert len(ended.error_stack) <= ERROR_STACK_CHARS_MAX


def test_an_error_that_cannot_be_shown_is_still_an_end() -> None:
    """Its ``str`` is user code, and an attempt without an end blocks its ordering id."""

    class Unshowable(Exception):
        def __str__(self) -> str:
            raise ValueError("no str")

    ended = ended_badly(an_attempt(), Unshowable(), NOW_MS, NOW_MS)

    assert ended.ending is Ending.FAILED and ended.error_class is not None
    assert "Unshowable" in ended.error_class


@pytest.mark.parametrize(
    ("policy", "ending"),
    [(RetryPolicy(drop_on=TimeoutError), Ending.DROPPED), (RetryPolicy(), Ending.TIMED_OUT)],
)
def test_a_timeout_is_judged_as_a_timeout_error(policy: RetryPolicy, ending: Ending) -> None:
    """It may drop the task, or have it tried again as any other."""
    ended = ended_badly(an_attempt(), TimeoutError(), NOW_MS, NOW_MS, Ending.TIMED_OUT, policy)

    assert (ended.ending, ended.uses_up_all) == (ending, False)
