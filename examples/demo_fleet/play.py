"""The play: transactions, kills of the mover and of a node process, and the evidence.

It judges nothing; ``judge`` does.
"""

import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from examples.demo_cluster.executor import now_us
from examples.demo_fleet.executor import KEYS_VARIABLE, SECRET
from examples.demo_fleet.shop import WRITERS, Entry, Order, Shop, make_orders
from examples.demo_stage.installation import open_cassandra
from examples.demo_stage.stage import READY_S, Stage
from examples.demo_stage.topic import Found, read_all
from hourhand import Settings
from hourhand.scheduler.demo.audit import Run
from hourhand.scheduler.demo.node import NodeFailed, NodeProcess
from hourhand.scheduler.demo.records import FOLDER_VARIABLE, RecordReader

PROCESSES = 2
KILLS = 2
"""Kills of the mover."""
_ORDERS_PER_S = 60
_LEAD_S = 14
"""From the last transaction to the first task: all is moved well before."""
_LEAD_OF_STARTS = 5
"""Or as many times what the start of a mover takes, where the machine is busy."""
_ROWS_AT_RESTART = 20
"""A mover is started again when so many rows wait for it."""
_SPREAD_S = 12
_KILL_AFTER_S = 4
"""From the first task's time to the kill of a node process."""
_STILL_S_MAX = 40
"""Nothing ends for so long where something is lost."""
_QUIET_S = 3
_EXECUTOR = "examples.demo_fleet.nodes:APP"
_RESTARTS = "it is started again"
_WORKS = re.compile(r"\[(\d)\] hourhand\.node works on")
"""Line of a node process that has partitions, with its number."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that the checks look at."""

    orders: Sequence[Order]
    committed_orders: set[int]
    """Orders with a row in the database."""
    journal: Sequence[Entry]
    waiting_at_restarts: Sequence[int]
    """Rows of the outbox when a killed mover was started again."""
    rows_left: int
    runs: Sequence[Run]
    killed: Mapping[int, int]
    """Pid to the moment it was known to be gone."""
    records: Sequence[Found]
    dead_letters: Sequence[Found]
    restarted: bool
    """True if the supervisor has said that the killed process is started again."""
    stop_codes: Sequence[int]
    readable_rows: int
    """Rows of the outbox that showed secret data while they waited."""
    readable_store: int
    """Values in Cassandra that show it."""


class Play:
    """One run, in the order of its methods."""

    def __init__(self, stage: Stage, settings: Settings, shop: Shop) -> None:
        self._stage, self._settings, self._shop = stage, settings, shop
        self._records = stage.folder / "records"
        self._records.mkdir()
        self._reader = RecordReader(self._records)

    def run(self, count: int) -> Evidence:
        """Let everything happen; no process is left running."""
        fleet = self._start_nodes()
        mover, start_s = self._start_first_mover()
        orders = self._plan(count, start_s)
        waiting, readable = self._write(orders, mover)
        self._await_moved(orders[0].due)
        killed = self._kill_a_process(orders)
        self._await_all(orders, fleet)
        restarted = _RESTARTS in fleet.output
        stop_codes = self._stage.stop_all()
        self._reader.read()
        topic, shop = self._settings.topic, self._shop
        return Evidence(
            orders=orders,
            committed_orders=shop.order_numbers(),
            journal=shop.journal(),
            waiting_at_restarts=waiting,
            rows_left=shop.waiting(),
            runs=self._reader.runs,
            killed=killed,
            records=read_all(self._settings, topic.name),
            dead_letters=read_all(self._settings, topic.dead_letter),
            restarted=restarted,
            stop_codes=stop_codes,
            readable_rows=readable,
            readable_store=_readable_values(self._settings),
        )

    def _start_nodes(self) -> NodeProcess:
        command = ("run", "--processes", str(PROCESSES), "--executor", _EXECUTOR)
        variables = {
            FOLDER_VARIABLE: str(self._records),
            KEYS_VARIABLE: os.environ[KEYS_VARIABLE],
        }
        fleet = self._stage.begin(command, variables)
        self._await(lambda: len(set(_WORKS.findall(fleet.output))) == PROCESSES, "start")
        self._stage.say(f"hourhand run --processes {PROCESSES}: both nodes run")
        return fleet

    def _start_mover(self) -> NodeProcess:
        command = ("outbox", "--url", self._shop.url)
        return self._stage.begin(command, ready_line="the mover of the outbox runs")

    def _start_first_mover(self) -> tuple[NodeProcess, float]:
        """Start a mover; return it, and how many seconds that takes on this machine."""
        began_us = now_us()
        mover = self._start_mover()
        self._await(lambda: mover.says_ready, "start")
        return mover, (now_us() - began_us) / 1_000_000

    def _plan(self, count: int, start_s: float) -> list[Order]:
        lead_s = max(_LEAD_S, _LEAD_OF_STARTS * start_s)
        first_due = datetime.now(UTC) + timedelta(seconds=count / _ORDERS_PER_S + lead_s)
        return make_orders(count, first_due, _SPREAD_S)

    def _write(self, orders: Sequence[Order], mover: NodeProcess) -> tuple[list[int], int]:
        """Place all orders, and kill the mover meanwhile; return what waited at each restart, and
        how many of these rows anybody can read.
        """
        shop = self._shop
        wait = shop.write(orders, WRITERS / _ORDERS_PER_S)
        waiting, readable = [], 0
        for kill in range(1, KILLS + 1):
            self._await_placed(len(orders) * kill // (KILLS + 2))
            self._stage.kill(mover)
            self._await(lambda: shop.waiting() >= _ROWS_AT_RESTART, "place more orders")
            waiting.append(shop.waiting())
            readable += shop.readable()
            killed, mover = mover, self._start_mover()
            self._stage.say(
                f"mover {killed.pid} killed; another started when {waiting[-1]} rows waited"
            )
        wait()
        self._stage.say(f"the application placed {len(orders):,} orders in its own transactions")
        return waiting, readable

    def _await_placed(self, count: int) -> None:
        self._await(lambda: self._shop.placed >= count, "place orders")

    def _await_moved(self, first_due: datetime) -> None:
        self._await(lambda: not self._shop.waiting(), "move all rows")
        if datetime.now(UTC) > first_due - timedelta(seconds=1):
            raise NodeFailed("writing and moving took too long to judge the order: try again")
        self._stage.say("all rows are moved")

    def _kill_a_process(self, orders: Sequence[Order]) -> dict[int, int]:
        """Kill a node process that has run something."""
        moment = orders[0].due + timedelta(seconds=_KILL_AFTER_S)
        self._await(
            lambda: datetime.now(UTC) > moment and bool(self._reader.read()), "run anything"
        )
        pid = max(self._reader.runs, key=lambda run: run.started_us).pid
        os.kill(pid, signal.SIGKILL)
        self._await(lambda: _is_gone(pid), "end")
        self._stage.say(f"node process {pid} killed with SIGKILL")
        return {pid: now_us()}

    def _await_all(self, orders: Sequence[Order], fleet: NodeProcess) -> None:
        wanted = {
            order.task_id for order in orders if order.fate in {"kept", "cancellation rolled back"}
        }
        self._stage.wait_for_all(wanted, self._succeeded, _STILL_S_MAX)
        last = orders[-1].due + timedelta(seconds=_QUIET_S)
        self._stage.wait_until(lambda: datetime.now(UTC) > last, _STILL_S_MAX)
        self._await(lambda: _RESTARTS in fleet.output, "start again")
        self._stage.say(f"{len(self._succeeded()):,} tasks have run")

    def _succeeded(self) -> set[str]:
        self._reader.read()
        return self._reader.succeeded

    def _await(self, holds: Callable[[], bool], what: str) -> None:
        self._stage.require(holds, READY_S, what)


def _readable_values(settings: Settings) -> int:
    """Return how many values of all tables show secret data."""
    keyspace = settings.cassandra.keyspace
    with open_cassandra(settings) as cluster:
        session = cluster.connect(keyspace)
        tables = session.execute(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s", (keyspace,)
        )
        return sum(
            SECRET in (value.decode(errors="replace") if isinstance(value, bytes) else str(value))
            for (table,) in tables
            for row in session.execute(f"SELECT * FROM {table}")  # noqa: S608 - a table's name
            for value in row
        )


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
