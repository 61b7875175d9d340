"""One simulated node: the real node, tree, lease and log client, stepped in virtual time.

It decides nothing; the world tells it to work, pause, stop or die.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from actors.kernel.context import ActorContext, Failure
from actors.kernel.simulated import SimulatedSystem, VirtualClock
from actors.kernel.supervision import FailureListener
from actors.model.backoff import RetryPolicy, default_wait
from actors.model.events import Event
from actors.ordering_executor import OrderingExecutor
from actors.partition_executor import PartitionExecutor
from actors.partition_scheduler import PartitionScheduler
from actors.ports.clock import Clock
from actors.ports.effects import Effects
from scheduler.adapters.memory.broker import MemoryBroker
from scheduler.adapters.memory.delivery import Deliver
from scheduler.adapters.memory.log import MemoryLog
from scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from scheduler.adapters.memory.writer import MemoryWriter
from scheduler.attempts import RunningAttempt
from scheduler.lease import Lease
from scheduler.node import Node
from scheduler.settings import Settings
from tests.simulation.execution import ProcessKilled, SimulatedExecutor, SimulatedRunner
from tests.simulation.history import Sampled

MESSAGES_MAX = 50_000
"""Messages at one moment; more than that means that actors keep each other busy for ever."""
TRACE_MAX = 30

Trace = deque[tuple[float, str, ActorContext, object]]


class NodeClock:
    """The clock of one machine: its wall part is off by an offset that can be stepped."""

    def __init__(self, clock: VirtualClock, offset_ms: int) -> None:
        self._clock = clock
        self.offset_ms = offset_ms

    def now_ms(self) -> int:
        """Return this machine's wall time."""
        return self._clock.now_ms() + self.offset_ms

    def monotonic_ms(self) -> float:
        """Return the virtual time passed."""
        return self._clock.monotonic_ms()


class MemberObserver(Protocol):
    """Hears what happens on a node."""

    def attempt_started(self, member: "Member", running: RunningAttempt, queued_ms: float) -> int:
        """Note the call of user code; return its number."""

    def attempt_ended(self, member: "Member", number: int, ending: str) -> None:
        """Note the end of user code."""

    def reported(self, member: "Member", event: Event) -> None:
        """Note an event."""


class TracingSystem(SimulatedSystem):
    """Keeps the last messages of the whole world, for a run that fails."""

    trace: Trace
    name: str

    def post(self, context: ActorContext, message: object) -> None:
        """Note the message, then put it in its mailbox."""
        self.trace.append((self.clock.monotonic_ms(), self.name, context, message))
        super().post(context, message)


@dataclass(frozen=True, slots=True)
class Site:
    """What all nodes of a world share."""

    broker: MemoryBroker
    data: MemoryStores
    settings: Settings
    policy: RetryPolicy
    observer: MemberObserver
    trace: Trace


class WatchedLease(Lease):
    """Remembers when the node gave a partition up."""

    def __init__(self, clock: Clock, membership_ends_ms: Callable[[], float]) -> None:
        super().__init__(clock, membership_ends_ms)
        self._now_ms = clock.monotonic_ms
        self.withdrawn_ms: dict[tuple[int, int], float] = {}
        """By partition and epoch."""

    def withdraw(self, partitions: Iterable[int]) -> None:
        """Note the moment of the first withdrawal of each epoch."""
        withdrawn = tuple(partitions)
        for partition in withdrawn:
            if partition in self._epochs:
                place = (partition, self._epochs[partition])
                self.withdrawn_ms.setdefault(place, self._now_ms())
        super().withdraw(withdrawn)


class Member:
    """A node process between its start and its end."""

    def __init__(
        self, name: str, *, site: Site, clock: NodeClock, deliver: Deliver, rng: random.Random
    ) -> None:
        self.name = name
        self.clock = clock
        self.rng = rng
        self.alive = True
        self.paused_until_ms = 0.0
        self.stop_asked_ms: float | None = None
        self.stopping: Future[Mapping[int, int]] | None = None
        self.crash_in: int | None = None
        """Messages this process still handles before it dies."""
        self._poll_at_ms = self._wake_ms = 0.0
        self._observer = site.observer
        self.log = MemoryLog(site.broker, site.settings, clock)
        self.lease = WatchedLease(clock, self.log.lease_ends_ms)
        self.runner = SimulatedRunner(
            clock=clock,
            gate=self.lease.allows,
            telemetry=self,
            observer=_AttemptsOf(self, site.observer),
            workers=site.settings.tree.execution.workers,
        )
        self.system: TracingSystem
        self.node = self._make_node(site, deliver)

    def _make_node(self, site: Site, deliver: Deliver) -> Node:
        def make_system(on_failure: FailureListener) -> SimulatedSystem:
            self.system = TracingSystem(self.clock, on_failure, self.rng)
            self.system.trace, self.system.name = site.trace, self.name
            return self.system

        group = site.settings.group
        return Node(
            log=self.log,
            lease=self.lease,
            clock=self.clock,
            effects=Effects(
                settings=site.settings.tree,
                partition_count=len(site.broker.partitions),
                stores=open_memory_stores(site.data, deliver),
                writer=MemoryWriter(site.broker),
                runner=self.runner,
                telemetry=self,
                make_executor=lambda: SimulatedExecutor(site.policy),
            ),
            make_system=make_system,
            commit_interval_ms=group.commit_interval_ms,
            lease_ms=group.session_timeout_ms - group.lease_margin_ms,
            rng=self.rng,
        )

    def request_stop(self) -> None:
        """Begin to stop gracefully."""
        self.stop_asked_ms = self.clock.monotonic_ms()
        self.stopping = self.node.request_stop()

    def revoked_ms(self, partition: int, epoch: int) -> float | None:
        """Return when this node gave the partition up; None where it did not."""
        return self.lease.withdrawn_ms.get((partition, epoch))

    def emit(self, event: Event) -> None:
        """Take an event; this is the node's telemetry."""
        self._observer.reported(self, event)

    # Work.

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to stop."""
        return self.stop_asked_ms is not None

    def next_ms(self) -> float:
        """Return the monotonic time at which this node wants to go on."""
        # Outside of its own work only messages come to a node, so the rest is known.
        wanted_ms = self.clock.monotonic_ms() if self.system._ready else self._wake_ms
        return max(wanted_ms, self.paused_until_ms)

    def work(self) -> None:
        """Do what is to be done now; raises ProcessKilled where the process dies of it."""
        now_ms = self.clock.monotonic_ms()
        if now_ms < self.paused_until_ms:
            return
        # After a pause the polling thread and the dispatcher wake up in any order.
        if now_ms >= self._poll_at_ms and self.rng.random() < 0.5:
            self._poll_at_ms = now_ms + self.rng.uniform(30.0, 150.0)
            self.node.step(0)
        self._work_off()
        times = [self._poll_at_ms, self.system.next_timer_ms(), self.runner.next_ms()]
        self._wake_ms = min(time for time in times if time is not None)

    def _work_off(self) -> None:
        for _ in range(MESSAGES_MAX):
            if self.crash_in is not None:
                if self.crash_in == 0:
                    raise ProcessKilled
                self.crash_in -= 1
            sources = [self.system.run_one, self.runner.work_one]
            if self.rng.random() < 0.1:
                sources.reverse()
            if not (sources[0]() or sources[1]()):
                return
        raise AssertionError(f"{self.name} is still busy after {MESSAGES_MAX} messages")

    # Faults.

    def contexts(self) -> Iterator[ActorContext]:
        """Yield the actors of the tree that lives now, parents first."""
        root = self.node._root
        waiting = [] if root is None else [root._context]
        while waiting:
            context = waiting.pop()
            if context.alive:
                yield context
                waiting.extend(context.children or ())

    def fail_tree(self) -> None:
        """Let one actor of the tree fail at its next message."""
        contexts = list(self.contexts())
        if contexts:
            context = self.rng.choice(contexts)
            context.post(context, Failure(RuntimeError("injected by the simulation")))

    def sample(self) -> list[Sampled]:
        """Count what each partition holds in memory."""
        found: dict[int, list[int]] = {}
        for context in self.contexts():
            match actor := context.actor:
                case PartitionScheduler():
                    held = found.setdefault(actor._partition, [0, 0, 0])
                    held[0] += len(actor._tasks)
                case OrderingExecutor():
                    held = found.setdefault(actor._ownership.partition, [0, 0, 0])
                    held[1] = max(held[1], len(actor._tasks))
                    held[2] += len(actor._tasks) + (actor._current is not None)
                case PartitionExecutor():
                    found.setdefault(actor._ownership.partition, [0, 0, 0])
                case _:
                    pass
        now_ms = self.clock.monotonic_ms()
        return [Sampled(now_ms, self.name, p, *held) for p, held in sorted(found.items())]


class _AttemptsOf:
    """Tells the observer whose attempts these are."""

    def __init__(self, member: Member, observer: MemberObserver) -> None:
        self._member = member
        self._observer = observer

    def attempt_started(self, running: RunningAttempt, queued_ms: float) -> int:
        """Note the call of user code."""
        return self._observer.attempt_started(self._member, running, queued_ms)

    def attempt_ended(self, number: int, ending: str) -> None:
        """Note its end."""
        self._observer.attempt_ended(self._member, number, ending)


def retry_policy(attempts_max: int, rng: random.Random, on_exhausted: str) -> RetryPolicy:
    """Return a policy with short waits whose jitter comes from the seed."""
    wait = default_wait(base_s=0.3, cap_s=3.0, rng=rng)
    match on_exhausted:
        case "block" | "dead_letter" | "skip":
            return RetryPolicy(attempts_max, wait, on_exhausted)
        case _:
            raise ValueError(f"on_exhausted is {on_exhausted!r}: skip, block or dead_letter")
