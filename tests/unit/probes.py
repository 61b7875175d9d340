"""One role alone: a simulated system, probes instead of its siblings, stores that can be held.

Messages go to the role by hand, one at a time; what it says is found in the probes.  Whatever
the role raises is raised by ``Harness.run``, so no test passes over a tree that failed.
"""

import random
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from hourhand.actors.kernel.actor import Actor
from hourhand.actors.kernel.ref import Ref
from hourhand.actors.kernel.simulated import SimulatedSystem, VirtualClock
from hourhand.actors.messages import MeetSiblings, Siblings
from hourhand.actors.model.execution.known_completions import KnownCompletions
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.flow.flow import FlowRules
from hourhand.actors.model.operations.ownership import Ownership
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.settings import TreeSettings
from hourhand.actors.ports.effects import Effects
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.testing import RecordingTelemetry
from tests.builders import NOW_MS
from tests.unit.fakes import FakeRunner, FakeWriter, HeldRequests

PARTITION = 0
EPOCH = 3

NOTHING_KNOWN_BEFORE_MS = 10**15
"""A bound past all times: every role asks the tracker."""

Message = TypeVar("Message")


class Probe:
    """Stands where an actor would: a recipient that keeps what it is told."""

    def __init__(self) -> None:
        self.messages: list[object] = []
        self.first: list[object] = []
        """What may pass others."""

    def tell(self, message: object) -> None:
        """Keep the message."""
        self.messages.append(message)

    def tell_first(self, message: object) -> None:
        """Keep the message, and that it may pass others."""
        self.first.append(message)
        self.messages.append(message)

    def take(self, kind: type[Message]) -> Message:
        """Remove and return the oldest message of this kind; there must be one."""
        for message in self.messages:
            if isinstance(message, kind):
                self.messages.remove(message)
                return message
        raise AssertionError(f"no {kind.__name__} among {self.messages}")

    def take_all(self, kind: type[Message]) -> list[Message]:
        """Remove and return every message of this kind, in order."""
        taken = [message for message in self.messages if isinstance(message, kind)]
        self.messages = [message for message in self.messages if not isinstance(message, kind)]
        return taken

    def has(self, kind: type[object]) -> bool:
        """True if a message of this kind was told and not taken."""
        return any(isinstance(message, kind) for message in self.messages)


class ProbeActor(Actor):
    """A child that keeps what it is told; never answers."""

    def __init__(self) -> None:
        self.messages: list[object] = []

    def on_receive(self, message: object) -> None:
        """Keep the message."""
        self.messages.append(message)


class ProbedChildren(Actor):
    """Mixed into a role: wherever it spawns a child, a probe is started in its place."""

    def spawn(self, child: Actor, first_message: object = None) -> Ref:
        """Start a probe and keep it."""
        probe = ProbeActor()
        self.children.append(probe)
        return super().spawn(probe, first_message)

    @property
    def children(self) -> list[ProbeActor]:
        """The probes, in the order in which they were spawned."""
        children: list[ProbeActor] = vars(self).setdefault("probed_children", [])
        return children


class _NoJob(TaskExecutor):
    """Stands for a user's executor where the fake runner calls none."""

    def execute(self, task: Task) -> Outcome | None:
        """Fail the test."""
        raise AssertionError(f"{task.key} was run")


class Harness:
    """One role, everything around it in the test's hand."""

    def __init__(
        self,
        settings: TreeSettings | None = None,
        *,
        partition_count: int = 1,
        rng: random.Random | None = None,
        make_executor: Callable[[], TaskExecutor] | None = None,
        known_since_ms: int = NOTHING_KNOWN_BEFORE_MS,
        flow_rules: FlowRules = FlowRules.NONE,
        concurrency_per_id: Mapping[str | None, int | None] | None = None,
        run_tasks_max: Mapping[str | None, int] | None = None,
        expires_after_ms: Mapping[str | None, int] | None = None,
        one_attempt_kinds: Collection[str | None] = (),
    ) -> None:
        """``known_since_ms``: whether keys since then are closed a role knows without asking."""
        self.clock, self.failures = VirtualClock(NOW_MS), list[BaseException]()
        self.system = SimulatedSystem(self.clock, self.failures.append, rng)
        self.data, self.requests = MemoryStores(), HeldRequests()
        self.runner, self.writer, self.telemetry = FakeRunner(), FakeWriter(), RecordingTelemetry()
        self.effects = Effects(
            settings=settings or TreeSettings(),
            partition_count=partition_count,
            stores=open_memory_stores(self.data, self.requests),
            writer=self.writer,
            runner=self.runner,
            telemetry=self.telemetry,
            make_executor=lambda _id, _kind: (make_executor or _NoJob)(),
            flow_rules=flow_rules,
            concurrency_per_id=concurrency_per_id or {},
            run_tasks_max=run_tasks_max or {},
            expires_after_ms=expires_after_ms or {},
            one_attempt_kinds=one_attempt_kinds,
        )
        self.ownership, self.supervisor = Ownership(PARTITION, EPOCH), Probe()
        self.persistence, self.executor, self.controller = Probe(), Probe(), Probe()
        self.scheduler, self.tracker = Probe(), Probe()
        self.siblings = self._siblings(known_since_ms, has_flows=bool(flow_rules))

    def _siblings(self, known_since_ms: int, *, has_flows: bool) -> Siblings:
        return Siblings(
            supervisor=self.supervisor,
            task_persistence=self.persistence,
            throughput_controller=self.controller,
            partition_scheduler=self.scheduler,
            partition_executor=self.executor,
            completion_tracker=self.tracker,
            known_completions=KnownCompletions(known_since_ms, 100, 1_000_000),
            budget=self.effects.memory.begin(PARTITION, has_flows=has_flows),
        )

    def spawn(self, role: Actor, *, meets: bool = True) -> Ref:
        """Start the role and, where it ``meets`` them, tell it its siblings."""
        ref = self.system.spawn_root(role)
        if meets:
            ref.tell(MeetSiblings(self.siblings))
        self.run()
        return ref

    def run(self) -> None:
        """Deliver everything that is under way; raise what the role raised."""
        while self.system.run_one():
            pass
        if self.failures:
            raise self.failures.pop(0)

    def advance(self, delta_ms: float) -> None:
        """Let time pass, from timer to timer."""
        end_ms = self.clock.monotonic_ms() + delta_ms
        while (due_ms := self.system.next_timer_ms()) is not None and due_ms <= end_ms:
            self.clock.advance(max(0.0, due_ms - self.clock.monotonic_ms()))
            self.run()
        self.clock.advance(end_ms - self.clock.monotonic_ms())
        self.run()
