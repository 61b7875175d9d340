"""One OrderingExecutor; its TaskExecutor is a probe, its tasks a count of slots."""

from collections.abc import Mapping

from actors.messages import (
    AttemptTask,
    ExecuteTask,
    LoadOrdering,
    OrderingLoaded,
    TaskExecuted,
    TasksReleased,
)
from actors.model.key import TaskKey
from actors.model.settings import TreeSettings, WindowSettings
from actors.model.task import FRESH, AttemptState, StoredTask
from actors.ordering_executor import OrderingExecutor
from tests.builders import a_stored_task
from tests.unit.probes import NOTHING_KNOWN_BEFORE_MS, Harness, ProbedChildren

QUEUE_MAX = 3

ID = "customer-7"


class ProbedOrdering(ProbedChildren, OrderingExecutor):
    """One whose TaskExecutor is a probe."""


class Bench:
    """One OrderingExecutor; its TaskExecutor is a probe, its tasks a count of slots."""

    def __init__(
        self,
        kind: type["ProbedOrdering"] | None = None,
        known_since_ms: int = NOTHING_KNOWN_BEFORE_MS,
        executing_tasks_max: int = 1,
        concurrency_per_id: Mapping[str | None, int | None] | None = None,
    ) -> None:
        window = WindowSettings(
            ordering_queue_tasks_max=QUEUE_MAX, executing_tasks_max=executing_tasks_max
        )
        self.harness = Harness(
            TreeSettings(window=window),
            known_since_ms=known_since_ms,
            concurrency_per_id=concurrency_per_id,
        )
        self.slots = 0
        """Slots occupied, as the parent counts them."""
        self.sent = 0
        self.role = role = (kind or ProbedOrdering)(
            self.harness.effects,
            self.harness.ownership,
            ID,
            partition_executor=self.harness.executor,
            siblings=self.harness.siblings,
        )
        self.ref = self.harness.spawn(role, meets=False)
        self.last: TasksReleased | None = None

    def tell(self, message: object) -> None:
        """Let the role handle a message, and count what it releases."""
        if isinstance(message, ExecuteTask):
            self.harness.siblings.budget.run((message.task,))
        self.ref.tell(message)
        self.harness.run()
        for released in self.harness.executor.take_all(TasksReleased):
            self.slots -= released.released
            self.harness.siblings.budget.release_slots(ID, released.released)
            self.last = released

    def execute(self, *names: str, offset: int = 0) -> None:
        """Send due tasks; each occupies a slot until it is released."""
        for name in names:
            self.slots += 1
            self.sent += 1
            self.tell(ExecuteTask(task_named(name, offset)))

    def running(self) -> str:
        """Return the task at hand, and answer as its executor from now on."""
        attempts = [m for m in self._told if isinstance(m, AttemptTask)]
        return attempts[-1].task.key.uniqueness_key

    @property
    def attempted(self) -> list[str]:
        """The tasks its executor was given, in order."""
        return [m.task.key.uniqueness_key for m in self._told if isinstance(m, AttemptTask)]

    @property
    def _told(self) -> list[object]:
        return self.role.children[0].messages if self.role.children else []

    def told(self, kind: type[object]) -> int:
        """Count what its executor was told of a kind."""
        return sum(isinstance(message, kind) for message in self._told)

    def finish(self, name: str | None = None, offset: int = 0) -> None:
        """Let the task at hand be closed."""
        self.tell(TaskExecuted(task_named(name or self.running()).key, offset))

    def loaded(self, *names: str, next_after: TaskKey | None = None) -> LoadOrdering:
        """Answer its question to the store."""
        request = self.harness.persistence.take(LoadOrdering)
        self.tell(OrderingLoaded(tuple(task_named(name) for name in names), next_after))
        return request


def task_named(name: str, offset: int = 0, last: int = 0) -> StoredTask:
    """Return a task whose due time follows from its one-letter name."""
    return a_stored_task(
        due_in_ms=(ord(name) - ord("a")) * 10 - 1_000,
        ordering_id=ID,
        uniqueness_key=name,
        offset=offset,
        attempts=AttemptState(last=last, used=last) if last else FRESH,
    )
