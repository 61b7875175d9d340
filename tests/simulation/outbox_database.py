"""A user's database with an outbox, in virtual time: transactions, locks, lanes and claims.

It behaves as PostgreSQL does: what is not committed is seen by nobody, a lock lasts as long as its
transaction, and a claim as long as its connection.  What stands in a row is the real code's matter.
"""

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple, Protocol

from hourhand.actors.model.values.errors import OutboxUnavailable
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.outbox.ports import ClaimedRows, OutboxLag, OutboxRow
from hourhand.scheduler.outbox.table import LANES
from tests.simulation.network import SLOW_ANSWER_MS

LANES_CLAIMED_MAX = 8
CLAIM_MS = 3_000.0
"""Time for sending the rows of a claim; a tenth of the real one."""
_MARGIN_MS = 1_500.0


class _Stored(NamedTuple):
    lane: int
    key_hash: int
    row: OutboxRow


class Transaction:
    """A transaction of the application, handed to the outbox as a connection of psycopg."""

    def __init__(self, database: "OutboxDatabase") -> None:
        self._database = database
        self.rows: list[_Stored] = []
        """In the order in which they were written."""
        self.locks: set[int] = set()

    def execute(self, _statement: str, values: tuple[int, int, int, bytes, int]) -> None:
        """Write a row: its lock is taken before it gets its number."""
        lock, lane, key_hash, record, written_ms = values
        self._database.lock(self, lock)
        number = next(self._database.numbers)
        self.rows.append(_Stored(lane, key_hash, OutboxRow(number, record, written_ms)))

    def commit(self) -> None:
        """Let everybody see the rows."""
        self._database.commit(self)

    def rollback(self) -> None:
        """Leave nothing."""
        self._database.end(self)


# The real code tells connections apart by where their class comes from.
Transaction.__module__ = "psycopg.simulated"


class OutboxDatabase:
    """Committed rows, and who holds which lock and lane."""

    def __init__(self) -> None:
        self.numbers = count(1)
        self.rows: dict[int, _Stored] = {}
        self.open = 0
        """Transactions that have not ended."""
        self.is_away = False
        self._locks: dict[int, Transaction] = {}
        self._claims: dict[object, set[int]] = {}

    def begin(self) -> Transaction:
        """Begin a transaction of the application."""
        self.open += 1
        return Transaction(self)

    def is_locked(self, lock: int) -> bool:
        """True if a transaction would have to wait for another one."""
        return lock in self._locks

    def lock(self, transaction: Transaction, lock: int) -> None:
        """Take a lock that nobody else holds."""
        assert self._locks.get(lock, transaction) is transaction, "the application waits for locks"
        self._locks[lock] = transaction
        transaction.locks.add(lock)

    def commit(self, transaction: Transaction) -> None:
        """Show the rows of a transaction, and end it."""
        self.rows.update((stored.row.number, stored) for stored in transaction.rows)
        self.end(transaction)

    def end(self, transaction: Transaction) -> None:
        """Let go of a transaction's locks."""
        self.open -= 1
        for lock in transaction.locks:
            del self._locks[lock]

    def claim(self, claim: object, first_lane: int, passed_over: Collection[int]) -> set[int]:
        """Give a claim some lanes that have rows and belong to no other."""
        taken = set().union(*self._claims.values())
        rows = (stored for number, stored in self.rows.items() if number not in passed_over)
        waiting = {stored.lane for stored in rows} - taken
        lanes = sorted(waiting, key=lambda lane: (lane - first_lane) % LANES)
        self._claims[claim] = set(lanes[:LANES_CLAIMED_MAX])
        return self._claims[claim]

    def read(
        self, lanes: set[int], rows_max: int, passed_over: Collection[int]
    ) -> tuple[list[OutboxRow], list[OutboxRow]]:
        """Return the oldest rows of some lanes, and the newest of their keys behind them."""
        found = [
            stored
            for number, stored in sorted(self.rows.items())
            if stored.lane in lanes and number not in passed_over
        ]
        hashes = {stored.key_hash for stored in found[:rows_max]}
        newest = {stored.key_hash: stored.row for stored in found[rows_max:]}
        return (
            [stored.row for stored in found[:rows_max]],
            [row for key_hash, row in newest.items() if key_hash in hashes],
        )

    def has(self, claim: object) -> bool:
        """True if a claim's transaction is still open."""
        return claim in self._claims

    def let_go(self, claim: object) -> None:
        """End a claim's transaction; what it deleted, and did not commit, is there."""
        self._claims.pop(claim, None)


class Process(Protocol):
    """The process of a mover, as far as its table needs it."""

    alive: bool

    def sleep(self, duration_ms: float) -> None:
        """Let time pass; the process may be stopped or killed meanwhile."""

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Do something later, whatever becomes of the process."""


class SimulatedTable:
    """``OutboxTable`` of one mover."""

    def __init__(
        self, database: OutboxDatabase, process: Process, clock: Clock, rng: random.Random
    ) -> None:
        self._database = database
        self._process = process
        self._clock = clock
        self._rng = rng

    @contextmanager
    def claim(self, rows_max: int, passed_over: Collection[int] = ()) -> Iterator[ClaimedRows]:
        """Claim rows of some lanes, and commit what was deleted."""
        claim = object()
        until_ms = self._clock.monotonic_ms() + CLAIM_MS
        self._request()
        lanes = self._database.claim(claim, self._rng.randrange(LANES), passed_over)
        rows, newest = self._database.read(lanes, rows_max, passed_over)
        # Longer than any record of the claim may still be on its way.
        idle_ms = CLAIM_MS + SLOW_ANSWER_MS + _MARGIN_MS
        self._process.after(idle_ms, lambda: self._database.let_go(claim))
        deleted: list[int] = []
        try:
            yield ClaimedRows(rows, newest, deleted.extend, until_ms)
            self._commit(claim, deleted)
        finally:
            if self._process.alive:
                self._database.let_go(claim)
            else:
                # The database learns of a death as late as the network tells.
                delay_ms = self._rng.choice((0.0, self._rng.uniform(0.0, 2_000.0)))
                self._process.after(delay_ms, lambda: self._database.let_go(claim))

    def lag(self) -> OutboxLag:
        """Return what waits."""
        rows = [stored.row.written_ms for stored in self._database.rows.values()]
        return OutboxLag(len(rows), min(rows, default=None))

    def wait(self, timeout_ms: int) -> None:
        """Wait for up to this time, as a notification may come."""
        self._process.sleep(self._rng.uniform(1.0, timeout_ms))

    def wake(self) -> None:
        """Nobody stops a mover here but by killing it."""

    def close(self) -> None:
        """A claim ends with its process."""

    def _commit(self, claim: object, deleted: Sequence[int]) -> None:
        self._request()
        if not self._database.has(claim):
            raise OutboxUnavailable("the simulated database has ended this transaction")
        for number in deleted:
            self._database.rows.pop(number, None)
        self._database.let_go(claim)
        self._request()

    def _request(self) -> None:
        self._process.sleep(self._rng.uniform(0.1, 4.0))
        if self._database.is_away:
            raise OutboxUnavailable("the simulated database does not answer")
