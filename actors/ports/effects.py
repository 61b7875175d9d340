"""All ports of a tree, handed down from the node to every role.

For roles that live long enough, reads of the stores and dead letters are repeated until they are
answered: a read changes nothing, and a second equal dead letter does no harm. A failed write may
have had its effect, so it fails for the role too. The caller decides which errors may pass.
"""

import math
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, cast

import msgspec

from hourhand.actors.model.execution.known_completions import KnownCompletions
from hourhand.actors.model.flow.flow import FlowRules
from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.instant import INSTANT_MAX_MS
from hourhand.actors.model.values.settings import TreeSettings
from hourhand.actors.model.window.budget import NodeBudget
from hourhand.actors.ports.log import LogWriter
from hourhand.actors.ports.runner import Executable, Runner
from hourhand.actors.ports.store import OwnershipStore, ScheduleStore, StatusStore, Stores
from hourhand.actors.ports.telemetry import Telemetry


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
    """Returns the executor of tasks of an ordering id and a kind: one of Hourhand's, or a guest for
    one of the user's. The dispatcher calls it: it does not wait and calls no user code. Raises
    UnknownKind for an unknown kind."""
    flow_rules: FlowRules = FlowRules.NONE
    """Limits, priorities and fair shares of the user's kinds."""
    concurrency_per_id: Mapping[str | None, int | None] = field(default_factory=dict)
    """Most tasks of one ordering id that run at once, by kind without order; None for no limit."""
    run_tasks_max: Mapping[str | None, int] = field(default_factory=dict)
    """Most tasks of one ordering id in a batch, by kind that allows several."""
    expires_after_ms: Mapping[str | None, int] = field(default_factory=dict)
    """Milliseconds from a task's scheduled time to its expiry, by kind that has one; a task's own
    expiry comes before it."""
    lease_ends_ms: Callable[[], float] = lambda: math.inf
    """Returns the monotonic time from which on another node may own this node's partitions."""
    one_attempt_kinds: Collection[str | None] = frozenset()
    """Kinds whose policy allows one attempt, and whose starts are all durable before user code is
    called."""
    tells_outcomes: bool = False
    """Completions name the kind of their task, for the stream of outcomes."""
    memory: NodeBudget = field(init=False)
    """The budget by the settings."""

    def __post_init__(self) -> None:
        assert self.partition_count > 0, "a topic has partitions"
        memory = NodeBudget(self.settings.window.memory_bytes_max)
        object.__setattr__(self, "memory", memory)

    def run_tasks_of(self, task: StoredTask) -> int:
        """Return the most tasks of its ordering id in a batch; 1 for Hourhand's own."""
        most = self.run_tasks_max.get(task.kind, 1)
        assert most >= 1, "a batch has a task"
        return 1 if most == 1 or task.key.ordering_id.startswith(RESERVED) else most

    def allows_one_attempt(self, task: StoredTask) -> bool:
        """True if the policy of a task's kind allows one attempt; False for Hourhand's own."""
        kinds = self.one_attempt_kinds
        return task.kind in kinds and not task.key.ordering_id.startswith(RESERVED)

    def expires_ms_of(self, task: StoredTask) -> int | None:
        """Return the wall time from which on no attempt of a task starts; None where it has none.

        It no longer counts if an operator opened the task again behind it.
        """
        kind, expiry = task.kind_and_expiry
        if expiry is not None:
            expires_ms = expiry.instant_ms(task.key.scheduled_ms)
        elif not self.expires_after_ms or task.key.ordering_id.startswith(RESERVED):
            return None
        elif (after_ms := self.expires_after_ms.get(kind)) is not None:
            expires_ms = min(task.key.scheduled_ms + after_ms, INSTANT_MAX_MS)
        else:
            return None
        return expires_ms if task.attempts.reopened_ms < expires_ms else None

    def known_since(self, bound_ms: int) -> KnownCompletions:
        """Return a memory for a partition's completions, with the limits of settings and budget."""
        completions_max = self.settings.window.completions_max
        bytes_max = self.memory.completions_bytes_max(self.partition_count)
        return KnownCompletions(bound_ms, completions_max, bytes_max)


RetryRequest = Callable[[Callable[[], "Future[object]"]], "Future[object]"]
"""Repeats a request until it is answered, or refused for good."""

_READS = ("load_", "find_", "read_")
"""Prefixes of a store's methods that change nothing."""


def with_retried_reads(effects: Effects, retry_request: RetryRequest) -> Effects:
    """Return the same effects, for roles that live at most as long as ``retry_request`` retries."""
    stores = effects.stores
    patient = msgspec.structs.replace(
        stores,
        schedule=cast("ScheduleStore", _RetryingPort(stores.schedule, retry_request, _READS)),
        status=cast("StatusStore", _RetryingPort(stores.status, retry_request, _READS)),
        ownership=cast("OwnershipStore", _RetryingPort(stores.ownership, retry_request, _READS)),
    )
    return replace(effects, stores=patient)


def with_retried_letters(
    effects: Effects, retry_letter: RetryRequest, retry_append: RetryRequest
) -> Effects:
    """Return the same effects, for roles that live at most as long as dead letters and followers
    are retried.
    """
    appending = _RetryingPort(effects.writer, retry_append, ("append",))
    writer = cast("LogWriter", _RetryingPort(appending, retry_letter, ("dead_letter",)))
    return replace(effects, writer=writer)


class _Method(Protocol):
    def __call__(self, *arguments: object) -> "Future[object]": ...


class _RetryingPort:
    """A port with retried methods; each is looked up once."""

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
