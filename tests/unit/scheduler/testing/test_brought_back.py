"""Failed tasks are brought back under virtual time, as long as their data is kept."""

from datetime import timedelta

import pytest

from hourhand import Hourhand, RetryPolicy
from hourhand.testing import VirtualScheduler

app = Hourhand()
UP: list[bool] = []
DELIVERED: list[str] = []


@app.task("hook", retry=RetryPolicy(attempts_max=1, on_exhausted="dead_letter"))
def hook(of: dict[str, str]) -> None:
    """Deliver, where the service is up."""
    if not UP:
        raise ConnectionError("down")
    DELIVERED.append(of["n"])


@pytest.mark.parametrize("minutes", [1, 30, 59, 61, 90, 180, 24 * 60, 6 * 24 * 60])
def test_p5_a_retry_is_applied_however_long_ago_the_hour_was_deleted(minutes: int) -> None:
    """And its data is shown until then."""
    UP.clear()
    DELIVERED.clear()
    with VirtualScheduler(executors=app) as scheduler:
        receipt = hook.schedule({"n": "1"}, ordering_id="c", after=timedelta(seconds=1)).result()
        scheduler.advance(minutes=minutes)
        UP.append(True)
        before = scheduler.client.find_task(receipt)
        command = scheduler.client.retry_task(receipt.key).result()
        outcome = scheduler.client.wait_outcome(command, timeout=60)
        scheduler.advance(minutes=5)
        after = scheduler.client.find_task(receipt)

    assert (before.state, before.data) == ("failure", {"n": "1"})
    assert (outcome.outcome, after.state, DELIVERED) == ("applied", "success", ["1"])


def test_a_retry_after_the_retention_says_that_the_data_is_gone() -> None:
    """The task stays failed."""
    UP.clear()
    with VirtualScheduler(executors=app) as scheduler:
        receipt = hook.schedule({"n": "1"}, ordering_id="c", after=timedelta(seconds=1)).result()
        scheduler.advance(days=8)
        command = scheduler.client.retry_task(receipt.key).result()
        outcome = scheduler.client.wait_outcome(command, timeout=60)
        found = scheduler.client.find_task(receipt)

    assert (outcome.outcome, found.state, found.data) == ("data_gone", "failure", None)
