"""The pytest plugin, used as a user's tests use it."""

from collections.abc import Callable
from datetime import timedelta

from hourhand import Task, TaskExecutor
from hourhand.testing import VirtualScheduler
from hourhand.testing_plugin import virtual_scheduler

__all__ = ["virtual_scheduler"]


class _Noting(TaskExecutor):
    def execute(self, task: Task) -> None:
        """Succeed."""


def _due(scheduler: VirtualScheduler) -> Task:
    return Task(
        ordering_id="customer-7",
        scheduled_time=scheduler.now + timedelta(hours=1),
        uniqueness_key="1",
    )


def test_the_fixture_makes_schedulers(
    virtual_scheduler: Callable[..., VirtualScheduler],
) -> None:
    """As many as a test wants, with the arguments of the class."""
    first, second = virtual_scheduler(_Noting), virtual_scheduler(_Noting, partitions=1)
    first.schedule_task(_due(first))

    first.advance(hours=1)
    second.advance(hours=1)

    first.assert_executed(ordering_id="customer-7")
    second.assert_executed(0)
