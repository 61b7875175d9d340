"""Executors, tasks and a scheduler at noon, for the tests of the test kit."""

import asyncio
from datetime import UTC, datetime, timedelta

import tenacity

from hourhand import Drop, Retry, RetryPolicy, Task, TaskExecutor
from hourhand.scheduler.testing import VirtualScheduler

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Noting(TaskExecutor):
    """Does nothing, well."""

    def execute(self, task: Task) -> None:
        """Succeed."""


class Failing(TaskExecutor):
    """Fails twice, ten seconds apart, then gives up."""

    retry = RetryPolicy(attempts_max=2, wait=tenacity.wait_fixed(10))

    def execute(self, task: Task) -> None:
        """Fail."""
        raise LookupError(task.uniqueness_key)


class Waiting(TaskExecutor):
    """Awaits something before it succeeds."""

    async def execute(self, task: Task) -> None:
        """Let the loop turn once."""
        done = asyncio.Event()
        asyncio.get_running_loop().call_soon(done.set)
        await done.wait()


class Choosing(TaskExecutor):
    """Returns what the data says."""

    def execute(self, task: Task) -> Drop | Retry | None:
        """Drop, or retry the first time."""
        if task.data.get("drop"):
            return Drop("not wanted")
        if task.data.get("retry") and self.attempt == 1:
            return Retry(after=timedelta(minutes=5))
        return None


def a_task(
    *,
    due_in: timedelta = timedelta(),
    ordering_id: str = "customer-7",
    name: str = "1",
    **data: int | str,
) -> Task:
    """Return a task due so long after noon."""
    return Task(
        ordering_id=ordering_id,
        scheduled_time=NOON + due_in,
        uniqueness_key=name,
        data=dict(data),
    )


def a_scheduler(executor: type[TaskExecutor] = Noting) -> VirtualScheduler:
    """Return a scheduler whose clock stands at noon."""
    return VirtualScheduler(executor, now=NOON)
