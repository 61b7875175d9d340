"""Carries out the steps of a plan, one after another, and writes each into the journal.

Strikes only what this run started: nodes by their fleet, servers by their own handles.
Decides nothing about what comes next.
"""

import threading

from tests.chaos.fleet import Fleet
from tests.chaos.installation import Installation
from tests.chaos.plan import Kind, Step
from tests.chaos.records import Journal, now_us
from tests.chaos.surroundings import Suffered, Surroundings
from tests.judge.history import Fault

_BETWEEN_RESTARTS_S = 5.0
"""An operator waits until a restarted node has its partitions before the next one is stopped."""

_SERVER_BACK_S = 600.0
"""A machine that is busy with the backlog takes its time to let a server in again."""


class Striker:
    """Strikes the servers of an installation and the nodes of a fleet."""

    def __init__(self, installation: Installation, fleet: Fleet, journal: Journal) -> None:
        self._kafka = installation.kafka
        self._cassandra = installation.cassandra
        self._group = installation.settings.group.id
        self._fleet = fleet
        self._journal = journal
        self._surroundings = Surroundings(installation, fleet)
        self._moment = threading.Event()
        self._struck = 0

    def strike(self, step: Step) -> Fault:
        """Do one step; return when what was struck is back."""
        self._struck += 1
        broker = self._broker(step)
        target = self._target(step, broker)
        kind = f"{step.kind.value}: {step.manner}" if step.manner else step.kind.value
        self._journal.fault_begins(self._struck, kind, target)
        from_us = now_us()
        suffered = self._carry_out(step, broker)
        fault = Fault(
            number=self._struck,
            kind=kind,
            target=target,
            harm=step.kind.harm,
            from_us=from_us,
            back_us=suffered.back_us,
            to_us=now_us(),
            blows=suffered.blows,
            met=suffered.met,
            pid=suffered.pid,
            ahead_us=suffered.ahead_us,
        )
        self._journal.fault_ended(fault)
        self._fleet.look()
        return fault

    def _carry_out(self, step: Step, broker: int) -> Suffered:
        match step.kind:
            case Kind.KILL_NODE:
                return self._kill(step, step.target)
            case Kind.KILL_ALL:
                return self._kill(step, *self._fleet.numbers)
            case Kind.FREEZE_NODE:
                return self._freeze(step)
            case Kind.RESTART_NODE:
                return self._restart(step, step.target)
            case Kind.RESTART_ALL:
                return self._restart(step, *self._fleet.numbers)
            case Kind.KILL_BROKER | Kind.KILL_COORDINATOR:
                return self._kill_broker(step, broker)
            case Kind.KILL_STORE_NODE:
                return self._kill_store_node(step)
            case Kind.FREEZE_STORE:
                return self._freeze_store(step)
            case _:
                return self._surroundings.strike(step)

    def _broker(self, step: Step) -> int:
        """Return the coordinator's broker, or the planned one that is not it."""
        if step.kind not in {Kind.KILL_BROKER, Kind.KILL_COORDINATOR}:
            return 0
        coordinator = self._kafka.coordinator_of(self._group)
        if step.kind is Kind.KILL_COORDINATOR or step.target != coordinator:
            return coordinator if step.kind is Kind.KILL_COORDINATOR else step.target
        return step.target % len(self._kafka.brokers) + 1

    def _target(self, step: Step, broker: int) -> str:
        match step.kind:
            case Kind.RESTART_ALL | Kind.KILL_ALL:
                return f"nodes 1-{len(self._fleet.numbers)}"
            case Kind.FREEZE_STORE:
                return step.kind.strikes
            case _:
                return f"{step.kind.strikes} {broker or step.target}"

    def _kill(self, step: Step, *numbers: int) -> Suffered:
        blows = self._fleet.kill(*numbers)
        self._moment.wait(step.lasts_s)
        back_us = now_us()
        self._fleet.start(*numbers)
        return Suffered(back_us, blows)

    def _freeze(self, step: Step) -> Suffered:
        blow = self._fleet.freeze(step.target, step.lasts_s)
        return Suffered(blow.to_us, [blow])

    def _restart(self, step: Step, *numbers: int) -> Suffered:
        blows, back_us = [], now_us()
        for number in numbers:
            blows.append(self._fleet.drain(number))
            self._moment.wait(step.lasts_s)
            back_us = now_us()
            self._fleet.start(number)
            self._moment.wait(_BETWEEN_RESTARTS_S)
        return Suffered(back_us, blows)

    def _kill_broker(self, step: Step, number: int) -> Suffered:
        self._kafka.brokers[number - 1].kill()
        self._moment.wait(step.lasts_s)
        back_us = now_us()
        self._kafka.start_broker(number)
        self._kafka.wait_until_ready(_SERVER_BACK_S)
        return Suffered(back_us)

    def _kill_store_node(self, step: Step) -> Suffered:
        self._cassandra.nodes[step.target - 1].kill()
        self._moment.wait(step.lasts_s)
        back_us = now_us()
        self._cassandra.start_node(step.target)
        self._cassandra.wait_until_ready(step.target, _SERVER_BACK_S)
        return Suffered(back_us)

    def _freeze_store(self, step: Step) -> Suffered:
        try:
            for node in self._cassandra.nodes:
                node.pause()
            self._moment.wait(step.lasts_s)
        finally:
            back_us = now_us()
            for node in self._cassandra.nodes:
                node.resume()
        return Suffered(back_us)
