"""User code of simulated tasks: what an attempt does, and what no user code should.

A task's data says how each of its attempts goes, so a replay needs no other state.  It lasts no
time itself: that is the runner's matter.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from actors.model.backoff import RetryPolicy, default_wait
from actors.model.outcome import Drop, Outcome, Retry
from actors.model.task import Task
from actors.task_executor import TaskExecutor
from scheduler.services.system_tasks import RoutedFactory
from tests.simulation.task_maker import SICK


class ProcessKilled(BaseException):
    """User code took the whole process down."""


class TaskFailed(Exception):
    """User code failed as planned."""


class OwnError(BaseException):
    """An error of a user's that no ``except Exception`` catches."""


RAISED: Mapping[str, type[BaseException]] = {
    "exit": SystemExit,
    "interrupt": KeyboardInterrupt,
    "closing": GeneratorExit,
    "own": OwnError,
}
"""What an attempt of this kind raises."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How one attempt goes."""

    kind: str
    """ok, fail, retry, drop, kill, or one of ``RAISED``."""
    duration_ms: float
    blocking: bool


def plan_of(task: Task, attempt: int) -> Plan:
    """Return how the attempt of that number goes; the last one planned goes on for ever."""
    runs = task.data["runs"]
    assert isinstance(runs, list), "the workload writes a list"
    kind, duration_ms = str(runs[min(attempt, len(runs)) - 1]).split(":")
    return Plan(kind, float(duration_ms), bool(task.data["blocking"]))


class SimulatedExecutor(TaskExecutor):
    """Does what its task's data says; how long that lasts is the runner's matter."""

    def __init__(self, policy: RetryPolicy) -> None:
        self.retry = policy

    def execute(self, task: Task) -> Outcome | None:
        """End as planned."""
        match plan_of(task, self.attempt).kind:
            case "fail":
                raise TaskFailed(f"attempt {self.attempt}")
            case "retry":
                return Retry(after=timedelta(milliseconds=300))
            case "drop":
                return Drop("as planned")
            case "kill":
                raise ProcessKilled
            case kind if kind in RAISED:
                raise RAISED[kind]
            case _:
                return None


class HostileExecutor(SimulatedExecutor):
    """Raises by lot where nobody expects it: where its attribute is read."""

    def __init__(self, policy: RetryPolicy, share: float, rng: random.Random) -> None:
        super().__init__(policy)
        self._share = share
        self._rng = rng
        self._is_looked_over = False

    @property
    def timeout(self) -> timedelta | None:  # type: ignore[override]
        """Raise, or name none; not where it is looked over at first, which would break it for
        good and give it the default policy, whose waits are longer than a run.
        """
        if self._is_looked_over:
            raise_by_lot(self._share, self._rng)
        self._is_looked_over = True
        return None


def raise_by_lot(share: float, rng: random.Random) -> None:
    """Raise one of ``RAISED``, in this share of calls."""
    if rng.random() < share:
        raise rng.choice(tuple(RAISED.values()))


def hostile(
    make: RoutedFactory, policy: RetryPolicy, share: float, rng: random.Random
) -> RoutedFactory:
    """Return what makes executors that raise, for ids that are not to be on time."""
    if not share:
        return make
    lots = random.Random(rng.getrandbits(64))

    def made(ordering_id: str) -> TaskExecutor:
        if not ordering_id.startswith(SICK):
            return make(ordering_id)
        return HostileExecutor(policy, share, lots)

    return made


def retry_policy(
    attempts_max: int, rng: random.Random, on_exhausted: str, pace: float
) -> RetryPolicy:
    """Return a policy with short waits whose jitter comes from the seed."""
    wait = default_wait(base_s=0.3 * pace, cap_s=3.0 * pace, rng=rng)
    match on_exhausted:
        case "block" | "dead_letter" | "skip":
            return RetryPolicy(attempts_max, wait, on_exhausted)
        case _:
            raise ValueError(f"on_exhausted is {on_exhausted!r}: skip, block or dead_letter")
