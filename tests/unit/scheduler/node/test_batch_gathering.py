"""Which attempts go into a batch together, and when it begins."""

from collections.abc import Callable
from typing import Any

from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.batch_gathering import BatchGathering
from hourhand.scheduler.node.stages import RunningBatch
from hourhand.scheduler.ports.batches import BatchLimits, BatchMember
from tests.builders import RecordingExecutable, an_attempt


class Batches:
    """Limits alone."""

    def __init__(self, tasks_max: int, wait_ms: float, batches_max: int = 1) -> None:
        self.limits = BatchLimits(tasks_max, wait_ms, batches_max)


class Clock:
    """Time that the test moves, and one who calls later."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def monotonic_ms(self) -> float:
        """Return it."""
        return self.now_ms

    def call_later(self, delay_ms: float, call: Callable[[], None]) -> Callable[[], object]:
        """Keep it until ``advance``."""
        timer = (self.now_ms + delay_ms, call)
        self.timers.append(timer)
        return lambda: self.timers.remove(timer)

    def advance(self, delay_ms: float) -> None:
        """Let time pass, and call what is due."""
        self.now_ms += delay_ms
        due = [call for at_ms, call in self.timers if at_ms <= self.now_ms]
        self.timers = [each for each in self.timers if each[0] > self.now_ms]
        for call in due:
            call()


class Gathered:
    """A gathering, and the sizes of the batches that it began."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.begun: list[int] = []
        self.members: list[RunningAttempt] = []
        self.batches: list[RunningBatch] = []
        self.passed: list[RunningAttempt] = []
        self.gathering = BatchGathering(
            monotonic_ms=self.clock.monotonic_ms,
            call_later=self.clock.call_later,
            run_batch=self._run_batch,
            following=self.passed.extend,
        )

    def _run_batch(self, batch: RunningBatch) -> None:
        self.begun.append(len(batch.members))
        self.members += batch.members
        self.batches.append(batch)

    def add(self, batches: Any, count: int, partition: int = 0) -> list[RunningAttempt]:
        """Let so many attempts come."""
        member = BatchMember(batches)
        added = [
            RunningAttempt(an_attempt(partition=partition), member, None) for _ in range(count)
        ]
        self.gathering.enter(added)
        return added


def test_a_full_batch_begins_at_once_and_the_rest_waits() -> None:
    """In the order in which they came."""
    gathered, batches = Gathered(), Batches(3, wait_ms=10, batches_max=9)

    added = gathered.add(batches, 7)

    assert gathered.begun == [3, 3] and gathered.members == added[:6]


def test_the_first_waits_as_long_as_it_may() -> None:
    """Those that came meanwhile go with it; the next batch has its own time."""
    gathered, batches = Gathered(), Batches(3, wait_ms=10, batches_max=9)

    gathered.add(batches, 1)
    gathered.clock.advance(9)
    gathered.add(batches, 1)
    assert not gathered.begun
    gathered.clock.advance(2)
    assert gathered.begun == [2]
    gathered.add(batches, 1)
    gathered.clock.advance(9)
    assert gathered.begun == [2]
    gathered.clock.advance(2)

    assert gathered.begun == [2, 1]


def test_no_more_run_at_once_than_may() -> None:
    """What has waited long enough goes as soon as one ends, full or not."""
    gathered, batches = Gathered(), Batches(3, wait_ms=10)

    gathered.add(batches, 3)
    gathered.add(batches, 1)
    gathered.clock.advance(100)
    gathered.add(batches, 1)
    assert gathered.begun == [3]
    gathered.batches[0].ended()

    assert gathered.begun == [3, 2]


def test_kinds_do_not_wait_for_each_other() -> None:
    """Each has its own limits."""
    gathered = Gathered()

    gathered.add(Batches(2, wait_ms=10), 2)
    gathered.add(Batches(1, wait_ms=10), 1)

    assert gathered.begun == [2, 1]


def test_without_a_wait_each_goes_as_it_comes() -> None:
    """And what comes while it runs goes together."""
    gathered, batches = Gathered(), Batches(5, wait_ms=0)

    gathered.add(batches, 1)
    gathered.add(batches, 1)
    gathered.add(batches, 2)
    gathered.batches[0].ended()

    assert gathered.begun == [1, 3]


def test_what_has_no_batch_and_what_runs_alone_passes() -> None:
    """A suspect has no company."""
    gathered, member = Gathered(), BatchMember(Batches(5, wait_ms=10))  # type: ignore[arg-type]
    plain = RunningAttempt(an_attempt(), RecordingExecutable(), None)
    suspect = RunningAttempt(an_attempt(suspect=True), member, None)

    gathered.gathering.enter([plain, suspect])

    assert gathered.passed == [plain, suspect] and not gathered.clock.timers


def test_what_goes_to_another_owner_waits_for_company_no_longer() -> None:
    """Nor does what waits with it; others do, and nobody looks at a batch that has begun."""
    gathered = Gathered()
    leaving, staying = Batches(5, wait_ms=1_000), Batches(5, wait_ms=1_000)
    gathered.add(leaving, 1, partition=3)
    gathered.add(leaving, 1)
    gathered.add(staying, 1)

    gathered.gathering.drain([3])

    assert gathered.begun == [2] and len(gathered.clock.timers) == 1


def test_what_leaves_goes_as_soon_as_another_batch_has_ended() -> None:
    """No more run at once than may."""
    gathered, batches = Gathered(), Batches(2, wait_ms=1_000)
    gathered.add(batches, 3)

    gathered.gathering.drain([0])
    before = list(gathered.begun)
    gathered.batches[0].ended()

    assert before == [2] and gathered.begun == [2, 1]
