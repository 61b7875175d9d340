"""The self-check beside every node of a simulated group: silent, except for planted faults.

The group runs as in any other run; the checks look at its store without disturbing it.
"""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from hourhand.actors.model.operations.events import Event, PromiseDoubted, SelfChecked
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.memory.stores import open_memory_stores
from hourhand.scheduler.adapters.observing.counted import checked_stores
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.observe.self_check import SelfCheck
from tests.simulation.history import Progress, Sampled, Step
from tests.simulation.member import Member, MemberObserver
from tests.simulation.scenario import load_scenarios
from tests.simulation.world import World

pytestmark = pytest.mark.usefixtures("quiet")

SCENARIOS = load_scenarios()
WEATHER = (
    "weather",
    "everything",
    "rebalances",
    "crashes",
    "blocked",
    "replays",
    "steps",
    "races",
    "limits",
    "runs",
)
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 3))]


class CheckedWorld(World):
    """A world whose nodes have a self-check each, which watches every ordering id."""

    def __init__(self, name: str, seed: int, *, loses_completions: bool = False) -> None:
        super().__init__(SCENARIOS[name], seed)
        self.doubts: list[PromiseDoubted] = []
        self.looks = 0
        self._checks: dict[str, SelfCheck] = {}
        self._loses_completions = loses_completions
        self._site = replace(self._site, observer=_Listening(self._site.observer, self._checks))

    def start_member(self, name: str | None = None) -> None:
        """Put a check beside the node, before its first round."""
        before = set(self._members)
        super().start_member(name)
        for member in (self._members[each] for each in self._members.keys() - before):
            check = SelfCheck(member.clock, self._told, open_memory_stores(self.data), 1.0, 1_000)
            self._checks[member.name] = check
            effects = member.node._effects
            stores = checked_stores(effects.stores, check)
            if self._loses_completions:
                stores = _losing(stores)
            member.node._effects = replace(effects, stores=stores)

    def _told(self, event: Event) -> None:
        self.looks += isinstance(event, SelfChecked)
        if isinstance(event, PromiseDoubted):
            self.doubts.append(event)


class _Listening:
    """``MemberObserver`` before the world's own."""

    def __init__(self, observer: MemberObserver, checks: Mapping[str, SelfCheck]) -> None:
        self._observer = observer
        self._checks = checks

    def attempt_started(self, member: Member, running: RunningAttempt, queued_ms: float) -> int:
        """Pass on."""
        return self._observer.attempt_started(member, running, queued_ms)

    def attempt_ended(self, member: Member, number: int, ending: str) -> None:
        """Pass on."""
        self._observer.attempt_ended(member, number, ending)

    def checkpoint_said(self, progress: Progress) -> None:
        """Tell the world."""
        self._observer.checkpoint_said(progress)

    def miscalled(self, key: TaskKey, complaint: str) -> None:
        """Pass it on."""
        self._observer.miscalled(key, complaint)

    def in_line(self, member: Member, running: RunningAttempt, step: Step) -> None:
        """Pass on."""
        self._observer.in_line(member, running, step)

    def data_arrived(self, key: TaskKey, complaint: str) -> None:
        """Pass on."""
        self._observer.data_arrived(key, complaint)

    def harmed(self, what: str) -> None:
        """Pass on."""
        self._observer.harmed(what)

    def reported(self, member: Member, event: Event) -> None:
        """Tell the check of the node as well."""
        self._observer.reported(member, event)
        self._checks[member.name].take(event)

    def delivered(self, records: Sequence[LogRecord]) -> None:
        """Pass on."""
        self._observer.delivered(records)

    def sampled(self, sample: Sampled) -> None:
        """Pass on."""
        self._observer.sampled(sample)

    def held(self, member: Member, partitions: int) -> None:
        """Pass on."""
        self._observer.held(member, partitions)

    def gives_up(self, member: Member, partition: int) -> None:
        """Pass on."""
        self._observer.gives_up(member, partition)

    def applied(self, member: Member, config: OperatorConfig) -> None:
        """Pass on."""
        self._observer.applied(member, config)


class _LosingStatus:
    """``StatusStore`` that acknowledges every seventh completion without writing it."""

    def __init__(self, behind: object) -> None:
        self._behind: Any = behind
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    def insert_completions(
        self, partition: int, completions: Collection[Completion], write_time: int
    ) -> "Future[None]":
        """Lose some."""
        self._count += 1
        if self._count % 7 == 0:
            completions = ()
        written: Future[None] = self._behind.insert_completions(partition, completions, write_time)
        return written


def _losing(stores: Stores) -> Stores:
    status: Any = _LosingStatus(stores.status)
    return msgspec.structs.replace(stores, status=status)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", WEATHER)
def test_the_self_check_is_silent_in_bad_weather(name: str, seed: int) -> None:
    """Nodes die, pause and lose partitions, and every promise is kept as docs/promises.md says."""
    world = CheckedWorld(name, seed)
    world.run()

    assert world.doubts == []
    assert world.looks > 30


def test_the_self_check_notices_a_store_that_loses_completions() -> None:
    """In a group that runs on as if nothing were wrong."""
    world = CheckedWorld("calm", 1, loses_completions=True)
    world.run()

    assert {doubt.promise for doubt in world.doubts} >= {"P5"}
