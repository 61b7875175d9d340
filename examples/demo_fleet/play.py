"""The play: transactions, kills of the mover and of a node process, and the evidence.

It judges nothing; ``judge`` does.
"""

import os
import re
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from examples.demo_cluster.executor import now_us
from examples.demo_cluster.installation import node_variables, open_cassandra
from examples.demo_cluster.topic import Found, read_all
from examples.demo_fleet.executor import KEYS_VARIABLE, SECRET
from examples.demo_fleet.shop import WRITERS, Entry, Order, Shop, make_orders
from hourhand import Settings
from hourhand.scheduler.demo.audit import Run
from hourhand.scheduler.demo.node import NodeFailed, NodeProcess, node_environment
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
_READY_S = 90
_STILL_S_MAX = 40
"""Nothing ends for so long where something is lost."""
_QUIET_S = 3
_LOOK_S = 0.1
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
    stop_codes: Mapping[str, int]
    readable_rows: int
    """Rows of the outbox that showed secret data while they waited."""
    readable_store: int
    """Values in Cassandra that show it."""


@dataclass(slots=True)
class Play:
    """One run, in the order of its methods."""

    settings: Settings
    shop: Shop
    folder: Path
    say: Callable[[str], None]
    _processes: dict[str, NodeProcess] = field(default_factory=dict)
    _succeeded: set[str] = field(default_factory=set)
    _moment: threading.Event = field(default_factory=threading.Event)

    def run(self, count: int) -> Evidence:
        """Let everything happen; no process is left running."""
        records = self.folder / "records"
        records.mkdir(parents=True)
        reader = RecordReader(records)
        try:
            self._start_nodes(records)
            orders = self._plan(count, self._start_first_mover())
            waiting, readable = self._write(orders)
            self._await_moved(orders[0].due)
            killed = self._kill_a_process(reader, orders)
            self._await_all(reader, orders)
        finally:
            stop_codes = self._stop()
        reader.read()
        topic = self.settings.topic
        return Evidence(
            orders=orders,
            committed_orders=self.shop.order_numbers(),
            journal=self.shop.journal(),
            waiting_at_restarts=waiting,
            rows_left=self.shop.waiting(),
            runs=reader.runs,
            killed=killed,
            records=read_all(self.settings, topic.name),
            dead_letters=read_all(self.settings, topic.dead_letter),
            restarted=_RESTARTS in self._output("fleet"),
            stop_codes=stop_codes,
            readable_rows=readable,
            readable_store=_readable_values(self.settings),
        )

    def _start_nodes(self, records: Path) -> None:
        variables = {
            **node_variables(self.settings),
            FOLDER_VARIABLE: str(records),
            KEYS_VARIABLE: os.environ[KEYS_VARIABLE],
        }
        self._processes["fleet"] = NodeProcess(
            "examples.demo_fleet.nodes:APP",
            node_environment(variables),
            self.folder / "fleet.log",
            command=("run", "--processes", str(PROCESSES)),
        )
        self._await(lambda: len(set(self._works())) == PROCESSES, "start")
        self.say(f"hourhand run --processes {PROCESSES}: both nodes run")

    def _start_mover(self) -> None:
        number = len(list(self.folder.glob("mover-*.log"))) + 1
        self._processes["mover"] = NodeProcess(
            None,
            node_environment(node_variables(self.settings)),
            self.folder / f"mover-{number}.log",
            command=("outbox", "--url", self.shop.url),
            ready_line="the mover of the outbox runs",
        )

    def _start_first_mover(self) -> float:
        """Start a mover; return how many seconds that takes on this machine."""
        began_us = now_us()
        self._start_mover()
        self._await(lambda: self._processes["mover"].says_ready, "start")
        return (now_us() - began_us) / 1_000_000

    def _plan(self, count: int, start_s: float) -> list[Order]:
        lead_s = max(_LEAD_S, _LEAD_OF_STARTS * start_s)
        first_due = datetime.now(UTC) + timedelta(seconds=count / _ORDERS_PER_S + lead_s)
        return make_orders(count, first_due, _SPREAD_S)

    def _write(self, orders: Sequence[Order]) -> tuple[list[int], int]:
        """Place all orders, and kill the mover meanwhile; return what waited at each restart, and
        how many of these rows anybody can read.
        """
        wait = self.shop.write(orders, WRITERS / _ORDERS_PER_S)
        waiting, readable = [], 0
        for kill in range(1, KILLS + 1):
            placed = len(orders) * kill // (KILLS + 2)
            self._await_placed(placed)
            mover = self._processes.pop("mover")
            mover.kill()
            self._await(lambda: self.shop.waiting() >= _ROWS_AT_RESTART, "place more orders")
            waiting.append(self.shop.waiting())
            readable += self.shop.readable()
            self._start_mover()
            self.say(f"mover {mover.pid} killed; another started when {waiting[-1]} rows waited")
        wait()
        self.say(f"the application placed {len(orders):,} orders in transactions of its own")
        return waiting, readable

    def _await_placed(self, count: int) -> None:
        self._await(lambda: self.shop.placed >= count, "place orders")

    def _await_moved(self, first_due: datetime) -> None:
        self._await(lambda: not self.shop.waiting(), "move all rows")
        if datetime.now(UTC) > first_due - timedelta(seconds=1):
            raise NodeFailed("writing and moving took too long to judge the order: try again")
        self.say("all rows are moved")

    def _kill_a_process(self, reader: RecordReader, orders: Sequence[Order]) -> dict[int, int]:
        """Kill a node process that has run something."""
        moment = orders[0].due + timedelta(seconds=_KILL_AFTER_S)
        self._await(
            lambda: bool(reader.read()) and datetime.now(UTC) > moment, "run anything", _READY_S
        )
        self._succeeded |= {run.task_id for run in reader.runs if run.succeeded}
        pid = max(reader.runs, key=lambda run: run.started_us).pid
        os.kill(pid, signal.SIGKILL)
        self._await(lambda: _is_gone(pid), "end")
        self.say(f"node process {pid} killed with SIGKILL")
        return {pid: now_us()}

    def _await_all(self, reader: RecordReader, orders: Sequence[Order]) -> None:
        wanted = {
            order.task_id for order in orders if order.fate in {"kept", "cancellation rolled back"}
        }
        known = -1
        while not wanted <= self._succeeded and known < len(self._succeeded):
            known = len(self._succeeded)

            def look() -> bool:
                self._succeeded.update(run.task_id for run in reader.read() if run.succeeded)
                return wanted <= self._succeeded

            # A task that is missing when nothing ends any more is lost, and the audit will say so.
            self._seen_within(look, _STILL_S_MAX)
        self._seen_within(
            lambda: datetime.now(UTC) > orders[-1].due + timedelta(seconds=_QUIET_S), _STILL_S_MAX
        )
        self._await(lambda: _RESTARTS in self._output("fleet"), "start again")
        self.say(f"{len(self._succeeded):,} tasks have run")

    def _stop(self) -> dict[str, int]:
        # All are asked before any is waited for.
        for process in self._processes.values():
            process.ask_to_stop()
        return {name: process.stop() for name, process in self._processes.items()}

    def _works(self) -> list[str]:
        return _WORKS.findall(self._output("fleet"))

    def _output(self, name: str) -> str:
        return self._processes[name].output

    def _await(self, holds: Callable[[], bool], what: str, timeout_s: float = _READY_S) -> None:
        if not self._seen_within(holds, timeout_s):
            tails = "\n".join(process.tail() for process in self._processes.values())
            raise NodeFailed(f"it did not {what} within {timeout_s:.0f} s:\n{tails}")

    def _seen_within(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Look again and again; return whether it was seen."""
        for _ in range(round(timeout_s / _LOOK_S)):
            if holds():
                return True
            self._moment.wait(_LOOK_S)
            for name, process in self._processes.items():
                if not process.is_running:
                    raise NodeFailed(f"the {name} ended by itself:\n{process.tail()}")
        return False


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
