"""The application: it places orders and cancels some, each in a transaction of its own.

Within the transaction it writes the order, the order's task, and a line of a journal.  The journal
is what the database itself says was committed, and in which order.
"""

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import psycopg

from examples.demo_fleet.executor import KIND, SECRET, payloads, secret_of
from hourhand import Task, TaskKey, outbox

Fate = Literal["kept", "rolled back", "cancelled", "cancellation rolled back"]
CUSTOMERS = 30
WORK_MS = 40
WRITERS = 3
_CANCELLED_AFTER = 4
"""Transactions of a writer between an order and its cancellation."""
_FATES: Sequence[Fate] = ("kept", "rolled back", "cancelled", "cancellation rolled back")
_SHARES = (60, 20, 15, 5)
_TABLES = """
CREATE TABLE orders (number integer PRIMARY KEY, customer text NOT NULL);
CREATE TABLE journal (place bigserial PRIMARY KEY, entry text NOT NULL, task_id text NOT NULL);
"""


class CardRefused(Exception):
    """The reason for which the application rolls a transaction back."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order, and what is to become of it."""

    number: int
    customer: str
    due: datetime
    """Due time of its task."""
    fate: Fate

    @property
    def task_id(self) -> str:
        """The uniqueness key of its task."""
        return f"order-{self.number:05}"

    def task(self) -> Task:
        """Return its task."""
        return Task(
            ordering_id=self.customer,
            scheduled_time=self.due,
            uniqueness_key=self.task_id,
            data={"work_ms": WORK_MS, "card": secret_of(self.task_id)},
            kind=KIND,
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """The request of one committed transaction."""

    task_id: str
    is_cancellation: bool


def make_orders(count: int, first_due: datetime, spread_s: float) -> list[Order]:
    """Return orders of all fates, due one after another within so many seconds."""
    chance = random.Random(count)  # noqa: S311 - the same orders each time
    return [
        Order(
            number,
            f"customer-{chance.randrange(CUSTOMERS):02}",
            _whole_millis(first_due + timedelta(seconds=spread_s * number / count)),
            chance.choices(_FATES, _SHARES)[0],
        )
        for number in range(count)
    ]


def _whole_millis(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


class Shop:
    """The application, on a database of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._payloads = payloads()
        self.placed = 0
        """Transactions that have ended, about."""
        with closing(self._connect()) as connection, connection:
            connection.execute(_TABLES)
            for statement in outbox.migration_statements("postgresql"):
                connection.execute(statement)

    def write(self, orders: Sequence[Order], pause_s: float) -> Callable[[], None]:
        """Begin to place orders from several threads; return what waits for their end and raises
        what went wrong.
        """
        failures: list[BaseException] = []

        def run(share: Sequence[Order]) -> None:
            try:
                self._write_share(share, pause_s)
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                failures.append(error)

        threads = [
            threading.Thread(target=run, args=(orders[writer::WRITERS],))
            for writer in range(WRITERS)
        ]
        for thread in threads:
            thread.start()

        def wait() -> None:
            for thread in threads:
                thread.join()
            if failures:
                raise failures[0]

        return wait

    def waiting(self) -> int:
        """Return how many rows of the outbox wait for the mover."""
        return int(self._ask("SELECT count(*) FROM hourhand_outbox")[0][0])

    def readable(self) -> int:
        """Return how many rows of the outbox show what is secret."""
        query = "SELECT count(*) FROM hourhand_outbox WHERE position('{}'::bytea IN record) > 0"
        return int(self._ask(query.format(SECRET))[0][0])

    def journal(self) -> list[Entry]:
        """Return what was committed, for each customer in the order of the commits."""
        found = self._ask("SELECT task_id, entry FROM journal ORDER BY place")
        return [Entry(task_id, entry == "cancelled") for task_id, entry in found]

    def order_numbers(self) -> set[int]:
        """Return the orders that the database has."""
        return {number for (number,) in self._ask("SELECT number FROM orders")}

    def _write_share(self, orders: Sequence[Order], pause_s: float) -> None:
        moment = threading.Event()
        with closing(self._connect()) as connection:
            for place, order in enumerate(orders):
                self._place(connection, order)
                if place >= _CANCELLED_AFTER:
                    self._cancel(connection, orders[place - _CANCELLED_AFTER])
                self.placed += 1
                moment.wait(pause_s)
            for order in orders[-_CANCELLED_AFTER:]:
                self._cancel(connection, order)

    def _place(self, connection: Any, order: Order) -> None:
        try:
            with connection.transaction():
                connection.execute(
                    "INSERT INTO orders VALUES (%s, %s)", (order.number, order.customer)
                )
                outbox.schedule(connection, self._payloads.sealed(order.task()))
                self._note(connection, "placed", order)
                if order.fate == "rolled back":
                    raise CardRefused
        except CardRefused:
            pass

    def _cancel(self, connection: Any, order: Order) -> None:
        if order.fate not in {"cancelled", "cancellation rolled back"}:
            return
        try:
            with connection.transaction():
                key: TaskKey = order.task().key
                outbox.cancel(connection, key)
                self._note(connection, "cancelled", order)
                if order.fate == "cancellation rolled back":
                    raise CardRefused
        except CardRefused:
            pass

    def _note(self, connection: Any, entry: str, order: Order) -> None:
        # Behind the outbox's row, and so within its lock: places are in the order of the commits.
        connection.execute(
            "INSERT INTO journal (entry, task_id) VALUES (%s, %s)", (entry, order.task_id)
        )

    def _ask(self, query: str) -> list[tuple[Any, ...]]:
        with closing(self._connect()) as connection:
            return list(connection.execute(query.encode()).fetchall())

    def _connect(self) -> "psycopg.Connection[Any]":
        return psycopg.connect(self.url, autocommit=True)
