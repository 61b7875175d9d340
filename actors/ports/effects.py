"""Everything a tree may touch, handed down from the node to every role.

For roles that live long enough reads of the stores and dead letters are made again until they are
answered: a read changes nothing, and of two dead letters one is enough.  Of a write that failed
nobody knows whether it had its effect: it fails here as it does there.  Never decides what may
pass.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, cast

import msgspec

from actors.model.budget import NodeBudget
from actors.model.definition import RESERVED
from actors.model.flow import FlowRules
from actors.model.known_completions import KnownCompletions
from actors.model.settings import TreeSettings
from actors.model.task import StoredTask
from actors.ports.log import LogWriter
from actors.ports.runner import Executable, Runner
from actors.ports.store import OwnershipStore, ScheduleStore, StatusStore, Stores
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
    """Returns what runs tasks of an ordering id and a kind: one of Hourhand's, or what stands for
    one of the user's.  The dispatcher calls it: it waits for nothing and calls no user code.
    Raises UnknownKind where there is none."""
    flow_rules: FlowRules = FlowRules.NONE
    """Limits, priorities and fair shares of the user's kinds."""
    concurrency_per_id: Mapping[str | None, int | None] = field(default_factory=dict)
    """The kinds without order: how many tasks of one ordering id run at once; None for no limit."""
    run_tasks_max: Mapping[str | None, int] = field(default_factory=dict)
    """The kinds whose batches may have several tasks of one ordering id: how many at most."""
    memory: NodeBudget = field(init=False)
    """As much as the settings say."""

    def __post_init__(self) -> None:
        assert self.partition_count > 0, "a topic has partitions"
        memory = NodeBudget(self.settings.window.memory_bytes_max)
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


RetryRequest = Callable[[Callable[[], "Future[object]"]], "Future[object]"]
"""Makes a request until it is answered, or refused for good."""

_READS = ("load_", "find_", "read_")
"""How the methods of a store begin that change nothing."""


def with_retried_reads(effects: Effects, retry_request: RetryRequest) -> Effects:
    """Return the same effects, for roles that live no longer than ``retry_request`` asks again."""
    stores = effects.stores
    patient = msgspec.structs.replace(
        stores,
        schedule=cast("ScheduleStore", _RetryingPort(stores.schedule, retry_request, _READS)),
        status=cast("StatusStore", _RetryingPort(stores.status, retry_request, _READS)),
        ownership=cast("OwnershipStore", _RetryingPort(stores.ownership, retry_request, _READS)),
    )
    return replace(effects, stores=patient)


def with_retried_letters(effects: Effects, retry_request: RetryRequest) -> Effects:
    """Return the same effects, for roles that live no longer than ``retry_request`` asks again."""
    writer = cast("LogWriter", _RetryingPort(effects.writer, retry_request, ("dead_letter",)))
    return replace(effects, writer=writer)


class _Method(Protocol):
    def __call__(self, *arguments: object) -> "Future[object]": ...


class _RetryingPort:
    """A port some of whose methods are asked again; each is looked up once."""

    def __init__(self, port: object, retry_request: RetryRequest, retried: tuple[str, ...]) -> None:
        self._port = port
        self._retry_request = retry_request
        self._retried = retried

    def __getattr__(self, name: str) -> _Method:
        method: _Method = getattr(self._port, name)
        found, retry_request = method, self._retry_request
        if name.startswith(self._retried):

            def found(*arguments: object) -> "Future[object]":
                return retry_request(partial(method, *arguments))

        setattr(self, name, found)
        return found
