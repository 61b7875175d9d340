"""The retry policy by example."""

import random
from typing import Any

import pytest
import tenacity

from actors.model.backoff import RetryPolicy, Verdict, default_wait


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


def test_a_user_may_pass_any_tenacity_strategy() -> None:
    """Seconds become whole milliseconds."""
    policy = RetryPolicy(wait=tenacity.wait_fixed(0.5) + tenacity.wait_incrementing(0, 1))

    assert [policy.delay_ms(failed) for failed in (1, 2, 3)] == [500, 1500, 2500]


def test_a_negative_wait_is_none() -> None:
    """A strategy of the user's own cannot send an attempt into the past."""
    assert RetryPolicy(wait=tenacity.wait_fixed(-1)).delay_ms(1) == 0


def test_a_policy_without_an_attempt_is_refused() -> None:
    """The message tells the number and the bound."""
    with pytest.raises(ValueError, match="attempts_max is 0, at least 1 is needed"):
        RetryPolicy(attempts_max=0)


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
