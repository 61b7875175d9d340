"""User code of simulated tasks: what an attempt does, and what no user code should.

A task's data says how each of its attempts goes, so a replay needs no other state.  It lasts no
time itself: that is the runner's matter.
"""

import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from pydantic import JsonValue
from tenacity import RetryCallState
from tenacity.wait import wait_base

from hourhand.actors.model.execution.backoff import RetryPolicy, default_wait
from hourhand.actors.model.execution.batch_executor import BatchExecutor, BatchOutcome
from hourhand.actors.model.execution.outcome import Done, Drop, Outcome, Retry, Snooze
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import UnknownKind
from hourhand.scheduler.executors.batches import KindBatches
from hourhand.scheduler.executors.guests import GuestKind
from hourhand.scheduler.executors.middleware import MiddlewareStack
from hourhand.scheduler.ports.batches import BatchMember
from hourhand.scheduler.ports.processes import ProcessMember
from hourhand.scheduler.services.system.system_tasks import RoutedFactory
from tests.simulation.task_maker import SICK


class ProcessKilled(BaseException):
    """User code took the whole process down."""


class TaskFailed(Exception):
    """User code failed as planned."""


class OwnError(BaseException):
    """An error of a user's that no ``except Exception`` catches."""


class PlannedInterrupt(KeyboardInterrupt):
    """Like that of somebody at the keyboard, who is told from it."""


Miscalled = Callable[[TaskKey, str], None]
"""Is told what is wrong with how user code was called for a task."""

SNOOZES, SNOOZE_MS = 2, 200
"""Snoozes of an attempt, at most, and the duration of each."""
RAISED: Mapping[str, type[BaseException]] = {
    "exit": SystemExit,
    "interrupt": PlannedInterrupt,
    "closing": GeneratorExit,
    "own": OwnError,
}
"""Errors that an attempt of this kind raises."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The course of one attempt."""

    kind: str
    """ok, fail, retry, snooze (then ok), snoozes (too many), drop, kill, or one of ``RAISED``."""
    duration_ms: float
    blocking: bool


def plan_of(task: Task, attempt: int) -> Plan:
    """Return how the attempt of that number goes; the last one planned goes on for ever."""
    runs = task.data["runs"]
    assert isinstance(runs, list), "the workload writes a list"
    kind, duration_ms = str(runs[min(attempt, len(runs)) - 1]).split(":")
    return Plan(kind, float(duration_ms), bool(task.data["blocking"]))


def value_of(uniqueness_key: str, attempt: int, fence: int) -> list[JsonValue] | None:
    """Return the value of an attempt that ends well; None for one of four."""
    lot = zlib.crc32(f"{uniqueness_key}:{attempt}:{fence}".encode())
    return [uniqueness_key, attempt, fence] if lot % 4 else None


def returned_by(task: Task, attempt: int, fence: int) -> Done | None:
    """Return what user code does that ended well."""
    return Done(value_of(task.uniqueness_key, attempt, fence)) if "returns" in task.data else None


class SimulatedExecutor(TaskExecutor):
    """Does what its task's data says; how long that lasts is the runner's matter."""

    kind: str | None = None
    """Kind that it was made for."""
    look_at: Callable[[Task], None] | None = None
    """Is given each task that user code is called with."""

    def __init__(self, policy: RetryPolicy) -> None:
        self.retry = policy

    def execute(self, task: Task) -> Outcome | None:
        """End as planned."""
        if self.look_at is not None:
            self.look_at(task)
        match plan_of(task, self.attempt).kind:
            case "fail":
                raise TaskFailed(f"attempt {self.attempt}")
            case "retry":
                return Retry(after=timedelta(milliseconds=300))
            case "snooze" if self.snoozed < SNOOZES:
                return Snooze(after=timedelta(milliseconds=SNOOZE_MS), times_max=SNOOZES)
            case "snoozes":
                return Snooze(after=timedelta(milliseconds=SNOOZE_MS), times_max=SNOOZES)
            case "drop":
                return Drop("as planned")
            case "kill":
                raise ProcessKilled
            case kind if kind in RAISED:
                raise RAISED[kind]
            case _:
                return returned_by(task, self.attempt, self.fence)


def simulated_executor(
    policy: RetryPolicy,
    knows_kinds: bool,
    kind: str | None,
) -> SimulatedExecutor:
    """Return what runs tasks of a kind, or of none; UnknownKind on a node that knows no kinds."""
    if kind is not None and not knows_kinds:
        raise UnknownKind(f"this node does not know {kind}")
    executor = SimulatedExecutor(policy)
    executor.kind = kind
    return executor


class SimulatedBatch(BatchExecutor):
    """Does what the data of its tasks says: where one is to fail, all of them fail at first.

    Called for each task alone then, it fails of those that are to fail.  It tells of a task that it
    is called with behind one of its ordering id that failed so.
    """

    batch_wait = timedelta(milliseconds=30)
    batches_max = 2
    runs_of_one_id = True

    def __init__(self, policy: RetryPolicy, tasks_max: int, complain: Miscalled) -> None:
        self.retry = policy
        self.batch_tasks_max = tasks_max
        self._complain = complain
        self._failed = set[str]()
        """Ordering ids of which a task of this batch failed alone."""

    @property
    def retries_alone(self) -> bool:  # type: ignore[override]
        """Say so, once for each batch."""
        self._failed.clear()
        return True

    def execute_many(self, tasks: Sequence[Task]) -> Sequence[BatchOutcome]:
        """End as planned."""
        told = zip(tasks, self.attempts, self.fences, strict=True)
        return [self._execute(*each) for each in told]

    def _execute(self, task: Task, attempt: int, fence: int) -> Outcome | None:
        if task.ordering_id in self._failed:
            self._complain(task.key, "ran alone behind one of its ordering id that failed")
        single, one = SimulatedExecutor(self.retry), len(self.attempts) == 1
        single.attempt, single.fence = attempt, fence
        try:
            outcome = single.execute(task)
        except BaseException:
            self._failed.update({task.ordering_id} if one else ())
            raise
        if one and isinstance(outcome, Retry):
            self._failed.add(task.ordering_id)
        return outcome


def in_batches(
    make: RoutedFactory,
    policy: RetryPolicy,
    tasks_max: Mapping[str | None, int],
    complain: Miscalled,
) -> RoutedFactory:
    """Return what makes executors whose tasks run in batches, those of sick ids in their own."""
    batches: dict[tuple[str | None, bool], KindBatches] = {}

    def made(ordering_id: str, kind: str | None) -> TaskExecutor:
        of = kind, ordering_id.startswith(SICK)
        if ordering_id.startswith(RESERVED) or kind not in tasks_max:
            return make(ordering_id, kind)
        if of not in batches:
            guests = GuestKind(partial(SimulatedBatch, policy, tasks_max[kind], complain))
            batches[of] = KindBatches(guests, MiddlewareStack())
        return BatchMember(batches[of])

    return made


def in_processes(make: RoutedFactory, policy: RetryPolicy) -> RoutedFactory:
    """Return what makes stand-ins for executors whose tasks run in processes."""
    member = ProcessMember(policy, None)

    def made(ordering_id: str, kind: str | None) -> TaskExecutor:
        executor = make(ordering_id, kind)
        return executor if ordering_id.startswith(RESERVED) else member

    return made


class HostileExecutor(SimulatedExecutor):
    """Raises by lot where nobody expects it: where its attributes are read, and in its wait."""

    def __init__(self, policy: RetryPolicy, shares: "Shares", rng: random.Random) -> None:
        raise_by_lot(shares.setup, rng)
        self._policy = RetryPolicy(
            policy.attempts_max, _RaisingWait(policy.wait, shares.setup, rng), policy.on_exhausted
        )
        self._shares = shares
        self._rng = rng
        self._is_looked_over = False

    @property
    def retry(self) -> RetryPolicy:  # type: ignore[override]
        """Raise, or name a policy whose wait raises."""
        raise_by_lot(self._shares.setup, self._rng)
        return self._policy

    @property
    def timeout(self) -> timedelta | None:  # type: ignore[override]
        """Raise, or name none; not where it is looked over at first, which would break it for
        good and give it the default policy, whose waits are longer than most runs.
        """
        if self._is_looked_over:
            raise_by_lot(self._shares.calls, self._rng)
        self._is_looked_over = True
        return None


class _RaisingWait(wait_base):
    """Raises by lot instead of what another strategy says."""

    def __init__(self, strategy: wait_base, share: float, rng: random.Random) -> None:
        self._strategy = strategy
        self._share = share
        self._rng = rng

    def __call__(self, retry_state: RetryCallState) -> float:
        """Raise, or return the wait in seconds."""
        raise_by_lot(self._share, self._rng)
        return self._strategy(retry_state)


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares in which user code raises what nobody expects."""

    calls: float = 0.0
    """Share of raising where its ``timeout`` is read."""
    setup: float = 0.0
    """In its constructor, where its ``retry`` is read, and in its wait strategy: the default
    policy is in force then.
    """


NOT_HOSTILE = Shares()


def raise_by_lot(share: float, rng: random.Random) -> None:
    """Raise one of ``RAISED``, in this share of calls."""
    if share and rng.random() < share:
        raise rng.choice(tuple(RAISED.values()))


def hostile(
    make: RoutedFactory, policy: RetryPolicy, shares: Shares, rng: random.Random
) -> RoutedFactory:
    """Return what makes executors that raise, for ids that are not to be on time."""
    if not (shares.calls or shares.setup):
        return make
    lots = random.Random(rng.getrandbits(64))

    def made(ordering_id: str, kind: str | None) -> TaskExecutor:
        if not ordering_id.startswith(SICK):
            return make(ordering_id, kind)
        return GuestKind(partial(HostileExecutor, policy, shares, lots)).guest()

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
