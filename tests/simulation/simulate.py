"""Runs one seed of one scenario and says what it broke."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from hourhand.actors.model.execution.interruption import note_attempt
from tests.simulation.invariants import INVARIANTS
from tests.simulation.judged import Run
from tests.simulation.older import older_settings
from tests.simulation.scenario import Scenario
from tests.simulation.user_code import PlannedInterrupt
from tests.simulation.watched import Trace
from tests.simulation.world import World

COMPLAINTS_MAX = 5
"""Violations shown of each promise."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a run."""

    scenario: str
    seed: int
    digest: str
    complaints: Sequence[str]
    messages: Sequence[str]
    """The last messages that actors were sent, oldest first."""
    faults: Mapping[str, int]
    """Number of injections of each kind of fault, and of each strange thing that was met."""
    virtual_ms: float
    """For how long the run lasted, on its own clock."""
    reached: Mapping[str, int]
    """The points of ``reached`` that the run came to, with how often."""

    def report(self) -> str:
        """Return all that a person needs to begin with."""
        lines = [
            f"seed {self.seed}, scenario {self.scenario}, history {self.digest[:16]}",
            *self.complaints,
            "the last messages:",
            *(f"  {message}" for message in self.messages),
            f"replay: make sim SEED={self.seed} SCENARIO={self.scenario}",
        ]
        return "\n".join(lines)


def simulate(scenario: Scenario, seed: int) -> Verdict:
    """Run one seed; never raises for what the run does."""
    world = World(scenario, seed)
    complaints: list[str] = []
    try:
        world.run()
    except BaseException as error:  # a node's thread would have died of it
        if isinstance(error, KeyboardInterrupt) and not isinstance(error, PlannedInterrupt):
            raise
        complaints.append(f"a node failed outside its tree: {error!r}")
    finally:
        # Later log lines of this process belong to no attempt.
        note_attempt(None)
    complaints += judge(world)
    world.reached.read(world.history)
    return Verdict(
        scenario=scenario.name,
        seed=seed,
        digest=world.history.digest(),
        complaints=complaints,
        messages=_messages(world.trace),
        faults=world.counts(),
        virtual_ms=world.now_ms(),
        reached=world.reached.counts,
    )


def judge(world: World) -> Iterator[str]:
    """Yield what every invariant has to complain about, with the promise's name."""
    run = Run(
        history=world.history,
        truth=world.truth,
        partitions=world.scenario.partitions,
        # A node of the version before deletes what failed with its hour.
        tree=older_settings(world.settings.tree) if world.scenario.older else world.settings.tree,
        pace=world.pace,
        wall_at_start_ms=world.wall_at_start_ms,
        clocks_off_ms=world.clocks_off_ms,
        attempts_max=world.scenario.workload.attempts_max,
        polled_most=world.recorder.polled_most,
        tries_max=world.settings.timers.callback_tries_max,
        advance_ms=world.settings.relay.timing_advance_ms,
        limits=world.limits,
        lends=world.scenario.workload.lend,
        tells=world.told is not None,
        letters=None if world.doors is None else world.doors.letters(),
        foreign_rows=() if world.outbox is None else world.outbox.foreign,
        sent_again=world.driver.producers.sent_again,
    )
    for invariant in INVARIANTS:
        for sentence in islice(invariant(run), COMPLAINTS_MAX):
            yield f"{invariant.__name__}: {sentence}"


def _messages(trace: Trace) -> list[str]:
    return [
        f"{time_ms:10.1f} {node} {context.path.rpartition('/')[2]} {message!r:.160}"
        for time_ms, node, context, message in trace
    ]
