"""A PartitionExecutor whose children are probes."""

from actors.messages import ExecuteTasks, MeasureProgress, ProgressMeasured, TasksReleased
from actors.model.task import StoredTask
from actors.partition_executor import PartitionExecutor
from tests.builders import NOW_MS
from tests.unit.probes import Harness, Probe, ProbeActor, ProbedChildren


class Executor(ProbedChildren, PartitionExecutor):
    """The role with probes for its ordering ids."""


class Bench:
    """A PartitionExecutor whose children are probes, in the order of their ids' first task."""

    def __init__(self, harness: Harness | None = None) -> None:
        self.harness = harness or Harness()
        self.role = Executor(self.harness.effects, self.harness.ownership)
        self.ref = self.harness.spawn(self.role)

    def tell(self, message: object) -> None:
        """Let the role handle a message."""
        self.ref.tell(message)
        self.harness.run()

    def execute(self, *tasks: StoredTask) -> None:
        """Send due tasks, which are counted by whoever hands them on."""
        self.harness.siblings.budget.run(tasks)
        self.tell(ExecuteTasks(tasks))

    def release(
        self,
        ordering_id: str,
        *,
        received: int,
        released: int = 1,
        first_ms: int | None = None,
        held: bool = False,
    ) -> None:
        """Report as a child."""
        self.tell(TasksReleased(ordering_id, released, received, first_ms, held))

    @property
    def children(self) -> list[ProbeActor]:
        """Every child there ever was."""
        return self.role.children

    def progress(self, watermark_ms: int = NOW_MS - 60_000) -> ProgressMeasured:
        """Ask how far everything is."""
        asker = Probe()
        self.tell(MeasureProgress(None, (), watermark_ms, asker))
        return asker.take(ProgressMeasured)
