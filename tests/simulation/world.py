"""The whole system in one thread: nodes, log, store, clients and faults, from one seed.

It moves the virtual clock from one event to the next and lets whoever is due work, in an order
the seed picks.  It writes the history; what that history must look like is for ``invariants``.
"""

import heapq
import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.delivery import Request
from hourhand.scheduler.adapters.memory.group import Coordinator
from hourhand.scheduler.adapters.memory.stores import MemoryStores
from tests.simulation.clients import make_driver
from tests.simulation.door_history import DoorEntry
from tests.simulation.faults import FaultInjector
from tests.simulation.history import (
    CLOCK_RIGHT,
    Asked,
    Happened,
    History,
    LeftToLoad,
    ReadAmiss,
    Stopped,
    TransactionEnded,
)
from tests.simulation.limited import Limits, limits_of
from tests.simulation.member import Member, Site
from tests.simulation.network import Network
from tests.simulation.outbox_world import open_outbox
from tests.simulation.outcome_topic import OutcomeTopic
from tests.simulation.reached import Reached, Turn, turn_of
from tests.simulation.recorder import Recorder
from tests.simulation.scenario import Scenario
from tests.simulation.segment_files import SegmentFiles
from tests.simulation.task_maker import rules_of
from tests.simulation.truth import Truth
from tests.simulation.unordered import PLACES
from tests.simulation.user_code import ProcessKilled, Shares, retry_policy
from tests.simulation.wakes import Wakes
from tests.simulation.watched import TRACE_MAX, NodeClock, Trace
from tests.simulation.world_doors import open_doors

START_MS = 1_767_225_600_000
AMID_MS = 0.05
"""A node is struck so much later than it asks; an answer takes longer."""
CHECK_MS = 1_000.0
"""Pause between two counts of memory, and, at the end, between two looks whether all is closed."""


class World:
    """One run of one scenario from one seed."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario, self.seed, self.pace = scenario, seed, scenario.pace
        self.rng = random.Random(f"{scenario.name}/{seed}")
        # Somewhere before the end of an hour, so that runs cross it and whole hours are swept.
        minutes_before = self.rng.choice((0.3, 0.6, 30.0))
        self.wall_at_start_ms = round(START_MS + HOUR_MS - minutes_before * 60_000)
        self.clock = VirtualClock(self.wall_at_start_ms)
        self.settings = scenario.settings(self.rng.choice(scenario.assignors))
        self.history, self._sequence = History(), count()
        self.trace: Trace = deque(maxlen=TRACE_MAX)
        self.network, self.reached = Network(self.clock, self._fork()), Reached()
        self.network.asked, self._blows = self._asked, dict[str, Callable[[Member, int], None]]()
        made_of = (scenario.partitions, self.clock, self.network.to_log, scenario.batch_bytes_max)
        self.broker, self.data = MemoryBroker(*made_of), MemoryStores(self.clock)
        self._wakes, self.configs = Wakes[Member](), list[tuple[float, OperatorConfig]]()
        self.truth = Truth(self.broker, self.data, self.settings)
        self.recorder = Recorder(self)
        self._actions: list[tuple[float, int, Callable[[], None]]] = []
        self._members: dict[str, Member] = {}
        self._clocks: dict[str, NodeClock] = {}
        self._starts, self._rejoining = dict[str, int](), dict[str, float]()
        self.doors = open_doors(self, scenario.doors, self._fork)
        self.outbox = open_outbox(self, scenario.outbox, self._fork)
        self.segments = SegmentFiles(self.data, self._read_amiss) if scenario.segments else None
        told = OutcomeTopic(self.clock, self.network, self.history.add)
        self.told = told if scenario.workload.outcomes else None
        self._site = self._make_site()
        self.faults = FaultInjector(self, scenario.faults, self._fork())
        self.driver = make_driver(self, self._fork)

    def _make_site(self) -> Site:
        scenario, load = self.scenario, self.scenario.workload
        return Site(
            broker=self.broker,
            data=self.data,
            settings=self.settings,
            policy=self._policy(),
            observer=self.recorder,
            trace=self.trace,
            pace=scenario.pace,
            hostile=Shares(load.hostile, load.hostile_setup),
            doors=None if self.doors is None else self.doors.site,
            unknowing=load.unknowing,
            flow_rules=rules_of(load),
            lend=load.lend,
            unordered=PLACES if load.unordered else {},
            sealed=load.sealed,
            processes=load.processes,
            checkpoints=load.checkpoints,
            silent=load.silent,
            outcomes=self.told,
            middleware_raises=load.middleware_raises,
            one_attempt_kinds=load.one_attempt_kinds,
            runs=load.runs_by_kind,
            segments=self.segments,
            older=scenario.older,
            guests=load.guests is not None,
        )

    @property
    def limits(self) -> Limits:
        """The limits of its kinds, which operators can change."""
        load = self.scenario.workload
        return limits_of(limits=load.limits, lend=load.lend)

    def _policy(self) -> RetryPolicy:
        load = self.scenario.workload
        return retry_policy(load.attempts_max, self._fork(), load.on_exhausted, self.pace)

    def _fork(self) -> random.Random:
        return random.Random(self.rng.getrandbits(64))

    # The run.

    def run(self) -> None:
        """Run to the end: a busy time with faults, then a bounded one without."""
        busy_ms = self.scenario.paced(self.scenario.duration_s * 1000.0)
        for _ in range(self.scenario.nodes):
            self.start_member()
        self.driver.begin(busy_ms)
        self.faults.begin(busy_ms)
        if self.doors is not None:
            self.doors.workload.begin(busy_ms)
        if self.outbox is not None:
            self.outbox.begin(busy_ms)
        self._sample()
        self._run_until(busy_ms)
        self._make_peace()
        end_ms = busy_ms + self.scenario.paced(self.scenario.settle_s * 1000.0)
        while self.now_ms() < end_ms and not self._is_finished():
            self._run_until(self.now_ms() + self.scenario.paced(CHECK_MS))
        if self.outbox is not None:
            self.outbox.end()
        for member in self.members:
            self.stop_member(member)
        self._run_until(self.now_ms() + self.scenario.paced(10_000.0))
        for member in self.members:
            member.end()
        if self.segments is not None:
            self.segments.compare(self.scenario.partitions)

    def counts(self) -> Counter[str]:
        """Return how often each kind of fault was injected, and each strange thing met."""
        sources = (self.network, self.recorder, self.driver.producers, self.driver.outside)
        counts = sum((source.counts for source in sources), Counter(self.faults.counts))
        return counts if self.segments is None else counts + self.segments.counts

    def _make_peace(self) -> None:
        """End every fault; what is gone comes back, what is paused goes on."""
        self.network.clear()
        self._blows.clear()
        if self.told is not None:
            self.told.fails = False
        if self.outbox is not None:
            self.outbox.make_peace()
        self.data.config = OperatorConfig(self.data.config.version + 1)
        self.configs.append((self.now_ms(), self.data.config))
        self.coordinator.come_back(sessions_renewed=True)
        self.broker.refused.clear()
        self.data.page_limit = lambda asked: asked
        for member in self.members:
            member.starve(None)
            member.pause_until(min(member.paused_until_ms, self.now_ms()))
            member.crash_in = None
            if member.log.membership is not None:
                member.log.membership.reachable = True
        for name, clock in self._clocks.items():
            if clock.is_far:
                what = f"{CLOCK_RIGHT} {clock.set_right()}"
                self.note(Happened(self.now_ms(), what, name, self.now_ms()))
        self._site = replace(self._site, unknowing=0.0, older=0.0)
        for member in self.members:
            if member.is_older or not member.knows_kinds:
                # Deployed again, as its operator would.
                self.stop_member(member)
                self.rejoin_after(member, 0.0)
        for name in sorted(self._starts)[: self.scenario.nodes]:
            if name not in self._members and name not in self._rejoining:
                self.start_member(name)
        self.note(Happened(self.now_ms(), "peace"))

    def _is_finished(self) -> bool:
        unfinished = any(True for _ in self.truth.unfinished())
        if unfinished and self.scenario.workload.on_exhausted == "block":
            self.driver.drop(self._blocked_keys())
        read = self.doors is None or self.doors.is_read()
        moved = self.outbox is None or self.outbox.is_moved()
        told = self.told is None or not any(self.data.outcome_log.values())
        return not unfinished and read and moved and told and self.recorder.is_committed()

    def _blocked_keys(self) -> list[TaskKey]:
        """Return what waits for an operator: exhausted, and asked about only now and then."""
        if self.rng.random() > 0.2:
            return []
        return sorted(self.recorder.exhausted)

    def _run_until(self, end_ms: float) -> None:
        clock, wakes, network, actions = self.clock, self._wakes, self.network, self._actions
        while True:
            next_ms = wakes.next_ms(default=end_ms)
            network_ms = network.next_ms()
            if network_ms is not None and network_ms < next_ms:
                next_ms = network_ms
            if actions and actions[0][0] < next_ms:
                next_ms = actions[0][0]
            if next_ms >= end_ms:
                break
            clock.advance(max(0.0, next_ms - clock.monotonic_ms()))
            self._work()
        self.clock.advance(end_ms - self.now_ms())

    def _work(self) -> None:
        """Let everything happen that is due now."""
        now_ms = self.now_ms()
        self.network.run_due()
        while self._actions and self._actions[0][0] <= now_ms:
            heapq.heappop(self._actions)[2]()
        members = self._wakes.due(now_ms)
        if len(members) > 1:
            self.rng.shuffle(members)
        for member in members:
            try:
                member.work()
            except ProcessKilled:
                self._bury(member)
                continue
            self._finish_stop(member)

    def _sample(self) -> None:
        for member in self.members:
            for sample in member.sample():
                self.recorder.sampled(sample)
        self.after(self.scenario.paced(CHECK_MS), self._sample)

    # Turns in the life of nodes; ``faults`` asks for most of them.

    @property
    def members(self) -> list[Member]:
        """The nodes that live, in the order of their names."""
        return [self._members[name] for name in sorted(self._members)]

    @property
    def clocks_off_ms(self) -> float:
        """Largest error of any machine's clock."""
        return max((clock.off_most_ms for clock in self._clocks.values()), default=0.0)

    @property
    def coordinator(self) -> Coordinator:
        """The group's coordinator."""
        return self.broker.group(self.settings.group.id)

    def owner_of(self, partition: int) -> Member | None:
        """Return the node that the group names a partition's owner."""
        for member in self.members:
            membership = member.log.membership
            if membership is not None and membership.alive and partition in membership.assigned:
                return member
        return None

    def strike_amid(self, kind: str, blow: Callable[[Member, int], None]) -> None:
        """Do something to the node that makes the next request of a kind."""
        self._blows[kind] = blow

    def _asked(self, sender: str, request: Request[Any]) -> None:
        place = request.partition
        # A broker does not say who asks; only a partition's owner commits.
        member = self._members.get(sender.partition(".")[0]) if sender else self.owner_of(place)
        self.reached.asked("" if member is None else member.name, request)
        if member is not None and (blow := self._blows.pop(request.kind, None)) is not None:
            self.after(AMID_MS, lambda: blow(member, place) if member.alive else None)

    def make_topic_anew(self) -> None:
        """Delete the topic, with what nobody read of it, and make it again."""
        self.truth.keep_topic()
        self.broker.make_anew()

    def send_late_tasks(self) -> int:
        """Have a foreign producer send overdue tasks of one partition; return which."""
        return self.driver.producers.send_late()

    def send_planned(self, ordering_id: str, due_ms: int, runs: list[str]) -> None:
        """Have a foreign producer send a blocking task whose attempts go as planned."""
        self.driver.producers.send_planned(ordering_id, due_ms, runs)

    def now_ms(self) -> float:
        """Return the virtual time passed."""
        return self.clock.monotonic_ms()

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self._actions, (self.now_ms() + delay_ms, next(self._sequence), action))

    def note(self, entry: Asked | Happened | LeftToLoad) -> None:
        """Keep what happened."""
        self.history.add(entry)
        if isinstance(entry, Happened):
            member = self._members.get(entry.node.partition(".")[0])
            if member is not None and (turn := turn_of(entry.what)) is not None:
                self.recorder.turned(turn, member)

    def _read_amiss(self, partition: int, complaint: str) -> None:
        self.history.add(ReadAmiss(self.now_ms(), partition, complaint))

    def note_transaction(self, entry: TransactionEnded) -> None:
        """Keep what became of a transaction of the application."""
        self.history.add(entry)

    def note_door(self, entry: DoorEntry) -> None:
        """Keep what was asked of a door."""
        self.history.add(entry)

    def start_member(self, name: str | None = None) -> None:
        """Start a node: a machine keeps its name and clock, a process gets a new number."""
        name = name or chr(ord("a") + len(self._starts))
        self._rejoining.pop(name, None)
        if name in self._members:
            return
        self._starts[name] = self._starts.get(name, 0) + 1
        skew_ms = self.scenario.skew_ms
        if name not in self._clocks:
            self._clocks[name] = NodeClock(self.clock, self.rng.randint(-skew_ms, skew_ms))
        process = f"{name}.{self._starts[name]}"
        member = self._members[name] = Member(
            process,
            site=self._site,
            clock=self._clocks[name],
            deliver=self.network.to_store(process),
            rng=self._fork(),
            woken=self._wakes.wake,
        )
        what = "start of the version before" if member.is_older else "start"
        self.note(Happened(self.now_ms(), what, process, self.now_ms()))
        self._wakes.add(member)

    def stop_member(self, member: Member) -> None:
        """Ask a node to stop gracefully."""
        if not member.is_stopping:
            self.recorder.turned(Turn.STOP, member)
            member.request_stop()
            self.note(Happened(self.now_ms(), "stop", member.name, self.now_ms()))

    def rejoin_after(self, member: Member, delay_ms: float) -> None:
        """Start a node of that name again when this one is gone."""
        self._rejoining[member.name.partition(".")[0]] = delay_ms

    def _finish_stop(self, member: Member) -> None:
        if member.stopping is None or not member.stopping.done():
            return
        assert member.stop_asked_ms is not None, "a stop was asked for"
        lost = self.recorder.undurable_keys(member)
        allowed_ms = self.settings.tree.recovery.drain_deadline_ms
        running = self.recorder.running_keys(member)
        self.history.add(
            Stopped(self.now_ms(), member.name, member.stop_asked_ms, allowed_ms, lost, running)
        )
        member.close()
        self._remove(member, "stopped")

    def _bury(self, member: Member) -> None:
        """The process died: half of the time the group notices at once."""
        self.recorder.turned(Turn.CRASH, member)
        if self.rng.random() < 0.4:
            member.vanish()
        self._remove(member, "crash")
        name = member.name.partition(".")[0]
        self._rejoining.setdefault(name, 0.0)
        delay_ms = self.rng.choice((100.0, 1_500.0, self.rng.uniform(4_000.0, 9_000.0)))
        self.after(self.scenario.paced(delay_ms), lambda: self.start_member(name))

    def _remove(self, member: Member, why: str) -> None:
        name = member.name.partition(".")[0]
        del self._members[name]
        self._wakes.forget(member)
        self.network.cut_off(member.name)
        member.end()
        self.recorder.forget(member)
        self.note(Happened(self.now_ms(), why, member.name, self.now_ms()))
        if name in self._rejoining:
            self.after(self._rejoining[name], lambda: self.start_member(name))
