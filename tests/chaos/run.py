"""One chaos run: nodes, load, the plan's faults, and a quiet end; then what was written is read.

It judges nothing: ``verdict`` does.  Nothing it started is left running.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scheduler.settings import Settings
from tests.chaos.fleet import Fleet
from tests.chaos.history import History
from tests.chaos.installation import Installation, node_variables
from tests.chaos.load import LoadGenerator, LoadPlan
from tests.chaos.plan import Extent, make_plan
from tests.chaos.records import Journal, SuccessReader, now_us, read_history, wall_us
from tests.chaos.striker import Striker

_LAST_WAIT_S = 180.0
"""What has not run so long after it was due, with everything up, is lost."""
_LOOK_S = 1.0
_AFTER_ALL_S = 3.0
"""A repetition that should not be would come soon after the last task."""


@dataclass(frozen=True, slots=True)
class Chaos:
    """What a run is made of; two runs of equal values strike alike."""

    seed: int
    extent: Extent
    tasks_per_s: int
    lead_s: float
    """How long before its time most of the load is offered."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a run leaves behind."""

    history: History
    seconds: float
    """From the first task offered to the last answer."""
    ended_alone: list[str]
    """Nodes that ended though nobody asked them to, or badly when they were asked."""
    settings: Settings


def run_chaos(
    chaos: Chaos, installation: Installation, folder: Path, say: Callable[[str], None]
) -> Evidence:
    """Let everything happen; ``folder`` holds what was written."""
    journal = Journal(folder)
    journal.begin(chaos.seed)
    settings = installation.settings
    fleet = Fleet(chaos.extent.nodes, node_variables(settings), folder, journal)
    load = LoadGenerator(settings, LoadPlan(chaos.tasks_per_s, chaos.lead_s, chaos.seed), folder)
    began_us = now_us()
    try:
        fleet.start(*fleet.numbers)
        load.start()
        say(f"{chaos.extent.nodes} nodes run; {chaos.tasks_per_s} tasks/s are offered")
        _disturb(chaos, Striker(installation, fleet, journal), say)
        load.stop()
        seconds = (now_us() - began_us) / 1e6
        say(f"{load.offered:,} tasks were offered, {len(load.accepted):,} accepted")
        _wait_for_the_rest(load, folder, say)
        fleet.look()
    finally:
        load.stop()
        fleet.stop()
    return Evidence(read_history(folder), seconds, fleet.ended_alone, settings)


def _disturb(chaos: Chaos, striker: Striker, say: Callable[[str], None]) -> None:
    moment = threading.Event()
    moment.wait(chaos.lead_s + chaos.extent.quiet_s[0])
    began_us = now_us()
    for step in make_plan(chaos.seed, chaos.extent):
        moment.wait(step.quiet_s)
        seconds = (now_us() - began_us) / 1e6
        say(f"{seconds:5.0f} s  {step.kind}, for {step.lasts_s:.1f} s")
        say(f"         {striker.strike(step).target} is back")
    left_s = chaos.extent.seconds - (now_us() - began_us) / 1e6
    moment.wait(max(left_s, chaos.extent.quiet_s[1]))


def _wait_for_the_rest(load: LoadGenerator, folder: Path, say: Callable[[str], None]) -> None:
    """Wait until every accepted task has run, but not for ever: what is missing then is lost."""
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
