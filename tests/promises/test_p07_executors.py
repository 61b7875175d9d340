"""P7: an executor that cannot be made, or is none, fails its own attempts and nothing else."""

import pytest

from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.operations.events import AttemptFinished, TreeRebuilt
from hourhand.actors.model.task.task import Task
from tests.builders import a_task
from tests.promises.group import Group, Journal


class _Misled(TaskExecutor):
    """Its policy is not one."""

    retry = "often"  # type: ignore[assignment]

    def execute(self, task: Task) -> Outcome | None:
        """Never called."""
        raise AssertionError(f"{task.key} was run")


class _RaisingConstructor(Journal):
    """Makes no executor."""

    def make_executor(self) -> TaskExecutor:
        raise LookupError("no database")


class _Misleading(Journal):
    """Makes one that cannot be used."""

    def make_executor(self) -> TaskExecutor:
        return _Misled()


@pytest.mark.parametrize(
    ("journal", "error"), [(_RaisingConstructor, "LookupError"), (_Misleading, "TypeError")]
)
def test_p7_an_executor_that_cannot_be_used_costs_attempts_and_no_tree(
    journal: type[Journal], error: str
) -> None:
    """What is wrong with it stands in the attempt's history."""
    group = Group()
    member = group.join()
    clock, group.journal = group.journal.clock, journal()
    group.journal.clock = clock

    group.append(a_task(due_in_ms=1_000))
    group.advance(2_000)

    (event,) = member.telemetry.of(AttemptFinished)
    assert event.error_class == error and member.count(TreeRebuilt) == 0
