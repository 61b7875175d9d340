"""The retry policy by example."""

import random

import pytest
import tenacity

from actors.model.backoff import RetryPolicy, default_wait


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
