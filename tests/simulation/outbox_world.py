"""The outbox of a simulated installation: an application that commits and rolls back, and movers.

The movers are the real ones, each a process of its own that may be stopped or killed wherever it
waits.  What was committed is noted as the application meant it.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from itertools import count
from typing import Any, Protocol

from greenlet import getcurrent, greenlet

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.ports.log import Position
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.delivery import Deliver, Request
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.outbox.mover import Mover
from hourhand.scheduler.outbox.scheduling import Outbox
from hourhand.scheduler.outbox.table import LANES, lock_of
from hourhand.scheduler.runtime.future_group import FutureGroup
from tests.simulation.history import TransactionEnded, Written
from tests.simulation.network import Network
from tests.simulation.outbox_database import OutboxDatabase, SimulatedTable, Transaction
from tests.simulation.scenario import OutboxLoad, Scenario
from tests.simulation.task_maker import TaskMaker
from tests.simulation.watched import NodeClock

APPLICATION = "o"
"""First letter of ordering ids whose tasks are scheduled through the outbox alone."""
_LOOK_MS = 2.0
"""Pause between two looks of a mover that waits for the log, as a real one is told."""


class MoverKilled(BaseException):
    """The process of a mover was killed."""


class WorldWithOutbox(Protocol):
    """The world as the outbox sees it."""

    scenario: Scenario
    settings: Settings
    clock: VirtualClock
    broker: MemoryBroker
    network: Network
    pace: float

    def now_ms(self) -> float:
        """Return the virtual time passed."""

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Do something later."""

    def note_transaction(self, entry: TransactionEnded) -> None:
        """Keep what became of a transaction."""


class MoverProcess:
    """A mover between its start and its end."""

    def __init__(
        self, world: WorldWithOutbox, database: OutboxDatabase, rng: random.Random
    ) -> None:
        self.alive = True
        self.paused_until_ms = 0.0
        self.pause_among_appends_ms = 0.0
        """For how long it will stand still between two appends of a claim."""
        self.kill_in: int | None = None
        """Number of steps of this process before it dies."""
        self._world = world
        self._rng = rng
        self._sent_until_ms = float("inf")
        skew_ms = world.scenario.skew_ms
        clock = NodeClock(world.clock, rng.randint(-skew_ms, skew_ms))
        self.mover = Mover(
            SimulatedTable(database, self, clock, rng),
            _Writer(world.broker, self._deliver, self),
            clock,
            rows_max=rng.choice((1, 2, 5, 100)),
            poll_ms=500,
            # That would be a real wait.
            letter_patience_ms=0,
        )
        self._greenlet = greenlet(self._run)
        world.after(0.0, self._go_on)

    def sleep(self, duration_ms: float) -> None:
        """Let time pass."""
        if self.alive:
            self._world.after(duration_ms, self._go_on)
            self._greenlet.parent.switch()

    def hesitate(self) -> None:
        """Take a moment now and then where a real process may be stopped at any time."""
        if self.pause_among_appends_ms and self._rng.random() < 0.5:
            duration_ms, self.pause_among_appends_ms = self.pause_among_appends_ms, 0.0
            self.paused_until_ms = self._world.now_ms() + duration_ms
            self.sleep(duration_ms)
        elif self._rng.random() < 0.2:
            self.sleep(self._rng.uniform(0.1, 5.0))

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Do something later, whatever becomes of the process."""
        self._world.after(delay_ms, action)

    def kill(self) -> None:
        """End the process; of what it sent, the log hears up to a moment."""
        if not self.alive:
            return
        self.alive = False
        heard_ms = self._rng.choice((0.0, self._rng.uniform(0.0, 1_000.0), float("inf")))
        self._sent_until_ms = self._world.now_ms() + heard_ms
        if self._greenlet:
            self._greenlet.parent = getcurrent()
            self._greenlet.throw(MoverKilled)

    def _run(self) -> None:
        try:
            while True:
                self._round()
        except MoverKilled:
            pass

    def _round(self) -> None:
        try:
            self.mover.run_round()
        except HourhandError:
            self.sleep(self._rng.uniform(50.0, 500.0))

    def _go_on(self) -> None:
        if not self.alive:
            return
        now_ms = self._world.now_ms()
        if now_ms < self.paused_until_ms:
            self._world.after(self.paused_until_ms - now_ms, self._go_on)
            return
        if self.kill_in is not None:
            self.kill_in -= 1
            if self.kill_in < 0:
                self.kill()
                return
        self._greenlet.parent = getcurrent()
        self._greenlet.switch()

    def _deliver(self, request: Request[Any]) -> None:
        # A connection brings what was sent in its order, up to where it broke.
        effect = request._effect

        def heard() -> Any:
            if self._world.now_ms() > self._sent_until_ms:
                return None
            return effect()

        request._effect = heard
        self._world.network.to_log(request)


class _Writer(MemoryWriter):
    """Waits in virtual time for what the log answers."""

    def __init__(self, broker: MemoryBroker, deliver: Deliver, process: MoverProcess) -> None:
        super().__init__(broker, deliver)
        self._process = process

    def begin_group(self) -> "_Group":
        return _Group(self.append, self.partition_count(), self._process)


class _Group(FutureGroup):
    def __init__(
        self,
        append: Callable[[int, bytes, bytes], "Future[Position]"],
        partition_count: int,
        process: MoverProcess,
    ) -> None:
        super().__init__(append, partition_count)
        self._process = process

    def append(self, ordering_id: str, value: bytes) -> None:
        super().append(ordering_id, value)
        self._process.hesitate()

    def settle(self) -> Mapping[int, HourhandError]:
        while not all(future.done() for future in self._futures):
            self._process.sleep(_LOOK_MS)
        return super().settle()


class WorldOutbox:
    """Database, application and movers of one world."""

    def __init__(
        self, world: WorldWithOutbox, load: OutboxLoad, fork: Callable[[], random.Random]
    ) -> None:
        self.database = OutboxDatabase()
        self.movers: list[MoverProcess] = []
        self._world = world
        self._load = load
        self._fork = fork
        self._rng = fork()
        clock = NodeClock(world.clock, self._rng.randint(-1_000, 1_000))
        self._outbox = Outbox(world.settings, clock)
        self._maker = TaskMaker(
            world.scenario.workload,
            clock=clock,
            grace_ms=world.settings.client.grace_ms,
            pace=world.pace,
            rng=fork(),
        )
        self._names = count(1)
        self._scheduled: list[TaskKey] = []
        """Keys that were committed, and not cancelled since."""
        self._until_ms = 0.0
        self.foreign: list[bytes] = []
        """Rows of the outbox that another program committed."""

    def begin(self, until_ms: float) -> None:
        """Start movers, and transactions until a time."""
        self._until_ms = until_ms
        for _ in range(self._load.movers):
            self.start_mover()
        self._plan()

    def start_mover(self) -> None:
        """Start a process that moves rows."""
        self.movers = [each for each in self.movers if each.alive]
        self.movers.append(MoverProcess(self._world, self.database, self._fork()))

    def kill(self, mover: MoverProcess, restart_ms: float) -> None:
        """Kill a mover soon, wherever it is then, and start another one later."""
        mover.kill_in = self._rng.randrange(12)
        self._world.after(restart_ms, self.start_mover)

    def make_peace(self) -> None:
        """End every fault."""
        self.database.is_away = False
        for mover in self.movers:
            mover.paused_until_ms = mover.pause_among_appends_ms = 0.0
            mover.kill_in = None
        if not any(mover.alive for mover in self.movers):
            self.start_mover()

    def is_moved(self) -> bool:
        """True if no row waits and no transaction is open."""
        return not self.database.rows and not self.database.open

    def end(self) -> None:
        """End all movers."""
        for mover in self.movers:
            mover.kill()

    def _plan(self) -> None:
        delay_ms = self._rng.expovariate(self._load.transactions_per_s / 1000.0)
        if self._world.now_ms() + delay_ms < self._until_ms:
            self._world.after(delay_ms, self._begin_next)

    def _begin_next(self) -> None:
        self._plan()
        if self._load.foreign and self._rng.random() < self._load.foreign:
            self._write_foreign()
            return
        ids = self._rng.sample(range(self._load.ordering_ids), self._rng.choice((1, 1, 1, 2)))
        self._transact([f"{APPLICATION}{each}" for each in ids])

    def _transact(self, ids: list[str]) -> None:
        """Write for some ids, where no other transaction does; commit or roll back later."""
        if any(self.database.is_locked(lock_of(each)) for each in ids):
            self._world.after(20.0, lambda: self._transact(ids))
            return
        transaction = self.database.begin()
        written: list[Written] = []
        for _ in range(self._rng.randrange(1, 5)):
            written.append(self._write(transaction, self._rng.choice(ids), written))
        delay_ms = self._rng.choice((0.0, self._rng.uniform(0.0, 1_500.0)))
        self._world.after(delay_ms, lambda: self._finish(transaction, written))

    def _write_foreign(self) -> None:
        """Commit rows that cannot be records, as many as a claim may hold and more."""
        transaction = self.database.begin()
        for _ in range(self._rng.choice((1, 3, 8))):
            number = len(self.foreign)
            lane = self._rng.randrange(LANES)
            record = b'{"orderingId":%d}' % number if number % 2 else b"not a record %d" % number
            transaction.execute("", (-1, lane, number, record, self._maker.clock.now_ms()))
            self.foreign.append(record)
        transaction.commit()

    def _write(
        self, transaction: Transaction, ordering_id: str, before: Sequence[Written]
    ) -> Written:
        rng = self._rng
        # A key is cancelled once at most, so the log's cancellation is that one.
        cancelled = {each.key for each in before if each.number is None}
        known = [
            key
            for key in (*self._scheduled, *(each.key for each in before))
            if key.ordering_id == ordering_id and key not in cancelled
        ]
        lot = rng.random()
        if known and lot < self._load.cancelled:
            key = rng.choice(known)
            self._outbox.cancel(transaction, key)
            return Written(key, None)
        if known and lot < self._load.cancelled + self._load.replaced:
            key = rng.choice(known)
        else:
            key = TaskKey(self._due_ms(), ordering_id, f"x{next(self._names)}")
        data = self._maker.plan([f"ok:{rng.randrange(30)}"], blocking=rng.random() < 0.5)
        if key.scheduled_ms <= self._maker.clock.now_ms():
            key = TaskKey(self._due_ms(), ordering_id, f"x{next(self._names)}")
        self._outbox.schedule(transaction, self._maker.task(key, data))
        number = data["n"]
        assert isinstance(number, int), "the maker numbers plans"
        return Written(key, number)

    def _due_ms(self) -> int:
        return self._maker.clock.now_ms() + self._rng.randrange(1, self._load.ahead_ms)

    def _finish(self, transaction: Transaction, written: list[Written]) -> None:
        committed = self._rng.random() >= self._load.rolled_back
        if committed:
            transaction.commit()
            for each in written:
                if each.number is None:
                    self._scheduled = [key for key in self._scheduled if key != each.key]
                elif each.key not in self._scheduled:
                    self._scheduled.append(each.key)
        else:
            transaction.rollback()
        entry = TransactionEnded(self._world.now_ms(), committed, tuple(written))
        self._world.note_transaction(entry)


def open_outbox(
    world: WorldWithOutbox, load: OutboxLoad | None, fork: Callable[[], random.Random]
) -> WorldOutbox | None:
    """Return the outbox of a world whose scenario has one."""
    return None if load is None else WorldOutbox(world, load, fork)
