"""A partition's whole subtree between ports in the test's hand, driven by a seed.

In come records as the log delivers them, pauses, drains, ends of attempts, answers and failures
of the store, and time.  Out come starts and withdrawals, reads and writes, answers, letters and
events.  It decides what happens next; what must hold is for ``promises``.
"""

import gc
import random
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator

from actors.kernel.simulated import SimulatedSystem, VirtualClock
from actors.model.attempts import Attempt, Ending
from actors.model.codec import Command, CommandKind, LogRecord, encode_command, encode_parts
from actors.model.errors import OwnershipLost, StoreUnavailable, UnknownKind
from actors.model.events import (
    CatchUpEnded,
    Event,
    PartitionAssigned,
    PartitionRevoked,
    RetriesExhausted,
)
from actors.model.flow import FlowRules
from actors.model.key import TaskKey
from actors.model.operator_sheet import OperatorSheet
from actors.model.partition import partition_of
from actors.model.pauses import Pause, PauseScope
from actors.model.task import StoredTask
from actors.ports.effects import Effects
from scheduler.adapters.memory.broker import MemoryBroker
from scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from scheduler.adapters.memory.writer import MemoryWriter
from scheduler.configuration.settings import Settings
from tests.box.configurations import Configuration
from tests.box.deliveries import SlowDeliveries
from tests.box.hand_runner import HandRun, HandRunner, Step
from tests.box.kinds import (
    BLOCKING,
    FLOW_RULES,
    LIMITED,
    PLACES,
    PLAIN,
    RUN_TASKS_MAX,
    TENANT,
    UNKNOWN,
    PlainJob,
    job_of,
)
from tests.box.ledger import Ledger
from tests.box.owner import PARTITION, PartitionOwner, Stand
from tests.builders import NOW_MS
from tests.simulation.history import CaughtUp, History, Noted, Revoked
from tests.simulation.store_recorder import StoreRecorder
from tests.simulation.truth import Truth

PARTITIONS = 2
NODE = "box"
SETTLE_MS = 120_000.0
"""Virtual time in which everything must be done once nothing disturbs the subtree."""
ISOLATION_MS = 10_000.0
"""The same for all that waits for nobody, while others are held up."""
_GOOD = (Ending.DONE,)
_BAD = (Ending.FAILED, Ending.FAILED, Ending.RETRY, Ending.DROPPED, Ending.TIMED_OUT)


class Box:
    """One subtree, and all that is around it."""

    def __init__(self, configuration: Configuration, seed: int) -> None:
        self.configuration = configuration
        self.rng = random.Random(f"{configuration.name}/{seed}")
        self.clock = VirtualClock(NOW_MS)
        self.wall_at_start_ms = float(NOW_MS)
        self.settings = Settings(tree=configuration.tree())
        self.complaints: list[str] = []
        """What cannot be told from the ledger later."""
        self.history, self.events = History(), Counter[str]()
        self.deliveries = SlowDeliveries(self.rng)
        self.broker = MemoryBroker(PARTITIONS, self.clock, self.deliveries)
        self.data = MemoryStores()
        self.truth = Truth(self.broker, self.data, self.settings)
        self.recorder = StoreRecorder(self)
        self.system = SimulatedSystem(self.clock, self._tree_failed, self.rng)
        self.knows_all, self.drops_blocked = False, True
        """Whether it runs every kind by now, and somebody drops, in peace, what holds its id."""
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
        self.ids = tuple(_ids_of(PARTITION, configuration.ids))
        self._is_caught_up, self._catch_up_end = False, 0
        self._numbers = 0
        self._acts = self._weighed_acts()
        for _ in range(configuration.backlog):
            self._append_task(late=True)
        self.owner.gain()

    def _effects(self) -> Effects:
        return Effects(
            settings=self.settings.tree,
            partition_count=PARTITIONS,
            stores=open_memory_stores(self.data, self.deliveries),
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

    def _make_executor(self, _ordering_id: str, kind: str | None) -> PlainJob:
        if kind == UNKNOWN and not self.knows_all:
            raise UnknownKind(f"no executor is registered for {kind}")
        return job_of(kind)()

    def _allows(self, attempt: Attempt) -> bool:
        return self.owner.allows(attempt)

    def _is_limited(self, attempt: Attempt) -> bool:
        return self.configuration.flows and attempt.task.kind == LIMITED

    # What the subtree says.

    def emit(self, event: Event) -> None:
        """Take note of an event; implements ``Telemetry``."""
        self.events[type(event).__name__] += 1
        now_ms = self.clock.monotonic_ms()
        self.history.add(Noted(now_ms, NODE, event))
        match event:
            case PartitionAssigned(end_offset=end_offset):
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
        """Return what ended and is not settled, or still runs, as the partition is let go."""
        left = self.runner.unsettled(PARTITION)
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

    # What happens to the subtree, at random.

    def _weighed_acts(self) -> tuple[list[Callable[[], object]], list[float]]:
        shape = self.configuration
        acts: list[tuple[float, Callable[[], object]]] = [
            (6, self._deliver_some),
            (2, self.deliver_all),
            (6, self.deliveries.serve_one),
            (3, self._append),
            (1, self._append_several),
            (2, self._poll),
            (3, self._begin_one),
            (2, self._end_one),
            (2, self._pass_time),
            (1, self.owner.advance),
            (0.3, self.owner.commit),
            (0.5 if shape.pauses else 0, self._pause),
            (0.25 if shape.moves else 0, self._move),
        ]
        return [act for _, act in acts], [weight for weight, _ in acts]

    def drive(self, steps: int) -> None:
        """Do so many things at random."""
        self.deliveries.failing = self.configuration.failing
        acts, weights = self._acts
        for act in self.rng.choices(acts, weights, k=steps):
            act()

    def _deliver_some(self) -> None:
        for _ in range(self.rng.randrange(1, 8)):
            if not self.system.run_one():
                self.ledger.note_quiet()
                return

    def deliver_all(self) -> None:
        """Deliver messages until there is none."""
        while self.system.run_one():
            pass
        self.ledger.note_quiet()

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

    def _pause(self) -> None:
        sheet = self.owner.sheet
        version = sheet.version + 1
        if sheet.pauses and self.rng.random() < 0.6:
            self.ledger.note_unpaused()
            kept = tuple(each for each in sheet.pauses if self.rng.random() < 0.4)
            self.owner.pause(OperatorSheet(version, kept))
            return
        if self.rng.random() < 0.2:
            added = Pause(PauseScope.PARTITION, PARTITION)
        else:
            added = Pause(PauseScope.ORDERING, PARTITION, self.rng.choice(self.ids))
        self.owner.pause(sheet.with_pauses((added,)))

    def _move(self) -> None:
        """Give the partition up, or take it again."""
        rng = self.rng
        if self.owner.stand is Stand.AWAY:
            if rng.random() < 0.4:
                self._let_another_own()
            self.owner.gain()
        elif self.owner.revoked_at_ms is not None:
            if rng.random() < 0.1:
                self.owner.lose()
        elif rng.random() < 0.7:
            self.owner.revoke(rng.choice((5, 500, 3_600_000)))
        else:
            self.owner.lose()

    def _let_another_own(self) -> None:
        """Another member claims the partition, and is gone before it does anything."""
        claim = self.data.claims.get(PARTITION)
        if claim is not None:
            other = open_memory_stores(self.data).ownership
            other.claim(PARTITION, self.clock.now_ms()).result()

    # What stands in the log.

    def _append_several(self) -> None:
        for _ in range(self.rng.randrange(2, 7)):
            self._append()

    def _append(self) -> None:
        shape, rng = self.configuration, self.rng
        if shape.foul and rng.random() < shape.foul:
            self._append_foul()
        elif self.ledger.known_keys() and rng.random() < shape.commands:
            self.append_command(
                rng.choice(self.ledger.known_keys()), rng.choice(tuple(CommandKind))
            )
        else:
            self._append_task(late=rng.random() < shape.late)

    def _append_task(self, *, late: bool) -> None:
        rng, keys = self.rng, self.ledger.known_keys()
        if keys and not late and rng.random() < self.configuration.again:
            self.append_task(rng.choice(keys))
            return
        now_ms = self.clock.now_ms()
        due_ms = now_ms + rng.choice((0, 0, 1, 30, 100, 400, 1_500))
        if late:
            due_ms = now_ms - rng.choice((1, 250, 5_000, 4_000_000))
        self._numbers += 1
        self.append_task(TaskKey(due_ms, rng.choice(self.ids), str(self._numbers)))

    def append_task(self, key: TaskKey) -> None:
        """Append a record of a task."""
        data = {
            "tenant": self.rng.choice("abc"),
            "pad": "x" * self.configuration.pad_bytes,
            "offset": self._log_end,
        }
        self._append_value(key.ordering_id, encode_parts(key, data, self.kind_of(key)))

    def append_command(self, key: TaskKey, kind: CommandKind) -> None:
        """Append a record of a command."""
        to_ms = None
        if kind is CommandKind.RESCHEDULE:
            to_ms = self.clock.now_ms() + self.rng.choice((-50, 0, 100, 600))
        self._append_value(key.ordering_id, encode_command(Command(kind, key, to_ms=to_ms)))

    def _append_foul(self) -> None:
        if self.rng.random() < 0.5:
            self._append_value("nobody", b"{")
            return
        stranger = next(_ids_of(1 - PARTITION, 1))
        key = TaskKey(self.clock.now_ms(), stranger, str(self._log_end))
        self._append_value(stranger, encode_parts(key, {"offset": self._log_end}))

    @property
    def _log_end(self) -> int:
        return self.broker.partitions[PARTITION].end_offset

    def _append_value(self, ordering_id: str, value: bytes) -> None:
        log, now_ms = self.broker.partitions[PARTITION], self.clock.now_ms()
        offset = log.append(now_ms, ordering_id.encode(), value, ())
        record = LogRecord(PARTITION, offset, now_ms, ordering_id.encode(), value)
        entry = self.truth.entry(record)
        if not isinstance(entry, str):
            self.ledger.note_record(entry)

    # Peace: nothing fails any more, and everything goes on.

    def make_peace(self) -> None:
        """End what fails, and what pauses the whole partition."""
        self.deliveries.failing = 0.0
        self.drops_blocked = False
        kept = [each for each in self.owner.sheet.pauses if each.scope is PauseScope.ORDERING]
        self.ledger.note_unpaused()
        self.owner.pause(OperatorSheet(self.owner.sheet.version + 1, tuple(kept)))

    def _end_holds(self) -> None:
        """End all pauses, drop what holds its ordering id, and know all kinds."""
        self.drops_blocked = True
        self.ledger.note_unpaused()
        self.owner.pause(OperatorSheet(self.owner.sheet.version + 1))
        if UNKNOWN in self.configuration.kinds and not self.knows_all:
            # A node that knows them takes the partition over.
            self.knows_all = True
            if self.owner.stand is not Stand.AWAY:
                self.owner.lose()

    def settle(
        self,
        is_done: Callable[[], bool],
        *,
        slow: Callable[[HandRun], bool] = lambda _run: False,
        gains: bool = True,
        within_ms: float = SETTLE_MS,
    ) -> bool:
        """Let everything go on, but for attempts that are ``slow``, until it is done.

        Return whether it was in time.
        """
        end_ms = self.clock.monotonic_ms() + within_ms
        while self.clock.monotonic_ms() < end_ms:
            if self._go_on(slow, gains=gains):
                continue
            if is_done():
                return True
            timer_ms = self.system.next_timer_ms()
            now_ms = self.clock.monotonic_ms()
            self.clock.advance(
                20.0 if timer_ms is None else min(500.0, max(0.0, timer_ms - now_ms))
            )
            if timer_ms is None or timer_ms > now_ms:
                self._after_a_while()
        return False

    def _go_on(self, slow: Callable[[HandRun], bool], *, gains: bool) -> bool:
        """Do all that can be done now; return whether there was anything."""
        moved = False
        if gains and self.owner.stand is Stand.AWAY:
            self.owner.gain()
        self.owner.advance()
        if self.owner.position < self._log_end:
            before_offset = self.owner.position
            self.owner.poll(50)
            moved = self.owner.position > before_offset
        while self.system.run_one():
            moved = True
        self.ledger.note_quiet()
        while self.deliveries:
            self.deliveries.serve_one()
            moved = True
        for run in self.runner.can_begin:
            before = run.step
            self.runner.begin(run)
            moved = moved or run.step is not before
        for run in self.runner.can_end:
            if run.step is Step.RUNNING and not slow(run):
                self.runner.end(run, lambda: Ending.DONE)
                moved = True
        return moved

    def _after_a_while(self) -> None:
        """An operator drops what holds its ordering id, which nobody else does."""
        if self.drops_blocked:
            for key in sorted(filter(self.ledger.is_open, self.exhausted)):
                self.append_command(key, CommandKind.DROP)
            self.exhausted.clear()

    def unfinished(self, without: frozenset[str] = frozenset()) -> list[str]:
        """Return what is not done, but for some ordering ids."""
        found = [
            f"{key} is open" for key in self.ledger.open_keys() if key.ordering_id not in without
        ]
        if not self.owner.is_answered:
            found.append(f"only records before {self.owner.next_offset} are durable")
        return found

    def finish(self) -> None:
        """Let nothing disturb the subtree any more, until all is done, and give all back."""
        self.make_peace()
        self._isolate()
        self._end_holds()
        if not self.settle(lambda: not self.unfinished()):
            self.complaints += [f"P8: at the end {each}" for each in self.unfinished()]
            return
        if not self.settle(lambda: not self.held_bytes, within_ms=5_000):
            self.complaints.append(f"P13: {self.held_bytes} bytes are held when all is done")
        self._probe_slots()
        self.owner.revoke(3_600_000)
        self.settle(lambda: self.owner.stand is Stand.AWAY, gains=False)
        if self.owner.stand is not Stand.AWAY:
            self.complaints.append("P14: nothing runs, and a drain does not end")

    def _isolate(self) -> None:
        """Let some attempts last, and what holds its ordering id hold it: all others go on, and
        what is behind those leaves memory.
        """
        sick = self._choose_sick()
        self.settle(
            lambda: not self._delayed(sick),
            slow=lambda run: run in sick,
            within_ms=ISOLATION_MS,
        )
        self.complaints += [f"P7: {key} waits for others" for key in self._delayed(sick)]
        calm_ms = self.clock.monotonic_ms() + 3 * self.settings.tree.window.slow_attempt_ms
        self.settle(lambda: self.clock.monotonic_ms() >= calm_ms, slow=lambda run: run in sick)
        behind = self._behind(sick)
        self.complaints += [f"P7: {key} is in memory, behind another" for key in behind]

    def _choose_sick(self) -> list[HandRun]:
        """Choose attempts that run: fewer than there are slots for, with what holds its id."""
        kinds, sick = self.configuration.kinds, list[HandRun]()
        holders = self.configuration.ids if {BLOCKING, UNKNOWN} & set(kinds) else 0
        most = 1 if self.configuration.flows else self.settings.tree.window.slots - 1 - holders
        for run in self.rng.sample(self.runner.can_end, len(self.runner.can_end)):
            batch = self.runner.batch_of(run)
            if len(sick) + len(batch) <= most:
                sick += batch
        return sick

    def _delayed(self, sick: list[HandRun]) -> list[TaskKey]:
        """Return what is open, due, and waits for nothing that it has to wait for."""
        held = self._held_ids(sick)
        now_ms = self.clock.now_ms()
        return [
            key
            for key in self.ledger.open_keys()
            if key.scheduled_ms <= now_ms and not self._is_behind(key, held, sick)
        ]

    def _behind(self, sick: list[HandRun]) -> list[TaskKey]:
        held = self._held_ids(sick)
        due_ms = self.clock.now_ms() - self.settings.tree.window.slow_attempt_ms
        found = [
            key
            for key in self.remembered()
            if key.scheduled_ms < due_ms and self._is_behind(key, held, sick)
        ]
        # What no executor is known for is at hand, though no attempt of it was asked for.
        first = {key.ordering_id: key for key in reversed(found) if self.kind_of(key) == UNKNOWN}
        return [key for key in found if first.get(key.ordering_id) != key]

    def _held_ids(self, sick: list[HandRun]) -> set[str]:
        """Return the ordering ids whose tasks with an order wait."""
        held = {run.key.ordering_id for run in sick if not run.attempt.is_unordered}
        held |= {key.ordering_id for key in self.exhausted if self.ledger.is_open(key)}
        held |= {each.ordering_id for each in self.owner.sheet.pauses}
        if not self.knows_all:
            unknown = (key for key in self.ledger.open_keys() if self.kind_of(key) == UNKNOWN)
            held |= {key.ordering_id for key in unknown}
        return held

    def _is_behind(self, key: TaskKey, held: set[str], sick: list[HandRun]) -> bool:
        kind = self.kind_of(key)
        if self.owner.is_paused(key.ordering_id):
            return True
        if kind not in PLACES:
            return key.ordering_id in held
        alike = [
            run
            for run in sick
            if run.key.ordering_id == key.ordering_id and run.attempt.task.kind == kind
        ]
        return key in {run.key for run in sick} or len(alike) == PLACES[kind]

    def kind_of(self, key: TaskKey) -> str | None:
        """Return the kind of a task: its key says."""
        kinds = self.configuration.kinds
        return kinds[zlib.crc32(key.uniqueness_key.encode()) % len(kinds)]

    def _probe_slots(self) -> None:
        """Let more ids have a due task than there are slots: each slot is there, once."""
        slots = self.settings.tree.window.slots
        fresh = list(_ids_of(PARTITION, self.configuration.ids + slots + 3))
        for ordering_id in fresh[self.configuration.ids :]:
            key = TaskKey(self.clock.now_ms(), ordering_id, "probe")
            # Of many flows: one alone does not get all.
            kind, data = (TENANT if self.configuration.flows else PLAIN), {"tenant": ordering_id}
            self._append_value(ordering_id, encode_parts(key, data, kind))
        until_ms = self.clock.monotonic_ms() + 300
        self.settle(lambda: self.clock.monotonic_ms() >= until_ms, slow=lambda _run: True)
        if len(self.runner.unended) != slots:
            taken = f"{len(self.runner.unended)} tasks run where there are {slots} slots"
            self.complaints.append(f"P13: {taken}")
        self.settle(lambda: not self.unfinished())

    # What is in memory.

    @property
    def held_bytes(self) -> int:
        """What the node counts as held in windows and queues."""
        return self.effects.memory.held_bytes

    def remembered(self) -> Iterator[TaskKey]:
        """Yield open keys, of which no attempt was ever asked for, whose row somebody holds.

        Nothing may be under way: each row is in the store, and whoever refers to it besides, or to
        its data, is the subtree.
        """
        asked = {fact.run.key for fact in self.ledger.asked}
        found = [self.truth.row(PARTITION, key) for key in self.ledger.known_keys()]
        found += [fact.run.attempt.task for fact in self.ledger.asked]
        # What was moved has the data of the row that it was.
        rows = {id(row): row for row in found if row is not None}
        alike = Counter(id(row.data) for row in rows.values())
        found.clear()
        rows.clear()
        held = [
            key for key in self.ledger.open_keys() if key not in asked and self._is_held(key, alike)
        ]
        if held:
            # What is forgotten in a circle may still be there.
            gc.collect()
        yield from (key for key in held if self._is_held(key, alike))

    def _is_held(self, key: TaskKey, alike: Counter[int]) -> bool:
        row = self.truth.row(PARTITION, key)
        assert isinstance(row, StoredTask), "an open key has a row"
        # The store's cell and two names here; rows, and a name.
        rows = alike[id(row.data)]
        return sys.getrefcount(row) > 3 or sys.getrefcount(row.data) > rows + 1


def _ids_of(partition: int, count: int) -> Iterator[str]:
    """Yield ordering ids of one partition."""
    number = found = 0
    while found < count:
        ordering_id = f"id-{number}"
        number += 1
        if partition_of(ordering_id, PARTITIONS) == partition:
            found += 1
            yield ordering_id
