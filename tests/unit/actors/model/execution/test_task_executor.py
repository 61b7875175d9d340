"""TaskExecutor, the class users subclass: ten names, and no others that a user's could meet."""

from datetime import timedelta

import pytest

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.task import Task
from hourhand.scheduler.testing import VirtualScheduler
from tests.builders import a_task

TIMEOUT_S = 60


def test_it_has_sixteen_names() -> None:
    """Every other one is the user's."""
    names = {name for name in dir(TaskExecutor) if not name.startswith("_")}

    declared = {"fair", "limits", "priority", "retry", "run_in", "stuck_after", "timeout"}
    declared |= {"expires_after"}
    checkpoints = {"checkpoint", "checkpointed", "hourhand_checkpoints", "snoozed"}
    assert names == {"attempt", "cancelled", "execute", "fence", *declared, *checkpoints}
    assert type(TaskExecutor.retry) is RetryPolicy and TaskExecutor.timeout is None


def test_without_execute_it_cannot_be_made() -> None:
    """Python says so where it is made, and a node before it starts."""
    with pytest.raises(TypeError, match="execute"):
        TaskExecutor()  # type: ignore[abstract]


@pytest.mark.parametrize(
    "name",
    [
        "on_receive",
        "on_start",
        "on_stop",
        "on_failure",
        "start",
        "stop",
        "bind_role",
        "spawn",
        "_bind_context",
        "_context",
        "_start_actor_loop",
        "actor_ref",
        "_task",
        "_phase",
    ],
)
def test_a_method_of_any_name_is_the_users_own(name: str) -> None:
    """Nothing of the tree calls it, and the task runs."""
    called: list[object] = []

    def method(_self: object, *arguments: object) -> None:
        called.append(arguments)
        raise SystemExit

    def execute(self: TaskExecutor, task: Task) -> None:
        del self, task

    made = type("Mine", (TaskExecutor,), {name: method, "execute": execute})
    with VirtualScheduler(made) as scheduler:
        task = a_task()
        scheduler.schedule_task(
            task.model_copy(update={"scheduled_time": scheduler.now + timedelta(seconds=1)})
        ).result(TIMEOUT_S)
        scheduler.drain()
        scheduler.assert_executed(ordering_id=task.ordering_id)

    assert not called
