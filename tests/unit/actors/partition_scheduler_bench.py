"""A PartitionScheduler between probes."""

from hourhand.actors.messages import (
    ExecuteTasks,
    ScheduleTasks,
    SlotsReleased,
    StartTasks,
    WithdrawTask,
)
from hourhand.actors.model.execution.commands import Withdrawal
from hourhand.actors.model.flow.flow import FlowRules
from hourhand.actors.model.task.task import AttemptState, StoredTask
from hourhand.actors.model.values.settings import TreeSettings, WindowSettings
from hourhand.actors.partition_scheduler import PartitionScheduler
from tests.builders import a_stored_task
from tests.unit.probes import PARTITION, Harness, Probe

SLOTS = 3


class Bench:
    """A PartitionScheduler between probes, started unless told otherwise."""

    def __init__(
        self,
        *,
        started: bool = True,
        slots: int = SLOTS,
        tasks_max: int = 10,
        flow_rules: FlowRules = FlowRules.NONE,
    ) -> None:
        window = WindowSettings(
            executing_tasks_max=slots, tasks_max=tasks_max, clock_check_ms=1_000
        )
        self.harness = Harness(TreeSettings(window=window), flow_rules=flow_rules)
        self.executor = self.harness.executor
        self.ref = self.harness.spawn(PartitionScheduler(self.harness.effects, PARTITION))
        if started:
            self.tell(StartTasks())
            self.executor.take(StartTasks)

    def tell(self, message: object) -> None:
        """Let the role handle a message."""
        self.ref.tell(message)
        self.harness.run()

    def schedule(self, *due_in_ms: int) -> None:
        """Send tasks due after these times; their keys are named after them."""
        self.tell(ScheduleTasks(tuple(task_due_in(due) for due in due_in_ms)))

    def release(self, slots: int, ordering_id: str = "a") -> None:
        """Give back slots of an id, or take more where it is below zero, and tell so."""
        self.harness.siblings.budget.release_slots(ordering_id, slots)
        self.tell(SlotsReleased(slots))

    def executed(self) -> list[str]:
        """Take what was handed on."""
        batches = self.executor.take_all(ExecuteTasks)
        return [task.key.uniqueness_key for batch in batches for task in batch.tasks]

    def withdraw(self, due_in_ms: int, withdrawal: Withdrawal = Withdrawal.CLOSE) -> Probe:
        """Ask for a key."""
        asker = Probe()
        self.tell(WithdrawTask(task_due_in(due_in_ms).key, withdrawal, asker))
        return asker


def task_due_in(due_in_ms: int, *, last: int = 0, offset: int = 0) -> StoredTask:
    """Return a task named after its due time."""
    attempts = AttemptState(last=last, used=last)
    name = str(due_in_ms)
    return a_stored_task(due_in_ms=due_in_ms, uniqueness_key=name, attempts=attempts, offset=offset)
