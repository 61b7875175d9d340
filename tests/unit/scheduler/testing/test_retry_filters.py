"""``retry_on`` and ``drop_on`` of a policy, from the exception to what is stored."""

from datetime import timedelta
from typing import Any

import pytest
import tenacity

from hourhand import RetryPolicy, Task, TaskExecutor
from hourhand.actors.model.task.status import AttemptResult, CompletionResult
from hourhand.scheduler.testing import VirtualScheduler
from tests.unit.scheduler.testing.testing_bench import NOON, a_task


class Declined(Exception):
    """Asking again changes nothing."""


class Charging(TaskExecutor):
    """Fails as the data says."""

    async def execute(self, task: Task) -> None:
        """Raise."""
        raise {"declined": Declined, "away": ConnectionError, "bug": KeyError}[
            str(task.data["fails"])
        ](f"it was {task.data['fails']}")


def charging(**policy: Any) -> VirtualScheduler:
    """Return a scheduler whose tasks fail, three times at most and ten seconds apart."""
    retry = RetryPolicy(
        attempts_max=3,
        wait=tenacity.wait_fixed(10),
        retry_on=ConnectionError,
        drop_on=Declined,
        **policy,
    )
    return VirtualScheduler(type("OneTestsCharging", (Charging,), {"retry": retry}), now=NOON)


def test_an_error_to_drop_ends_the_task_with_the_error_as_reason() -> None:
    """After one attempt, whose error stays in the history."""
    scheduler = charging()
    key = a_task(fails="declined").key
    scheduler.schedule_task(a_task(fails="declined")).result()

    scheduler.drain()

    (ran,) = scheduler.executions
    assert (ran.result, ran.error_class) == (AttemptResult.DROPPED, "Declined")
    assert scheduler.result_of(key) is CompletionResult.DROPPED
    info = scheduler.client.find_task(key)
    assert info.reason == "Declined: it was declined"
    (attempt,) = scheduler.client.history(key)
    assert attempt.error_class == "Declined"


def test_an_error_to_retry_is_retried() -> None:
    """As often as the policy says."""
    scheduler = charging()
    scheduler.schedule_task(a_task(fails="away")).result()

    scheduler.drain()

    assert len(scheduler.executions) == 3
    assert scheduler.result_of(a_task().key) is CompletionResult.FAILURE


@pytest.mark.parametrize("on_exhausted", ["skip", "dead_letter"])
def test_any_other_error_uses_up_all_attempts(on_exhausted: str) -> None:
    """The reason names it."""
    scheduler = charging(on_exhausted=on_exhausted)
    scheduler.schedule_task(a_task(fails="bug")).result()

    scheduler.drain()

    assert len(scheduler.executions) == 1
    assert scheduler.result_of(a_task().key) is CompletionResult.FAILURE
    assert scheduler.client.find_task(a_task().key).reason == "KeyError is not retried"


def test_a_task_that_blocks_so_is_not_tried_again_after_a_crash() -> None:
    """Nor by its next owner; an operator's retry has it tried."""
    scheduler = charging(on_exhausted="block")
    scheduler.schedule_task(a_task(fails="bug")).result()
    scheduler.advance(minutes=5)
    scheduler.crash()
    scheduler.advance(timedelta(minutes=5))
    before = len(scheduler.executions)

    scheduler.client.retry_task(a_task().key).result()
    scheduler.advance(timedelta(minutes=5))

    assert (before, len(scheduler.executions)) == (1, 2)
