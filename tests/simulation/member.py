"""One simulated node: the real node, tree, lease and log client, stepped in virtual time.

It decides nothing; the world tells it to work, pause, stop or die.
"""

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import msgspec

from hourhand.actors.kernel.context import ActorContext, RequestFailed, context_of
from hourhand.actors.kernel.simulated import SimulatedSystem
from hourhand.actors.kernel.supervision import FailureListener
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.flow.flow import FlowRules
from hourhand.actors.model.operations.events import (
    BatchPersisted,
    Event,
    WindowLoaded,
    single_events,
)
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.ports.effects import Effects
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.delivery import Deliver
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.adapters.memory.tables import View
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.limits.node_limits import NodeLimits
from hourhand.scheduler.node.node import Node
from hourhand.scheduler.node.silence import SilenceLimits
from hourhand.scheduler.observe.node_telemetry import NodeTelemetry
from hourhand.scheduler.observe.reporting import Reported, Reporter
from hourhand.scheduler.services.outcomes.outcome_feed import OutcomeFeed
from hourhand.scheduler.services.outcomes.outcome_sinks import TopicSink
from hourhand.scheduler.services.system.system_tasks import RoutedFactory, routed
from tests.simulation.doors import DoorSite, NodeDoors
from tests.simulation.execution import SimulatedRunner
from tests.simulation.guests import guests
from tests.simulation.history import Progress, Sampled, Step
from tests.simulation.loop import SimulatedLoop
from tests.simulation.machine import VirtualMachine
from tests.simulation.memory_samples import sampled
from tests.simulation.older import OlderOwnership, older_settings
from tests.simulation.outcome_topic import OutcomeTopic
from tests.simulation.processes import SimulatedProcesses
from tests.simulation.progress import CheckpointingAttempt, is_silent
from tests.simulation.real_workers import RealRunner, WatchedCalls
from tests.simulation.sealing import around, node_codecs
from tests.simulation.segment_files import SegmentFiles
from tests.simulation.user_code import (
    NOT_HOSTILE,
    ProcessKilled,
    Shares,
    hostile,
    in_batches,
    in_processes,
    simulated_executor,
)
from tests.simulation.watched import NodeClock, Trace, TracingSystem, WatchedLease, WatchedLog

REPORT_MS = 1_000
MESSAGES_MAX = 50_000
"""Messages at one moment; more than that means that actors keep each other busy for ever."""


class MemberObserver(Protocol):
    """Hears what happens on a node."""

    def attempt_started(self, member: "Member", running: RunningAttempt, queued_ms: float) -> int:
        """Note the call of user code; return its number."""

    def attempt_ended(self, member: "Member", number: int, ending: str) -> None:
        """Note the end of user code."""

    def data_arrived(self, key: TaskKey, complaint: str) -> None:
        """Note sealed data that user code or middleware was given, and what is wrong with it."""

    def checkpoint_said(self, progress: Progress) -> None:
        """Note that user code made a checkpoint."""

    def miscalled(self, key: TaskKey, complaint: str) -> None:
        """Note what is wrong with how user code was called."""

    def in_line(self, member: "Member", running: RunningAttempt, step: Step) -> None:
        """Note that an attempt waits for its limits, or waits no more."""

    def harmed(self, what: str) -> None:
        """Note what user code does to what it finds where it runs."""

    def reported(self, member: "Member", event: Event) -> None:
        """Note an event."""

    def delivered(self, records: Sequence[LogRecord]) -> None:
        """Note the records a poll brought."""

    def sampled(self, sample: Sampled) -> None:
        """Note what a partition holds in memory."""

    def held(self, member: "Member", partitions: int) -> None:
        """Note how many partitions a node may start attempts of from now on."""

    def gives_up(self, member: "Member", partition: int) -> None:
        """Note that a node is about to give a partition up."""

    def applied(self, member: "Member", config: OperatorConfig) -> None:
        """Note what operators decided that a node goes by from now on."""


@dataclass(frozen=True, slots=True)
class Site:
    """Common parts of all nodes of a world."""

    broker: MemoryBroker
    data: MemoryStores
    settings: Settings
    policy: RetryPolicy
    observer: MemberObserver
    trace: Trace
    pace: float = 1.0
    """Factor by which pauses between polls are longer than usual."""
    hostile: Shares = NOT_HOSTILE
    """Shares in which user code raises what nobody expects, for sick ordering ids."""
    doors: DoorSite | None = None
    unknowing: float = 0.0
    """Share of processes that have no executor for tasks which have a kind."""
    flow_rules: FlowRules = FlowRules.NONE
    lend: bool = False
    """True if nodes report, and lend each other the rates of limits."""
    unordered: Mapping[str | None, int | None] = field(default_factory=dict)
    """The kinds without order."""
    sealed: bool = False
    """True if data is sealed and nodes have middleware, which raises in a share of attempts."""
    middleware_raises: float = 0.0
    guests: bool = False
    """True if user code runs on the workers of every node, and may do harm there."""
    one_attempt_kinds: Collection[str | None] = ()
    """The kinds whose starts are all durable."""
    runs: Mapping[str | None, int] = field(default_factory=dict)
    """The kinds whose batches hold several tasks of one ordering id."""
    segments: SegmentFiles | None = None
    """Files of the completions, if many of them are one row."""
    older: float = 0.0
    """Share of processes that are of the version before."""
    processes: bool = False
    """True if user code runs in processes."""
    checkpoints: bool = False
    """True if user code makes checkpoints."""
    silent: float = 0.0
    """Share of tasks that make none anyway."""
    outcomes: OutcomeTopic | None = None
    """The stream of closed tasks."""

    def stores(self, deliver: Deliver, rng: random.Random, *, is_older: bool) -> Stores:
        """Open a node's way to the store; one of four writes rows where others write segments."""
        stores = open_memory_stores(self.data, deliver)
        if is_older:
            ownership = OlderOwnership(self.data, View(deliver))
            stores = msgspec.structs.replace(stores, ownership=ownership)
        if self.segments is None:
            return stores
        status = self.segments.status(deliver, writes_segments=rng.random() < 0.75)
        return msgspec.structs.replace(stores, status=status)


@dataclass(frozen=True, slots=True)
class Starvation:
    """The turns that a process gets of its machine, when these are few."""

    until_ms: float
    gap_ms: float
    """Longest time from one turn to the next."""
    messages: int
    """Most messages that it handles in one turn."""


class Member:
    """A node process between its start and its end."""

    def __init__(
        self,
        name: str,
        *,
        site: Site,
        clock: NodeClock,
        deliver: Deliver,
        rng: random.Random,
        woken: "Callable[[Member], None]",
    ) -> None:
        """``woken`` is called when the node may want to go on earlier than it said."""
        self.name, self.clock, self.rng = name, clock, rng
        self._woken = partial(woken, self)
        self.alive, self._loaded = True, False
        self.paused_until_ms = 0.0
        self._starvation: Starvation | None = None
        self.stop_asked_ms: float | None = None
        self.stopping: Future[Mapping[int, int]] | None = None
        self.crash_in: int | None = None
        """Messages this process still handles before it dies."""
        self._poll_at_ms = self._wake_ms = 0.0
        self._observer, self._pace = site.observer, site.pace
        self.knows_kinds = not site.unknowing or rng.random() >= site.unknowing
        self.is_older = bool(site.older) and rng.random() < site.older
        self.log = WatchedLog(site.broker, site.settings, clock, site.observer.delivered)
        observer = site.observer
        told = partial(observer.held, self), partial(observer.gives_up, self)
        self.lease = WatchedLease(clock, self.log.lease_ends_ms, *told)
        self._loop = SimulatedLoop(clock, self._woken)  # type: ignore[abstract]
        self._machine = VirtualMachine(clock, rng, self._woken)
        self.doors: NodeDoors | None = None
        self._payloads = node_codecs(knows_new=self.knows_kinds)
        self._processes: SimulatedProcesses | None = None
        self._execution = self._make_runner(site)
        self.runner, self.workers = self._execution.runner, self._execution.workers
        self.system: TracingSystem
        stores = site.stores(deliver, rng, is_older=self.is_older)
        self.node = self._make_node(site, stores)
        self._reporter = self._make_reporter(stores) if site.lend else None
        self._report_at_ms = 0.0

    def _make_feed(self, site: Site, stores: Stores) -> OutcomeFeed | None:
        if site.outcomes is None:
            return None
        sink = TopicSink(site.outcomes.of(self.name), "outcomes")
        return OutcomeFeed(stores, sink, self.clock, self, "/hourhand/simulated")

    def _make_runner(self, site: Site) -> SimulatedRunner | RealRunner:
        if site.guests:
            return self._make_real_runner(site)
        calls = Calls(
            clock=self.clock,
            gate=self.lease.allows,
            telemetry=self,
            rng=self.rng,
            silence_limits=SilenceLimits(default_ms=site.settings.tree.execution.stuck_after_ms),
        )
        if site.sealed:
            calls.require_codecs = self._payloads.require
        observer = _AttemptsOf(
            self, site.observer, checkpoints=site.checkpoints, silent=site.silent
        )
        if site.processes:
            self._processes = SimulatedProcesses(
                calls,
                site.settings.tree,
                observer=observer,
                lease_ends_ms=self.log.lease_ends_ms,
                policy=site.policy,
                rng=self.rng,
            )
        return SimulatedRunner(
            calls,
            site.settings.tree.execution,
            NodeLimits(
                site.flow_rules,
                partitions=len(site.broker.partitions),
                owned=self.lease,
                lend=site.lend,
            ),
            observer=observer,
            loop=self._loop,
            processes=self._processes,
        )

    def _make_real_runner(self, site: Site) -> RealRunner:
        calls = WatchedCalls(
            clock=self.clock,
            gate=self.lease.allows,
            telemetry=self,
            rng=self.rng,
            observer=_AttemptsOf(self, site.observer),
            machine=self._machine,
        )
        partitions = len(site.broker.partitions)
        limits = NodeLimits(site.flow_rules, partitions=partitions, owned=self.lease)
        return RealRunner(calls, site.settings.tree.execution, limits, self._machine)

    def _make_reporter(self, stores: Stores) -> Reporter:
        node, runner = self.node, self.runner
        reported = Reported(
            node.describe,
            self.log.lease_ends_ms,
            lambda: node.config_watch.config,
            "",
            runner.limited,
            runner.declared_limits,
            runner.loans,
            runner.rates,
        )
        reporter = Reporter(
            reported,
            stores=stores,
            runner=runner,
            telemetry=NodeTelemetry(self.clock),
            clock=self.clock,
            interval_ms=REPORT_MS,
        )
        reporter.node = self.name
        return reporter

    def _make_node(self, site: Site, bare: Stores) -> Node:
        feed = self._make_feed(site, bare)
        stores = bare if feed is None else feed.publishing(bare)
        node = self._join(site, stores)
        node.tell_outcomes = None if feed is None else feed.step
        return node

    def _join(self, site: Site, stores: Stores) -> Node:
        self.lease.add_listener(partial(site.observer.applied, self))
        self.lease.add_listener(self.runner.apply)

        def make_system(on_failure: FailureListener) -> SimulatedSystem:
            self.system = TracingSystem(self.clock, on_failure, self.rng)
            self.system.trace, self.system.name = site.trace, self.name
            self.system.woken, self.system.pace = self._woken, site.pace
            return self.system

        group = site.settings.group
        make_executor = self._executors(site, stores)
        tree = older_settings(site.settings.tree) if self.is_older else site.settings.tree
        return Node(
            log=self.log,
            lease=self.lease,
            clock=self.clock,
            effects=Effects(
                settings=tree,
                partition_count=len(site.broker.partitions),
                stores=stores,
                writer=MemoryWriter(site.broker, None, site.settings.client.record_bytes_max),
                runner=self.runner,
                telemetry=self,
                make_executor=make_executor,
                concurrency_per_id=site.unordered,
                run_tasks_max=site.runs,
                one_attempt_kinds=site.one_attempt_kinds,
                flow_rules=site.flow_rules,
                tells_outcomes=site.outcomes is not None,
                lease_ends_ms=self.log.lease_ends_ms,
            ),
            make_system=make_system,
            commit_interval_ms=group.commit_interval_ms,
            lease_ms=group.session_timeout_ms - group.lease_margin_ms,
            rng=self.rng,
        )

    def _executors(self, site: Site, stores: Stores) -> RoutedFactory:
        users = partial(simulated_executor, site.policy, self.knows_kinds)
        if site.doors is not None:
            self.doors = NodeDoors(
                self.name,
                site.doors,
                clock=self.clock,
                stores=stores,
                telemetry=self,
                loop=self._loop,
                lease_ends_ms=self.log.lease_ends_ms,
                rng=random.Random(self.rng.getrandbits(64)),
            )
            made_ahead = self.runner.made_ahead
            made_ahead.owned_since_ms = self.lease.owned_since_ms
            made_ahead.judge = self.doors.judge_late
        make_executor = routed(users, {}) if self.doors is None else self.doors.factory_with(users)
        if site.guests:
            told = site.observer.miscalled, site.observer.harmed
            make_executor = guests(make_executor, site.policy, self._machine, *told)
        shares = NOT_HOSTILE if site.guests else site.hostile
        made = hostile(make_executor, site.policy, shares, self.rng)
        if site.processes:
            return in_processes(made, site.policy)
        if site.runs:
            made = in_batches(made, site.policy, site.runs, site.observer.miscalled)
        if not site.sealed:
            return made
        lots = random.Random(self.rng.getrandbits(64))
        arrived = site.observer.data_arrived
        return around(made, self._payloads, site.middleware_raises, arrived, lots)

    def request_stop(self) -> None:
        """Begin to stop gracefully."""
        self.stop_asked_ms = self.clock.monotonic_ms()
        if self.doors is not None:
            self.doors.stop()
        self.stopping = self.node.request_stop()

    def vanish(self) -> None:
        """Die without a word; the groups notice at once."""
        self.log.vanish()
        if self.doors is not None:
            self.doors.vanish()

    def end(self) -> None:
        """The process is gone: nothing in it goes on."""
        self.alive = False
        self._execution.end()
        if self._processes is not None:
            self._processes.end()

    def close(self) -> None:
        """End as a process that was asked to; AssertionError where something of it goes on."""
        self.node.close()
        self._execution.close()

    def revoked_ms(self, partition: int, epoch: int) -> float | None:
        """Return when this node gave the partition up; None where it did not."""
        return self.lease.withdrawn_ms.get((partition, epoch))

    def emit(self, event: Event) -> None:
        """Take an event; this is the node's telemetry."""
        self._loaded = self._loaded or isinstance(event, WindowLoaded | BatchPersisted)
        for each in single_events(event):
            self._observer.reported(self, each)

    def pause_until(self, until_ms: float) -> None:
        """Do nothing before a time."""
        self.paused_until_ms = until_ms
        self._woken()

    def starve(self, starvation: Starvation | None) -> None:
        """Get few turns for a while; with None as many as it wants again."""
        self._starvation = starvation

    # Work.

    @property
    def is_stopping(self) -> bool:
        """True if it was asked to stop."""
        return self.stop_asked_ms is not None

    def next_ms(self) -> float:
        """Return the monotonic time at which this node wants to go on."""
        # Outside of its own work only messages come to a node, so the rest is known.
        busy = self.system._ready or self._execution.is_woken()
        wanted_ms = self.clock.monotonic_ms() if busy else self._wake_ms
        own_ms = max(wanted_ms, self.paused_until_ms)
        # Guardian and processes go on while the node is frozen.
        return own_ms if self._processes is None else min(own_ms, self._processes.outside_ms())

    def work(self) -> None:
        """Do what is to be done now; raises ProcessKilled where the process dies of it."""
        now_ms = self.clock.monotonic_ms()
        if self._processes is not None:
            self._processes.step()
        if now_ms < self.paused_until_ms:
            return
        # After a pause the threads wake up in any order.
        if self._reporter is not None and now_ms >= self._report_at_ms and self.rng.random() < 0.5:
            self._report_at_ms = now_ms + self._reporter.pause_ms * self.rng.uniform(0.9, 1.3)
            self._reporter.step()
        if now_ms >= self._poll_at_ms and self.rng.random() < 0.5:
            self._poll_at_ms = now_ms + self.rng.uniform(30.0, 150.0) * self._pace
            self.node.step(0)
        if self.doors is not None:
            self.doors.step()
        self._work_off(self._turn())
        self._wake_ms = self._poll_at_ms
        for next_ms in (self.system.next_timer_ms(), self._execution.next_ms()):
            if next_ms is not None and next_ms < self._wake_ms:
                self._wake_ms = next_ms
        if self.doors is not None:
            self._wake_ms = min(self._wake_ms, self.doors.next_ms())
        if self._reporter is not None:
            self._wake_ms = min(self._wake_ms, self._report_at_ms)

    def _turn(self) -> int:
        """Return how many messages are handled before the next turn, which may come late."""
        starvation = self._starvation
        if starvation is None:
            return MESSAGES_MAX
        now_ms = self.clock.monotonic_ms()
        if now_ms >= starvation.until_ms:
            return MESSAGES_MAX
        next_ms = now_ms + self.rng.uniform(0.0, starvation.gap_ms)
        self.paused_until_ms = min(next_ms, starvation.until_ms)
        return self.rng.randrange(starvation.messages) + 1

    def _work_off(self, messages: int) -> None:
        chance, run_one, work_one = self.rng.random, self.system.run_one, self._execution.work_one
        for _ in range(messages):
            if self.crash_in is not None:
                if self.crash_in == 0:
                    raise ProcessKilled
                self.crash_in -= 1
            first, second = (work_one, run_one) if chance() < 0.1 else (run_one, work_one)
            if not (first() or second()):
                self._sample_if_loaded()
                return
        assert messages < MESSAGES_MAX, f"{self.name} is still busy after {MESSAGES_MAX} messages"

    # Faults.

    def contexts(self) -> Iterator[ActorContext]:
        """Yield the actors of the tree that lives now, parents first."""
        root = self.node._root
        waiting = [] if root is None else [context_of(root)]
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
            context.post(context, RequestFailed(RuntimeError("injected by the simulation")))

    def _sample_if_loaded(self) -> None:
        """Memory grows when tasks come in: look at it then."""
        if self._loaded:
            self._loaded = False
            for sample in self.sample():
                self._observer.sampled(sample)

    def sample(self) -> list[Sampled]:
        """Count what each partition holds in memory; nothing amid messages, as roles do not know
        yet what others hold.
        """
        if self.system._ready:
            return []
        return sampled(self.contexts(), self.clock.monotonic_ms(), self.name)


class _AttemptsOf:
    """Tells the observer whose attempts these are."""

    def __init__(
        self,
        member: Member,
        observer: MemberObserver,
        *,
        checkpoints: bool = False,
        silent: float = 0.0,
    ) -> None:
        self._member, self._observer = member, observer
        self._checkpoints, self._silent = checkpoints, silent

    def attempt_started(self, running: RunningAttempt, queued_ms: float) -> int:
        """Note the call of user code."""
        return self._observer.attempt_started(self._member, running, queued_ms)

    def attempt_ended(self, number: int, ending: str) -> None:
        """Note its end."""
        self._observer.attempt_ended(self._member, number, ending)

    def checkpointing(self, running: RunningAttempt, number: int) -> CheckpointingAttempt | None:
        """Return how it makes checkpoints; None where no code makes any."""
        attempt = running.attempt
        if not self._checkpoints or is_silent(attempt.task.key, self._silent):
            return None
        key, say = attempt.task.key, self._observer.checkpoint_said
        return CheckpointingAttempt(key, attempt.epoch, number, say)

    def miscalled(self, running: RunningAttempt, complaint: str) -> None:
        """Note what is wrong with how it was called."""
        self._observer.miscalled(running.attempt.task.key, complaint)

    def in_line(self, running: RunningAttempt, step: Step) -> None:
        """Note that it waits for its limits, or waits no more."""
        self._observer.in_line(self._member, running, step)
