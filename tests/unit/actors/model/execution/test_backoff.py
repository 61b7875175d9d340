"""The retry policy by example."""

import random
from typing import Any

import pytest
import tenacity

from hourhand.actors.model.execution.backoff import (
    RetryPolicy,
    Verdict,
    default_wait,
    growing_pause_ms,
    request_pause,
)
from hourhand.actors.model.values.errors import InvalidTask, StoreUnavailable
from hourhand.actors.model.values.instant import INSTANT_MAX_MS
from hourhand.actors.model.values.settings import RecoverySettings


def test_the_default_is_that_of_the_design() -> None:
    """101 attempts, then skip."""
    policy = RetryPolicy()

    assert (policy.attempts_max, policy.on_exhausted) == (101, "skip")


def test_the_first_waits_are_10_to_20_then_20_to_40_seconds_and_so_on_to_the_cap() -> None:
    """Half for sure, half at random, doubled up to 120 s."""
    policy = RetryPolicy(wait=default_wait(rng=random.Random(1)))

    for failed, (low_s, high_s) in enumerate(
        [(10, 20), (20, 40), (40, 80), (60, 120), (60, 120)], start=1
    ):
        waits = [policy.delay_ms(failed) for _ in range(200)]
        assert low_s * 1000 <= min(waits) < max(waits) <= high_s * 1000
        assert max(waits) - min(waits) > 0.4 * (high_s * 1000)


@pytest.mark.parametrize(
    ("failures", "most_ms"), [(0, 100), (1, 100), (2, 200), (5, 1_600), (9, 5_000), (10_000, 5_000)]
)
def test_a_pause_doubles_up_to_the_longest_and_half_of_it_is_at_random(
    failures: int, most_ms: int
) -> None:
    """However many failures there were."""
    rng = random.Random(1)

    pauses_ms = [growing_pause_ms(failures, 100, 5_000, rng) for _ in range(200)]

    assert most_ms / 2 <= min(pauses_ms) < 0.6 * most_ms
    assert 0.9 * most_ms < max(pauses_ms) <= most_ms


def test_a_request_is_tried_again_unless_it_was_refused() -> None:
    """Endless tries know no refusal."""
    recovery = RecoverySettings(rebuild_pause_min_ms=100, rebuild_pause_max_ms=5_000)
    once, endless = (
        request_pause(recovery, random.Random(1), endless=each) for each in (False, True)
    )

    assert once(InvalidTask("no"), 1) is None
    for pause_ms in (once(StoreUnavailable("away"), 3), endless(InvalidTask("no"), 3)):
        assert pause_ms is not None and 200 <= pause_ms <= 400


def test_a_time_that_was_asked_for_is_kept() -> None:
    """``Retry(after=…)`` comes before the policy's own wait."""
    policy = RetryPolicy(wait=tenacity.wait_fixed(60))

    assert policy.ruling(1, after_ms=5).wait_ms == 5
    assert policy.ruling(1).wait_ms == 60_000


def test_the_jitter_of_a_default_wait_comes_from_the_random_numbers_of_the_caller() -> None:
    """So a simulation can replay it; a wait strategy that raises gives way to such a wait."""

    def broken(_state: object) -> float:
        raise ValueError("broken")

    for policy in (RetryPolicy(), RetryPolicy(wait=broken)):  # type: ignore[arg-type]
        once, again, other = (
            [policy.ruling(failed, rng=rng).wait_ms for failed in range(1, 9)]
            for rng in map(random.Random, (1, 1, 2))
        )

        assert once == again != other


def test_a_wait_with_random_numbers_of_its_own_takes_no_others() -> None:
    """They were given to be replayed."""
    policies = [RetryPolicy(wait=default_wait(rng=random.Random(1))) for _ in range(2)]
    waits = [policy.ruling(1, rng=random.Random()).wait_ms for policy in policies]

    assert waits[0] == waits[1]


def test_a_user_may_pass_any_tenacity_strategy() -> None:
    """Seconds become whole milliseconds."""
    policy = RetryPolicy(wait=tenacity.wait_fixed(0.5) + tenacity.wait_incrementing(0, 1))

    assert [policy.delay_ms(failed) for failed in (1, 2, 3)] == [500, 1500, 2500]


def test_a_strategy_is_told_how_the_attempt_ended() -> None:
    """As tenacity tells it: the exception or what was returned, the number, and the time."""
    told: list[tuple[object, int, float | None]] = []

    def by_outcome(state: tenacity.RetryCallState) -> float:
        assert state.outcome is not None
        outcome = state.outcome.exception() if state.outcome.failed else state.outcome.result()
        told.append((outcome, state.attempt_number, state.seconds_since_start))
        return 2

    policy, error = RetryPolicy(wait=by_outcome), ValueError("no")  # type: ignore[arg-type]

    waits = [policy.ruling(3, each, since_due_ms=1_500).wait_ms for each in (error, "again")]

    assert waits == [2_000, 2_000] and told == [(error, 3, 1.5), ("again", 3, 1.5)]


def test_a_negative_wait_is_none() -> None:
    """A strategy of the user's own cannot send an attempt into the past."""
    assert RetryPolicy(wait=tenacity.wait_fixed(-1)).delay_ms(1) == 0


def test_a_policy_without_an_attempt_is_refused() -> None:
    """The message tells the number and the bound."""
    for wrong in (0, 2**31, 2**64):
        said = f"attempts_max is {wrong}, 1 to 2147483647 are allowed"
        with pytest.raises(ValueError, match=said):
            RetryPolicy(attempts_max=wrong)


class _Meta(type):
    """A metaclass that answers no question."""

    def __instancecheck__(cls, _instance: object) -> bool:
        raise RuntimeError("user code ran")

    __subclasscheck__ = __instancecheck__

    def __eq__(cls, _other: object) -> bool:
        raise RuntimeError("user code ran")

    __hash__ = type.__hash__

    def __getattribute__(cls, name: str) -> object:
        raise RuntimeError(f"user code ran for {name}")


class Awkward(Exception, metaclass=_Meta):
    """An error of the user's whose class is user code."""


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ConnectionError(), "retry"),
        (ConnectionResetError(), "retry"),
        (TimeoutError(), "retry"),
        (KeyError(), "drop"),
        (LookupError(), "give_up"),
        (KeyboardInterrupt(), "give_up"),
        (ExceptionGroup("several", [ConnectionError()]), "give_up"),
    ],
)
def test_an_error_is_judged_by_its_class_as_except_does(
    error: BaseException, verdict: Verdict
) -> None:
    """Subclasses count, groups are not looked into, and ``drop_on`` comes first."""
    policy = RetryPolicy(retry_on=(ConnectionError, TimeoutError, KeyError), drop_on=KeyError)

    assert policy.verdict_on(error) == verdict
    assert policy.drop_on == (KeyError,)


def test_every_error_is_retried_by_default() -> None:
    """Whatever user code raises."""
    assert {RetryPolicy().verdict_on(error) for error in (ValueError(), SystemExit())} == {"retry"}


def test_judging_an_error_runs_no_user_code() -> None:
    """Neither that of the error's class nor that of the classes in the policy."""
    assert RetryPolicy().verdict_on(Awkward()) == "retry"
    assert RetryPolicy(retry_on=ValueError).verdict_on(Awkward()) == "give_up"


@pytest.mark.parametrize("name", ["retry_on", "drop_on"])
@pytest.mark.parametrize("given", [5, "ValueError", (ValueError, int), ValueError("an instance")])
def test_what_is_not_an_exception_class_is_refused(name: str, given: Any) -> None:
    """When the policy is made."""
    with pytest.raises(TypeError, match=f"{name} holds .*, an exception class or a tuple of them"):
        RetryPolicy(**{name: given})


def test_no_wait_is_longer_than_a_time_can_be() -> None:
    """However large the number is that a strategy returns; a process sends it in a frame."""
    policy = RetryPolicy(wait=lambda _state: 1e300)  # type: ignore[arg-type]

    assert policy.ruling(1).wait_ms == policy.delay_ms(1) == INSTANT_MAX_MS
