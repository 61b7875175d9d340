"""Changes of timers as other producers may write them."""

import pytest

from hourhand import Task, TaskState
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.services.timers.executor import change_key, timer_name
from hourhand.scheduler.tasks.appending import TaskAppender
from hourhand.scheduler.testing import VirtualScheduler
from tests.builders import Idle


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize(
    "times",
    [
        {"interval_ms": -1, "repeat_for_ms": 1},
        {"interval_ms": 10**30, "repeat_for_ms": 10**30},
        {"interval_ms": 0, "repeat_for_ms": -1},
    ],
)
def test_a_timer_with_times_that_no_client_sends_is_dropped(
    times: dict[str, int], *, fresh: bool
) -> None:
    """One with an interval below zero would pop for ever, and one without an end be tried so."""
    kit = VirtualScheduler(Idle, partitions=1)
    task = Task.model_construct(
        ordering_id=timer_name("x").ordering_id,
        scheduled_time=kit.now,
        uniqueness_key=change_key("1"),
        data={"change": {**times, "uri": "http://localhost", "opaque": ""}, "fresh": fresh},
    )
    TaskAppender(MemoryWriter(kit.broker), 1).append(task).result(0)
    kit.run_due()

    assert kit.client.find_task(task.key).state is TaskState.DROPPED
