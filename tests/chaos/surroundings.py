"""Surroundings of the processes of a chaos run: links, clocks and disks, which fail meanwhile.

Each fault tells how often it was met, so that one that struck nothing is not taken for one that was
survived.  Decides nothing about when.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from tests.chaos.fleet import Fleet
from tests.chaos.installation import Installation
from tests.chaos.plan import CLOCKS_S, Kind, Step
from tests.chaos.records import now_us
from tests.judge.history import Blow
from tests.servers.link_faults import Blight, Counts, Manner, Way
from tests.servers.link_proxy import Rule
from tests.servers.links import Links
from tests.servers.machine import BROKEN, FULL, Machine
from tests.servers.process import ServerProcess

_LATENCY_MS, _BYTES_PER_S = 150.0, 500_000.0
"""Each way, of a slow link."""
_SYNC_S = 1.0
"""By so much a sync of a slow disk takes longer."""
_BOTH: tuple[Way, Way] = ("to", "from")
_MANNERS = {each: each for each in get_args(Manner)}
_BACK_S = 300.0
_NOTICED_S, _LOOK_S = 45.0, 0.2


@dataclass(frozen=True, slots=True)
class Suffered:
    """The outcome of a fault; ``Fault`` says more of each."""

    back_us: int
    blows: Sequence[Blow] = ()
    met: int | None = None
    pid: int = 0
    ahead_us: int = 0


class Surroundings:
    """Strikes the links of an installation and a fleet, and their machines."""

    def __init__(self, installation: Installation, fleet: Fleet) -> None:
        self._kafka, self._cassandra = installation.kafka, installation.cassandra
        self._installation = installation
        self._fleet = fleet
        self._moment = threading.Event()

    def strike(self, step: Step) -> Suffered:
        """Do one step; return when it is over, and what was struck is back."""
        match step.kind:
            case Kind.CLOCK:
                return self._set_clock(step)
            case Kind.DISK_OF_BROKER:
                machine = self._installation.broker_machines[step.target - 1]
                return self._hurt_disk(step, machine, self._kafka.brokers[step.target - 1])
            case Kind.DISK_OF_STORE_NODE:
                machine = self._installation.store_machines[step.target - 1]
                return self._hurt_disk(step, machine, self._cassandra.nodes[step.target - 1])
            case _:
                return self._hurt_links(step)

    def _set_clock(self, step: Step) -> Suffered:
        pid, machine = self._fleet.pid(step.target), self._fleet.machine(step.target)
        before, ahead_s = machine.touched.clock_read, CLOCKS_S[step.manner]
        machine.set_clock(ahead_s)
        try:
            self._moment.wait(step.lasts_s)
        finally:
            machine.set_clock(0)
        met = machine.touched.clock_read - before
        return Suffered(now_us(), met=met, pid=pid, ahead_us=round(ahead_s * 1e6))

    def _hurt_disk(self, step: Step, machine: Machine, server: ServerProcess) -> Suffered:
        before = machine.touched
        with _fault_of_disk(machine, step.manner):
            self._moment.wait(step.lasts_s)
        after, back_us = machine.touched, now_us()
        met = after.syncs_delayed - before.syncs_delayed
        met += after.writes_refused - before.writes_refused
        if step.manner != "slow":
            # A server that met an error of its disk waits for an operator, or has ended.
            server.kill()
            self._start_again(step)
        return Suffered(back_us, met=met)

    def _start_again(self, step: Step) -> None:
        if step.kind is Kind.DISK_OF_BROKER:
            self._kafka.start_broker(step.target)
            self._kafka.wait_until_ready(_BACK_S)
            self._kafka.wait_until_in_sync(_BACK_S)
        else:
            self._cassandra.start_node(step.target)
            self._cassandra.wait_until_ready(step.target, _BACK_S)

    def _hurt_links(self, step: Step) -> Suffered:
        links = self._installation.links
        assert links is not None, "these servers have no proxy"
        manner, _, way = step.manner.partition(" ")
        blight = Blight(_MANNERS[manner], _LATENCY_MS, _BYTES_PER_S)
        counts = self._hold(links, blight, self._rules(step, way), step.lasts_s)
        back_us = now_us()
        self._wait_until_noticed(links)
        if step.kind is Kind.LINK_OF_BROKER:
            self._kafka.wait_until_in_sync(_BACK_S)
        elif step.kind is Kind.LINK_TO_LOG:
            group = self._installation.settings.group.id
            self._kafka.wait_until_members(group, len(self._fleet.numbers), _BACK_S)
        met = counts.held + counts.dropped + counts.delayed + counts.resets
        return Suffered(back_us, met=met)

    def _wait_until_noticed(self, links: Links) -> None:
        """Wait until a half-open link is whole: those who used it have noticed, but for some that
        have nothing to send.
        """
        until_us = now_us() + round(_NOTICED_S * 1e6)
        while links.forsaken and now_us() < until_us:
            self._moment.wait(_LOOK_S)

    def _hold(self, links: Links, blight: Blight, rules: Sequence[Rule], lasts_s: float) -> Counts:
        links.strike(blight, *rules)
        try:
            self._moment.wait(lasts_s)
        finally:
            counts = links.heal()
        return counts

    def _rules(self, step: Step, way: str) -> list[Rule]:
        """Return which connections are struck; ``way`` is seen from what is named first."""
        brokers = {f"broker {at}": each for at, each in enumerate(self._kafka.brokers, 1)}
        stores = {f"Cassandra {at}": each for at, each in enumerate(self._cassandra.nodes, 1)}
        match step.kind:
            case Kind.LINK_TO_LOG:
                return [Rule([self._fleet.pid(step.target)], [*brokers], _ways(way, "to"))]
            case Kind.LINK_TO_STORE:
                return [Rule([self._fleet.pid(step.target)], [*stores], _ways(way, "to"))]
            case Kind.LINK_OF_BROKER:
                return _around(f"broker {step.target}", brokers, way)
            case _:
                return _around(f"Cassandra {step.target}", stores, way)


def _around(name: str, servers: dict[str, ServerProcess], way: str) -> list[Rule]:
    """Return the links between one server and its like, whoever connected."""
    own, others = servers[name], {each: servers[each] for each in servers if each != name}
    return [
        Rule(_pids(own), [*others], _ways(way, "from")),
        Rule(_pids(*others.values()), [name], _ways(way, "to")),
    ]


def _ways(way: str, towards: Way) -> Sequence[Way]:
    """Return the ways of a connection, where ``towards`` is the one that ``to`` means."""
    if not way:
        return _BOTH
    away: Way = "from" if towards == "to" else "to"
    return [towards if way == "to" else away]


def _pids(*servers: ServerProcess) -> list[int]:
    return [each.pid for each in servers if each.pid is not None]


@contextlib.contextmanager
def _fault_of_disk(machine: Machine, manner: str) -> Iterator[None]:
    fault = (
        machine.slow_disk(_SYNC_S)
        if manner == "slow"
        else machine.failing_disk(FULL if manner == "full" else BROKEN)
    )
    with fault:
        yield
