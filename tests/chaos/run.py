"""One chaos run: nodes, load, the plan's faults, and a quiet end; then what was written is read.

It judges nothing: ``verdict`` does.  Nothing it started is left running.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hourhand.scheduler.configuration.door_settings import OutcomeSettings
from hourhand.scheduler.configuration.settings import Settings
from tests.chaos.doors_history import DoorsHistory
from tests.chaos.doors_load import DoorsLoad
from tests.chaos.fleet import Fleet
from tests.chaos.installation import GroupProtocol, Installation, node_variables
from tests.chaos.load import LoadGenerator, LoadPlan
from tests.chaos.outcomes_reader import OutcomesReader
from tests.chaos.plan import Extent, make_plan
from tests.chaos.records import Journal, SuccessReader, now_us, read_history, wall_us
from tests.chaos.striker import Striker
from tests.judge.history import Fault, History

_LAST_WAIT_S = 180.0
"""A task that has not run this long after it was due, with everything up, is lost."""
_LOOK_S = 1.0
_AFTER_ALL_S = 3.0
"""A repetition that should not be would come soon after the last task."""


@dataclass(frozen=True, slots=True)
class Chaos:
    """The parameters of a run; two runs of equal values strike alike."""

    seed: int
    extent: Extent
    tasks_per_s: int
    lead_s: float
    """Time by which most of the load is offered before it is due."""
    doors: bool = True
    """True if nodes are relays and timer services as well, under a small load of their own, and
    tell outcomes."""
    protocol: GroupProtocol = "classic"
    """Protocol between the groups' members and the brokers."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of a run."""

    history: History
    seconds: float
    """From the first task offered to the last answer."""
    ended_alone: list[str]
    """Nodes that ended though nobody asked them to, or badly when they were asked."""
    settings: Settings
    doors: DoorsHistory | None = None
    """History of relay and timers, if there were any."""
    doubts: list[str] = field(default_factory=list)
    """Broken promises as the nodes' self-checks saw them."""


def run_chaos(
    chaos: Chaos, installation: Installation, folder: Path, say: Callable[[str], None]
) -> Evidence:
    """Let everything happen; ``folder`` holds what was written."""
    journal = Journal(folder)
    journal.begin(chaos.seed)
    settings = installation.settings
    fleet = _make_fleet(chaos, installation, folder, journal)
    doors = _open_doors(chaos, settings, fleet, folder)
    load = LoadGenerator(settings, LoadPlan(chaos.tasks_per_s, chaos.lead_s, chaos.seed), folder)
    began_us = now_us()
    try:
        fleet.start(*fleet.numbers)
        load.start()
        if doors is not None:
            doors.start()
        say(f"{chaos.extent.nodes} nodes run; {chaos.tasks_per_s} tasks/s are offered")
        faults = _disturb(chaos, Striker(installation, fleet, journal), say)
        load.stop()
        if doors is not None:
            doors.stop()
        seconds = (now_us() - began_us) / 1e6
        say(f"{load.offered:,} tasks were offered, {len(load.accepted):,} accepted")
        run = _wait_for_the_rest(load, folder, say)
        if doors is not None:
            doors.wait_for_all(faults, run, _LAST_WAIT_S)
        fleet.look()
    finally:
        load.stop()
        fleet.stop()
        if doors is not None:
            doors.close()
    told = None if doors is None else doors.history()
    return Evidence(
        read_history(folder), seconds, fleet.ended_alone, settings, told, fleet.doubts()
    )


def _make_fleet(chaos: Chaos, installation: Installation, folder: Path, journal: Journal) -> Fleet:
    settings = installation.settings
    if not chaos.doors:
        settings = settings.model_copy(update={"outcomes": OutcomeSettings()})
    return Fleet(
        chaos.extent.nodes,
        node_variables(settings),
        folder,
        journal,
        doors=chaos.doors,
        library=installation.library,
    )


def _open_doors(chaos: Chaos, settings: Settings, fleet: Fleet, folder: Path) -> DoorsLoad | None:
    if not chaos.doors:
        return None
    topics = settings.relay.in_topic, settings.relay.out_topic
    servers = settings.kafka.bootstrap_servers
    assert settings.outcomes.topic is not None, "a run has a topic of outcomes"
    outcomes = OutcomesReader(servers, settings.outcomes.topic, folder)
    return DoorsLoad(servers, topics, fleet.ports, outcomes, chaos.seed)


def _disturb(chaos: Chaos, striker: Striker, say: Callable[[str], None]) -> list[Fault]:
    """Carry out the plan; return its faults."""
    moment, faults = threading.Event(), []
    moment.wait(chaos.lead_s + chaos.extent.quiet_s[0])
    began_us = now_us()
    for step in make_plan(chaos.seed, chaos.extent):
        moment.wait(step.quiet_s)
        seconds = (now_us() - began_us) / 1e6
        manner = f": {step.manner}" if step.manner else ""
        say(f"{seconds:5.0f} s  {step.kind}{manner}, for {step.lasts_s:.1f} s")
        fault = striker.strike(step)
        faults.append(fault)
        say(f"         {fault.target} is back" + _times(fault))
    left_s = chaos.extent.seconds - (now_us() - began_us) / 1e6
    moment.wait(max(left_s, chaos.extent.quiet_s[1]))
    return faults


def _times(fault: Fault) -> str:
    return "" if fault.met is None else f"; it was met {fault.met:,} times"


def _wait_for_the_rest(load: LoadGenerator, folder: Path, say: Callable[[str], None]) -> set[str]:
    """Wait until every accepted task has run, but not for ever: what is missing then is lost.

    Return those that have run.
    """
    moment, done = threading.Event(), SuccessReader(folder)
    until_us = load.last_due_us + round(_LAST_WAIT_S * 1e6)
    while True:
        done.read()
        missing = load.accepted - done.task_ids
        if not missing or wall_us() > until_us:
            break
        moment.wait(_LOOK_S)
    say(f"{len(load.accepted) - len(missing):,} of them have run")
    moment.wait(_AFTER_ALL_S)
    return load.accepted - missing
