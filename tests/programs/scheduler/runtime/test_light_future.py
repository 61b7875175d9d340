"""A wait for a future that ends with its time."""

import pytest

from hourhand.scheduler.runtime.light_future import LightFuture


def test_waiting_without_a_result_ends_with_the_time() -> None:
    """And leaves the future as it was."""
    future = LightFuture[int]()

    with pytest.raises(TimeoutError):
        future.result(timeout=0.01)
    with pytest.raises(TimeoutError):
        future.exception(timeout=0.01)
    future.set_result(5)

    assert future.result(timeout=0) == 5
