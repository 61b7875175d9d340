"""The doors of one simulated node: the real intake, timer service and executors.

Only the in-topic, the out-topic, targets of callbacks and the event loop are stand-ins.  It
decides nothing; the world tells the node to work, and who asks what is ``door_workload``'s
matter.
"""

import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from itertools import count
from typing import Any

from hourhand.actors.model.execution.backoff import ATTEMPTS_ALLOWED, RetryPolicy, default_wait
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.ports.store import Stores
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.delivery import Deliver
from hourhand.scheduler.adapters.memory.log import MemoryLog
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.node.system_executor import SystemExecutor
from hourhand.scheduler.services.recurring.declared import Declaration
from hourhand.scheduler.services.relay.intake import IntakePorts, RelayIntake
from hourhand.scheduler.services.system.system_tasks import (
    RoutedFactory,
    SystemDependencies,
    UserFactory,
)
from hourhand.scheduler.services.system_registry import SystemTaskRegistry
from hourhand.scheduler.services.timers.service import TimerService
from tests.simulation.declaring import NodeDeclaring
from tests.simulation.history import History
from tests.simulation.loop import SimulatedLoop, current_name
from tests.simulation.outlets import NodeCaller, OutTopic, Targets
from tests.simulation.watched import NodeClock

IN_GROUP = "relay"
FAILED_PAUSE_MS = 1_000.0
"""As long as a relay pauses after a round that failed."""


@dataclass(frozen=True, slots=True)
class DoorSite:
    """Common parts of the doors of all nodes."""

    tasks: MemoryBroker
    in_topic: MemoryBroker
    settings: Settings
    history: History
    targets: Targets
    to_log_of: Callable[[str], Deliver]
    """One node's way to the log."""
    pace: float
    declared: Callable[[], Declaration] | None = None
    """Returns the set that a process declares which starts now, if any does."""

    @property
    def in_settings(self) -> Settings:
        """The settings of those who read the in-topic."""
        group = self.settings.group.model_copy(update={"id": IN_GROUP})
        return self.settings.model_copy(update={"group": group})


class NodeDoors:
    """The doors of a node process between its start and its end."""

    def __init__(
        self,
        node: str,
        site: DoorSite,
        *,
        clock: NodeClock,
        stores: Stores,
        telemetry: Telemetry,
        loop: SimulatedLoop,
        lease_ends_ms: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self.node = node
        self._site = site
        self._clock = clock
        self._loop = loop
        self._rng = rng
        self._policy = RetryPolicy(ATTEMPTS_ALLOWED, default_wait(0.1, site.pace, rng), "block")
        deliver = site.to_log_of(node)
        writer = MemoryWriter(site.tasks, deliver)
        out = OutTopic(node, clock, site.history, deliver)
        caller = NodeCaller(node, clock, site.targets)
        self._kinds = kinds = SystemTaskRegistry(
            settings=site.settings,
            stores=stores,
            writer=writer,
            partition_count=writer.partition_count(),
            clock=clock,
            telemetry=telemetry,
            open_messages=lambda: out,
            open_caller=lambda: caller,
            lease_ends_ms=lease_ends_ms,
        )
        dependencies, self.judge_late = kinds.dependencies, kinds.late_occurrences.judge
        self._numbers = count()
        self.service = TimerService(dependencies.appender, dependencies.definitions, clock, _unique)
        self.log = MemoryLog(site.in_topic, site.in_settings, clock)
        self.intake = self._open_intake(dependencies, MemoryWriter(site.in_topic, deliver))
        self._step_at_ms, self._stopped = 0.0, False
        self._declaring = NodeDeclaring(site.declared, dependencies, clock, loop, self._unique)

    def _open_intake(self, dependencies: SystemDependencies, letters: MemoryWriter) -> RelayIntake:
        relay = self._site.settings.relay
        ports = IntakePorts(
            log=self.log,
            put_aside=letters.dead_letter,
            appender=dependencies.appender,
            definitions=dependencies.definitions,
            clock=self._clock,
            telemetry=dependencies.telemetry,
            # Nothing becomes durable while a thread waits that everything runs on.
            wait=lambda _futures, _timeout_s: None,
            unique=self._unique,
            patience=self._policy,
            row_bytes_max=self._site.settings.tree.execution.row_bytes_max,
        )
        return RelayIntake(ports, relay, lambda topic: topic == relay.out_topic)

    def factory_with(self, users: UserFactory) -> RoutedFactory:
        """Return what makes the executor of an ordering id; its jitter comes from the seed."""
        make = self._kinds.factory_with(users)

        def made(ordering_id: str, kind: str | None) -> TaskExecutor:
            executor = make(ordering_id, kind)
            if isinstance(executor, SystemExecutor):
                executor.retry = self._policy
            return executor

        return made

    def next_ms(self) -> float:
        """Return the monotonic time of the next round."""
        return float("inf") if self._stopped else self._step_at_ms

    def step(self) -> None:
        """Read the in-topic, where it is time for that."""
        now_ms = self._clock.monotonic_ms()
        if self._stopped or now_ms < self._step_at_ms:
            return
        self._step_at_ms = now_ms + self._rng.uniform(20.0, 80.0) * self._site.pace
        self._declaring.step()
        try:
            self.intake.step(0)
        except HourhandError:
            self._step_at_ms = now_ms + FAILED_PAUSE_MS * self._site.pace

    def ask(self, work: "Coroutine[Any, Any, None]", number: int) -> "Any":
        """Take a request of that number; return the task that answers it."""
        return self._loop.begin(work, f"{number:09d}")

    def _unique(self, now_ms: int) -> str:
        return f"{now_ms:015d}-{next(self._numbers):012d}-{self.node}"

    def stop(self) -> None:
        """Stop reading: what was read and is not durable yet is read again by another node."""
        if not self._stopped:
            self._stopped = True
            self.intake.drain(0.0)
            self.log.close()

    def vanish(self) -> None:
        """Die without a word."""
        self.log.vanish()


def _unique(now_ms: int) -> str:
    """Name a change after the request that asks for it."""
    return f"{now_ms:015d}-{current_name()}"


def change_number(uniqueness_key: str) -> int:
    """Return the number of the request that a change's record came from."""
    return int(uniqueness_key.rpartition("-")[2])
