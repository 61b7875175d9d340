"""Everything a tree may touch, handed down from the node to every role."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from actors.model.definition import RESERVED
from actors.model.flow import FlowRules
from actors.model.known_completions import KnownCompletions
from actors.model.memory import NodeMemory
from actors.model.sealed import refuse_sealed
from actors.model.settings import TreeSettings
from actors.model.task import StoredTask
from actors.ports.log import LogWriter
from actors.ports.runner import Executable, Runner
from actors.ports.store import Stores
from actors.ports.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Effects:
    """The ports of one node, and the limits its tree works within."""

    settings: TreeSettings
    partition_count: int
    stores: Stores
    writer: LogWriter
    runner: Runner
    telemetry: Telemetry
    make_executor: Callable[[str, str | None], Executable]
    """Makes one instance of the executor of an ordering id and a kind: one of the user's, or one
    of Hourhand's.  Raises UnknownKind where there is none."""
    require_codecs: Callable[[bytes], None] = refuse_sealed
    """Raises PayloadSealed where this node cannot open a task's sealed data."""
    flow_rules: FlowRules = FlowRules.NONE
    """Limits, priorities and fair shares of the user's kinds."""
    concurrency_per_id: Mapping[str | None, int | None] = field(default_factory=dict)
    """The kinds without order: how many tasks of one ordering id run at once; None for no limit."""
    run_tasks_max: Mapping[str | None, int] = field(default_factory=dict)
    """The kinds whose batches may have several tasks of one ordering id: how many at most."""
    memory: NodeMemory = field(init=False)
    """As much as the settings say."""

    def __post_init__(self) -> None:
        assert self.partition_count > 0, "a topic has partitions"
        memory = NodeMemory(self.settings.window.memory_bytes_max)
        object.__setattr__(self, "memory", memory)

    def run_tasks_of(self, task: StoredTask) -> int:
        """Return how many tasks of its ordering id a batch may hold; of Hourhand's own 1."""
        most = self.run_tasks_max.get(task.kind, 1)
        assert most >= 1, "a batch has a task"
        return 1 if most == 1 or task.key.ordering_id.startswith(RESERVED) else most

    def known_since(self, bound_ms: int) -> KnownCompletions:
        """Return what remembers a partition's completions, as many as settings and memory allow."""
        completions_max = self.settings.window.completions_max
        bytes_max = self.memory.completions_bytes_max(self.partition_count)
        return KnownCompletions(bound_ms, completions_max, bytes_max)
