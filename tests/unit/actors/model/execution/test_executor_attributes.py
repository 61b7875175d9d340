"""What an executor's attributes say: what raises there costs one attempt, and never the tree."""

from datetime import timedelta

import pytest
import tenacity

from hourhand.actors.model.execution.attempts import Ending
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.executor_attributes import (
    attribute_complaint,
    declared_policy_of,
    declared_timeout_of,
    policy_of,
    timeout_ms_of,
)
from tests.builders import NOW_MS
from tests.unit.actors.execution_bench import Bench, Job

ERRORS = pytest.mark.parametrize(
    "error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit]
)


class Moody(Job):
    """Raises when an attribute is read, while it is told to."""

    def __init__(self) -> None:
        self.mood: type[BaseException] | None = None

    @property
    def timeout(self) -> timedelta | None:  # type: ignore[override]
        """Ten minutes, in a good mood."""
        if self.mood is not None:
            raise self.mood("timeout")
        return timedelta(minutes=10)

    @property
    def retry(self) -> RetryPolicy:  # type: ignore[override]
        """A policy, in a good mood."""
        if self.mood is not None:
            raise self.mood("retry")
        return RetryPolicy(attempts_max=1)


class OwnPolicy(RetryPolicy):
    """A policy of a user's own."""

    def delay_ms(self, failed_attempts: int) -> int:
        """A minute for each that failed."""
        return 60_000 * failed_attempts


@ERRORS
def test_a_retry_that_raises_leaves_the_default_policy(error: type[BaseException]) -> None:
    """So that an attempt which failed is tried again, rather than given up at once."""
    role = Moody()
    bench = Bench(role)

    bench.begin()
    role.mood = error
    bench.end(Ending.FAILED)

    next_ms = bench.record_attempt().next_attempt_ms
    assert next_ms is not None and next_ms > NOW_MS
    assert not bench.harness.failures


def test_a_policy_that_raises_is_told_to_operators(caplog: pytest.LogCaptureFixture) -> None:
    """They would wonder at the default waits."""
    role = Moody()
    role.mood = SystemExit

    assert policy_of(role).attempts_max == 101
    assert "the attribute retry raised" in caplog.text


@pytest.mark.parametrize(
    ("timeout", "expected_ms"),
    [(None, 77), ("soon", 77), (timedelta(seconds=90), 90_000), (timedelta(microseconds=1), 1)],
)
def test_a_timeout_is_told_in_whole_milliseconds(timeout: object, expected_ms: int) -> None:
    """What is not a timedelta leaves the default; the shortest is one."""
    role = Job()
    role.timeout = timeout  # type: ignore[assignment]

    assert timeout_ms_of(role, 77) == expected_ms


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("retry", RetryPolicy(), None),
        ("retry", 5, "retry is 5"),
        ("timeout", None, None),
        ("timeout", timedelta(microseconds=1), None),
        ("timeout", timedelta(0), "timeout is"),
        ("timeout", 5, "timeout is 5"),
        ("stuck_after", None, None),
        ("stuck_after", timedelta(microseconds=1), None),
        ("stuck_after", timedelta(0), "stuck_after is"),
        ("stuck_after", 5, "stuck_after is 5"),
        ("run_in", "there", "run_in is 'there'"),
    ],
)
def test_what_is_wrong_with_an_attribute_is_told(
    name: str, value: object, complaint: str | None
) -> None:
    """Of an executor and of its class."""
    made = type("Made", (Job,), {name: value})

    for found in (attribute_complaint(made), attribute_complaint(made())):
        assert found is None if complaint is None else found and found.startswith(complaint)


def test_a_property_says_nothing_of_a_class() -> None:
    """Only of its instances."""
    assert attribute_complaint(Moody) is None


def test_a_policy_of_a_subclass_is_asked_for_its_wait() -> None:
    """Whatever it overrides is kept, but read where it may raise."""
    role = Job()
    role.retry = OwnPolicy()
    bench = Bench(role)

    bench.begin()
    bench.end(Ending.FAILED)

    assert bench.record_attempt().next_attempt_ms == NOW_MS + 60_000


def test_a_policy_of_a_subclass_that_overrides_no_wait_is_told_of_the_error() -> None:
    """Its strategy is an ordinary one."""

    class Named(RetryPolicy):
        """The same under another name."""

    def by_error(state: tenacity.RetryCallState) -> float:
        assert state.outcome is not None
        return float(str(state.outcome.exception()))

    role = Job()
    role.retry = Named(wait=by_error)  # type: ignore[arg-type]

    assert policy_of(role).ruling(1, ValueError("7")).wait_ms == 7_000


def test_what_a_class_states_is_known_without_its_code() -> None:
    """A property states nothing, and nothing states the default."""
    stated = RetryPolicy(attempts_max=4)
    made = type("Made", (Job,), {"retry": stated, "timeout": timedelta(seconds=3)})

    assert declared_policy_of(made) is stated
    assert declared_timeout_of(made) == timedelta(seconds=3)
    for other in (Moody, Job, None):
        assert declared_policy_of(other).attempts_max == 101
        assert declared_timeout_of(other) is None


@ERRORS
def test_a_wait_strategy_that_raises_does_not_take_the_tree_down(
    error: type[BaseException],
) -> None:
    """It is user code: the task is tried again as the default policy says."""
    role = Job()

    def broken(_state: object) -> float:
        raise error

    role.retry = RetryPolicy(3, broken)  # type: ignore[arg-type]
    bench = Bench(role)

    bench.begin()
    bench.end(Ending.FAILED)

    next_ms = bench.record_attempt().next_attempt_ms
    assert next_ms is not None and next_ms > NOW_MS
