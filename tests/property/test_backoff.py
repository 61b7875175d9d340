"""The default wait keeps its bounds: half for sure, the other half at random, capped."""

import random

from hypothesis import given
from hypothesis import strategies as st

from hourhand.actors.model.execution.backoff import RetryPolicy, default_wait


@given(st.integers(1, 10_000))
def test_the_wait_is_half_to_all_of_the_doubled_and_capped_base(failed_attempts: int) -> None:
    """Before attempt n: 50 to 100 % of ``min(120 s, 20 s * 2^(n-2))``."""
    full_ms = min(120_000, 20_000 * 2 ** min(failed_attempts - 1, 20))

    delay_ms = RetryPolicy().delay_ms(failed_attempts)

    assert full_ms / 2 - 1 <= delay_ms <= full_ms + 1


@given(st.floats(0.001, 1000), st.floats(0.001, 100_000), st.integers(1, 200))
def test_base_and_cap_are_the_users(base_s: float, cap_s: float, failed_attempts: int) -> None:
    """A wait of one's own base and cap keeps the same shape."""
    full_ms = 1000 * min(cap_s, base_s * 2.0 ** (failed_attempts - 1))

    delay_ms = RetryPolicy(wait=default_wait(base_s, cap_s)).delay_ms(failed_attempts)

    assert full_ms / 2 - 1 <= delay_ms <= full_ms + 1


@given(st.integers())
def test_one_seed_gives_one_row_of_waits(seed: int) -> None:
    """A simulation hands in its own randomness and can be replayed."""

    def waits() -> list[int]:
        policy = RetryPolicy(wait=default_wait(rng=random.Random(seed)))
        return [policy.delay_ms(failed) for failed in range(1, 6)]

    assert waits() == waits()
