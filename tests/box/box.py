"""A partition's whole subtree between ports in the test's hand, driven by a seed.

In come records as the log delivers them, pauses, drains, ends of attempts, answers and failures
of the store, and time.  Out come starts and withdrawals, reads and writes, answers, letters and
events.  It decides what happens next; what must hold is for ``promises``.
"""

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import cast

import msgspec

from hourhand.actors.kernel.simulated import SimulatedSystem, VirtualClock
from hourhand.actors.model.execution.attempts import Attempt, Ending
from hourhand.actors.model.flow.flow import FlowRules
from hourhand.actors.model.operations.events import (
    CatchUpEnded,
    Event,
    PartitionAssigned,
    PartitionRevoked,
    RetriesExhausted,
)
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.pauses import Pause, PauseScope
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.errors import OwnershipLost, StoreUnavailable, UnknownKind
from hourhand.actors.ports.effects import Effects
from hourhand.actors.ports.store import ScheduleStore, Stores, TaskPage
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.configuration.settings import Settings
from tests.box.configurations import Configuration
from tests.box.deliveries import SlowDeliveries
from tests.box.hand_runner import HandRun, HandRunner
from tests.box.kinds import (
    FLOW_RULES,
    LIMITED,
    PLACES,
    RUN_TASKS_MAX,
    UNKNOWN,
    PlainJob,
    job_of,
)
from tests.box.ledger import Ledger
from tests.box.owner import PARTITION, PartitionOwner, Stand
from tests.box.producer import PARTITIONS, LogProducer
from tests.box.worst_moments import WorstMoments
from tests.builders import NOW_MS
from tests.simulation.history import CaughtUp, History, Noted, Revoked
from tests.simulation.store_recorder import StoreRecorder
from tests.simulation.truth import Truth

NODE = "box"
_GOOD = (Ending.DONE,)
_BAD = (Ending.FAILED, Ending.FAILED, Ending.RETRY, Ending.DROPPED, Ending.TIMED_OUT)


class WatchedReads:
    """A schedule that tells how far it is read."""

    def __init__(self, schedule: ScheduleStore, read: Callable[[int], None]) -> None:
        self._schedule, self._read = schedule, read

    def __getattr__(self, name: str) -> object:
        return getattr(self._schedule, name)

    def load_tasks(
        self, partition: int, after: TaskKey, before_ms: int, *limits: int
    ) -> "Future[TaskPage]":
        """Read a page."""
        self._read(before_ms)
        return self._schedule.load_tasks(partition, after, before_ms, *limits)


class Box:
    """One subtree, and all that is around it."""

    def __init__(self, configuration: Configuration, seed: int) -> None:
        self.configuration = configuration
        self.rng = random.Random(f"{configuration.name}/{seed}")
        self.clock = VirtualClock(NOW_MS + configuration.start_ms)
        self.wall_at_start_ms = float(self.clock.now_ms())
        self.settings = Settings(tree=configuration.tree())
        self.complaints: list[str] = []
        """Complaints that the ledger cannot tell later."""
        self.history, self.events = History(), Counter[str]()
        self.deliveries = SlowDeliveries(self.rng)
        self.broker = MemoryBroker(PARTITIONS, self.clock, self.deliveries)
        self.data = MemoryStores()
        self.truth = Truth(self.broker, self.data, self.settings)
        self.recorder = StoreRecorder(self)
        self.system = SimulatedSystem(self.clock, self._tree_failed, self.rng)
        self.knows_all, self.resumed_ms = False, -1.0
        """True once it runs every kind; the time at which operators ended the last pause."""
        self.runner = HandRunner(
            self.clock,
            self.rng,
            self,
            gate=self._allows,
            is_limited=self._is_limited,
        )
        self.effects = self._effects()
        committed = self.broker.group(self.settings.group.id).committed
        self.owner = PartitionOwner(
            self.system, self.effects, self.broker, committed, told=self.emit
        )
        self.ledger = Ledger(self.clock, self.data, self.truth, self.owner)
        self.ledger.is_caught_up = lambda: self._is_caught_up
        self.exhausted: set[TaskKey] = set()
        log = (self.broker, self.truth, self.ledger)
        self.producer = LogProducer(configuration, self.clock, self.rng, *log)
        self._is_caught_up, self._catch_up_end = False, 0
        self._acts = self._weighed_acts()
        for _ in range(configuration.backlog):
            self.producer.append_new(late=True)
        self.owner.gain()

    def _effects(self) -> Effects:
        return Effects(
            settings=self.settings.tree,
            partition_count=PARTITIONS,
            stores=self._stores(),
            writer=MemoryWriter(self.broker, self.deliveries),
            runner=self.runner,
            telemetry=self,
            make_executor=self._make_executor,
            flow_rules=FLOW_RULES if self.configuration.flows else FlowRules.NONE,
            concurrency_per_id={k: PLACES[k] for k in self.configuration.kinds if k in PLACES},
            run_tasks_max={
                kind: most
                for kind, most in RUN_TASKS_MAX.items()
                if kind in self.configuration.kinds
            },
        )

    def _stores(self) -> Stores:
        stores = open_memory_stores(self.data, self.deliveries)
        watched = cast("ScheduleStore", WatchedReads(stores.schedule, self.note_read))
        return msgspec.structs.replace(stores, schedule=watched)

    def note_read(self, before_ms: int) -> None:
        """Look whether those who write beside the log know that so much is read."""
        claim = self.data.claims.get(PARTITION)
        if claim is None or before_ms > claim.watermark.loaded_until_ms:
            self.complaints.append(f"P8: what is before {before_ms} was read, and nobody is told")

    def _make_executor(self, _ordering_id: str, kind: str | None) -> PlainJob:
        if kind == UNKNOWN and not self.knows_all:
            raise UnknownKind(f"no executor is registered for {kind}")
        return job_of(kind)()

    def _allows(self, attempt: Attempt) -> bool:
        return self.owner.allows(attempt)

    def _is_limited(self, attempt: Attempt) -> bool:
        return self.configuration.flows and attempt.task.kind == LIMITED

    # Calls of the subtree.

    def emit(self, event: Event) -> None:
        """Take note of an event; implements ``Telemetry``."""
        self.events[type(event).__name__] += 1
        now_ms = self.clock.monotonic_ms()
        self.history.add(Noted(now_ms, NODE, event))
        match event:
            case PartitionAssigned(next_offset=next_offset, end_offset=end_offset):
                self.ledger.note_assigned(next_offset)
                self._is_caught_up, self._catch_up_end = False, end_offset
            case CatchUpEnded(complete=complete):
                self._is_caught_up = True
                end = self._catch_up_end if complete else 0
                undurable = self.truth.undurable(PARTITION, 0, end, own=True)
                self.history.add(CaughtUp(now_ms, NODE, PARTITION, undurable))
            case RetriesExhausted(key=key, on_exhausted="block"):
                self.exhausted.add(key)
            case PartitionRevoked(drained=drained):
                self.history.add(Revoked(now_ms, NODE, PARTITION, drained, self._undurable()))
            case _:
                pass

    def run_asked(self, run: HandRun) -> None:
        """Implements ``RunObserver``."""
        self.ledger.run_asked(run)

    def run_begun(self, run: HandRun) -> None:
        """Implements ``RunObserver``."""
        self.ledger.run_begun(run)

    def run_ended(self, run: HandRun) -> None:
        """Implements ``RunObserver``."""
        self.ledger.run_ended(run)

    def run_settled(self, run: HandRun) -> None:
        """Implements ``RunObserver``."""
        self.ledger.run_settled(run)

    def _undurable(self) -> tuple[TaskKey, ...]:
        """Return what runs or is not settled as the partition is let go, except what was given up
        before.
        """
        left = self.runner.unsettled(PARTITION, given_up=False)
        return tuple(attempt.task.key for attempt in left)

    def _tree_failed(self, error: BaseException) -> None:
        claim = self.data.claims.get(PARTITION)
        replaced = (
            isinstance(error, OwnershipLost) and claim is not None and (claim.epoch > error.epoch)
        )
        failed = isinstance(error, StoreUnavailable) and self.deliveries.counts["failed"]
        if not (replaced or failed):
            self.complaints.append(f"P16: the tree failed by itself: {error!r}")
        self.events["tree failed"] += 1
        self.owner.take_failure(error)

    # Random events of the subtree.

    def _weighed_acts(self) -> tuple[list[Callable[[], object]], list[float]]:
        shape, worst = self.configuration, WorstMoments(self)
        acts: list[tuple[float, Callable[[], object]]] = [
            (6, self._deliver_some),
            (2, self.deliver_all),
            (6, self.deliveries.serve_one),
            (3, self._go_on),
            (2.5, self.producer.append),
            (0.5, self.producer.append_several),
            (2, self._poll),
            (4, self._begin_one),
            (4, self._end_one),
            (2, self._pass_time),
            (1, self.owner.advance),
            (0.3, self.owner.commit),
            (0.5 if shape.pauses else 0, self._pause),
            (0.2 if shape.moves else 0, self._move),
            (1.5 if shape.moves else 0, self._come_back),
            (1, worst.race),
            (0.4 if shape.pauses else 0, worst.flip),
            (0.4 if shape.moves else 0, worst.drain),
            (0.4 if shape.moves else 0, worst.crash),
            (0.4 if shape.outages else 0.12 if shape.moves else 0, worst.outage),
        ]
        return [act for _, act in acts], [weight for weight, _ in acts]

    def drive(self, steps: int) -> None:
        """Do so many things at random."""
        self.deliveries.failing = self.configuration.failing
        acts, weights = self._acts
        for act in self.rng.choices(acts, weights, k=steps):
            act()

    def _deliver_some(self) -> None:
        for _ in range(self.rng.randrange(1, 16)):
            if not self.system.run_one():
                self.ledger.note_quiet()
                return

    def deliver_all(self) -> None:
        """Deliver messages until there is none."""
        while self.system.run_one():
            pass
        self.ledger.note_quiet()

    def _go_on(self) -> None:
        """Let the subtree get somewhere: a tree that begins has much to ask before it starts
        anything.
        """
        for _ in range(self.rng.randrange(10, 60)):
            if self.rng.random() < 0.6:
                self.system.run_one()
            else:
                self.deliveries.serve_one()
        self.owner.advance()

    def _poll(self) -> None:
        self.owner.advance()
        self.owner.poll(self.rng.choice((1, 2, 5, 100)))

    def _begin_one(self) -> None:
        if runs := self.runner.can_begin:
            self.runner.begin(self.rng.choice(runs))

    def _end_one(self) -> None:
        if runs := self.runner.can_end:
            self.runner.end(self.rng.choice(runs), self._pick_ending)

    def _pick_ending(self) -> Ending:
        bad = self.rng.random() < self.configuration.bad
        return self.rng.choice(_BAD if bad else _GOOD)

    def _pass_time(self) -> None:
        timer_ms = self.system.next_timer_ms()
        if timer_ms is not None and self.rng.random() < 0.6:
            self.clock.advance(max(0.0, timer_ms - self.clock.monotonic_ms()))
        else:
            self.clock.advance(self.rng.choice((0.4, 1, 20, 150)))

    def unpause(self, kept: tuple[Pause, ...] = ()) -> None:
        """End all pauses but those that are kept."""
        self.ledger.note_unpaused()
        if len(kept) < len(self.owner.config.pauses):
            self.resumed_ms = self.clock.monotonic_ms()
        self.owner.pause(OperatorConfig(self.owner.config.version + 1, kept))

    def _pause(self) -> None:
        config = self.owner.config
        if config.pauses and self.rng.random() < 0.6:
            self.unpause(tuple(each for each in config.pauses if self.rng.random() < 0.4))
            return
        if self.rng.random() < 0.2:
            added = Pause(PauseScope.PARTITION, PARTITION)
        else:
            added = Pause(PauseScope.ORDERING, PARTITION, self.rng.choice(self.producer.ids))
        self.owner.pause(config.with_pauses((added,)))

    def _move(self) -> None:
        """Give the partition up, or hurry who does."""
        rng = self.rng
        if rng.random() < 0.2:
            self.die()
        if self.owner.stand is Stand.AWAY:
            return
        if self.owner.revoked_at_ms is not None:
            self.owner.lose()
        elif rng.random() < 0.7:
            self.owner.revoke(rng.choice((5, 500, 3_600_000)))
        else:
            self.owner.lose()

    def _come_back(self) -> None:
        """Take the partition again, which another member may have had meanwhile."""
        if self.owner.stand is not Stand.AWAY:
            return
        if self.rng.random() < 0.4:
            self._let_another_own()
        # A node that knows all kinds may take it over.
        self.knows_all = self.knows_all or self.rng.random() < 0.2
        self.owner.gain()

    def die(self) -> None:
        """The process is gone; what it asked of the store is still under way."""
        self.owner.die()
        self.runner.die()
        self.ledger.note_death()

    def _let_another_own(self) -> None:
        """Another member claims the partition, and is gone before it does anything."""
        claim = self.data.claims.get(PARTITION)
        if claim is not None:
            other = open_memory_stores(self.data).ownership
            other.claim(PARTITION, self.clock.now_ms()).result()
