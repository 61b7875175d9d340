"""Several nodes on one log and one store, under one virtual clock.

Everything between the adapters is the real thing: client, node and tree.  ``Journal`` is what
user code did; ``Group`` is the installation; a ``Member`` is one process of it.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import tenacity

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.flow.flow import FlowRules
from hourhand.actors.model.task.codec import encode_task
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.settings import TreeSettings, WatermarkSettings, WindowSettings
from hourhand.actors.ports.effects import Effects
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.client.client import ClientPorts, SchedulerClient
from hourhand.scheduler.configuration.settings import GroupSettings, Settings
from hourhand.scheduler.executors.guests import GuestKind
from hourhand.scheduler.testing import RecordingTelemetry
from hourhand.scheduler.testing.virtual import UserParts, VirtualNode, VirtualRunner
from tests.builders import NOW_MS
from tests.promises.faults import Faults
from tests.promises.held_runner import HeldRunner

QUICK = RetryPolicy(attempts_max=3, wait=tenacity.wait_fixed(10))
"""Three attempts, ten seconds apart."""
FOR_EVER_MS = 10**15
PATIENT = GroupSettings.model_construct(
    session_timeout_ms=FOR_EVER_MS, max_poll_interval_ms=FOR_EVER_MS
)
"""A membership that outlives any jump of the clock."""
QUIET = TreeSettings(
    # Looks so far apart are more than users may set.
    window=WindowSettings(slow_attempt_ms=3_600_000).model_copy(
        update={"clock_check_ms": 600_000, "tick_ms": 600_000}
    ),
    watermark=WatermarkSettings(interval_ms=600_000),
)
"""Little background work, so that days pass quickly."""
STEP_MS = 1_000


@dataclass(frozen=True, slots=True)
class Ran:
    """One call of user code."""

    name: str
    """The task's uniqueness key."""
    ordering_id: str
    attempt: int
    data: object
    at_ms: int


class Journal:
    """What user code did, and what it is told to do next."""

    def __init__(self) -> None:
        self.ran: list[Ran] = []
        self.says: Callable[[Task, int], Outcome | None] = lambda _task, _attempt: None
        """Called with task and attempt number; may raise."""
        self.retry = QUICK
        self.clock = VirtualClock(NOW_MS)

    @property
    def names(self) -> list[str]:
        """Uniqueness keys, in order of their calls."""
        return [ran.name for ran in self.ran]

    def make_executor(self) -> TaskExecutor:
        """Make an executor that writes into this journal."""
        journal = self

        class Journaling(TaskExecutor):
            retry = journal.retry

            def execute(self, task: Task) -> Outcome | None:
                entry = Ran(
                    task.uniqueness_key,
                    task.ordering_id,
                    self.attempt,
                    task.data,
                    journal.clock.now_ms(),
                )
                journal.ran.append(entry)
                return journal.says(task, self.attempt)

        return Journaling()


class Member:
    """One process: a node, its way to the store, and its runner."""

    def __init__(self, group: "Group", *, held: bool) -> None:
        self.faults = Faults()
        self.telemetry = RecordingTelemetry()
        self._held = held
        self.runner: HeldRunner
        self._group = group
        self.virtual = VirtualNode(
            group.broker,
            self._effects,
            settings=group.settings,
            clock=group.clock,
            telemetry=self.telemetry,
            rng=group.rng,
            users=UserParts(group.rules),
        )

    def _effects(self, virtual: VirtualRunner) -> Effects:
        group = self._group
        self.runner = HeldRunner(
            clock=group.clock, gate=virtual.runner.calls.gate, telemetry=self.telemetry
        )
        effects = Effects(
            settings=group.settings.tree,
            partition_count=len(group.broker.partitions),
            stores=open_memory_stores(group.data, self.faults),
            writer=MemoryWriter(group.broker),
            runner=self.runner.runner if self._held else virtual.runner,
            telemetry=self.telemetry,
            make_executor=lambda _id, _kind: GuestKind(group.journal.make_executor).guest(),
            flow_rules=group.rules,
            lease_ends_ms=lambda: self.virtual.log.lease_ends_ms(),  # noqa: PLW0108 - made later
        )
        self.memory = effects.memory
        return effects

    def count(self, kind: type) -> int:
        """Return how many events of a kind this member reported."""
        return sum(isinstance(event, kind) for event in self.telemetry.events)


class Group:
    """One installation and its members."""

    def __init__(
        self,
        *,
        partitions: int = 1,
        tree: TreeSettings | None = None,
        group: GroupSettings = PATIENT,
        step_ms: float = STEP_MS,
        seed: int | None = None,
        rules: FlowRules = FlowRules.NONE,
    ) -> None:
        self.rules = rules
        self.rng = None if seed is None else random.Random(seed)
        """Picks whose message is next; None takes the oldest."""
        self.journal = Journal()
        self.clock = self.journal.clock
        self.settings = Settings(tree=tree or TreeSettings(), group=group)
        self.log_faults = Faults()
        self.broker = MemoryBroker(partitions, self.clock, deliver=self.log_faults)
        self.data = MemoryStores()
        self.members: list[Member] = []
        self._step_ms = step_ms
        self.client = SchedulerClient(
            self.settings,
            ClientPorts(
                writer=MemoryWriter(self.broker),
                open_stores=lambda: open_memory_stores(self.data),
                clock=self.clock,
                telemetry=RecordingTelemetry(),
            ),
        )

    def join(self, *, held: bool = False) -> Member:
        """Start one more process; its attempts take their time where they are ``held``."""
        self.members.append(Member(self, held=held))
        return self.members[-1]

    def kill(self, member: Member) -> None:
        """End a process without a word."""
        member.virtual.log.vanish()
        self.members.remove(member)

    def stop(self, member: Member) -> None:
        """End a process gracefully."""
        drained = member.virtual.node.request_stop()
        while not drained.done():
            self.advance(100)
        member.virtual.node.close()
        self.members.remove(member)

    def replace(self, member: Member) -> Member:
        """Kill a process and start another in its place."""
        self.kill(member)
        heir = self.join()
        self.settle()
        return heir

    def settle(self) -> None:
        """Do all that can be done without time passing."""
        worked = True
        while worked:
            # All of them work in each round, whatever the first one says.
            worked = max([member.virtual.work() for member in self.members], default=False)

    def advance(self, delta_ms: float = 0, **units: float) -> None:
        """Let time pass; every member works at each timer and at least every step."""
        delta_ms += timedelta(**units) / timedelta(milliseconds=1)
        end_ms = self.clock.monotonic_ms() + delta_ms
        self.settle()
        while (now_ms := self.clock.monotonic_ms()) < end_ms:
            timers = (member.virtual.next_timer_ms() for member in self.members)
            nexts = [at for at in timers if at is not None and at > now_ms]
            self.clock.advance(min([*nexts, now_ms + self._step_ms, end_ms]) - now_ms)
            self.settle()

    def append(self, task: Task) -> int:
        """Put a task into the log as another producer would; return its offset."""
        partition = partition_of(task.ordering_id, len(self.broker.partitions))
        key = task.ordering_id.encode()
        future = MemoryWriter(self.broker).append(partition, key, encode_task(task))
        return future.result().offset

    def replay(self, partition: int = 0, offset: int = 0) -> None:
        """Have the group forget its offsets, as retention of offsets does."""
        self.broker.group(self.settings.group.id).committed[partition] = offset

    def result_of(self, task: Task) -> CompletionResult | None:
        """Return how a task's key was closed."""
        partition = partition_of(task.ordering_id, len(self.broker.partitions))
        found = self.data.completions.of_key(partition, task.key)
        return found[0].result if found else None

    def committed(self, partition: int = 0) -> int:
        """Return the group's committed next offset."""
        return self.broker.group(self.settings.group.id).committed.get(partition, 0)
