"""Which attempts go into a batch together, and when it begins."""

from collections.abc import Callable, Sequence
from typing import Any

from scheduler.node.attempts import RunningAttempt
from scheduler.node.waiting_attempts import BatchGathering
from scheduler.ports.batches import BatchLimits
from tests.builders import an_attempt


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

    def call_later(self, delay_ms: float, call: Callable[[], None]) -> None:
        """Keep it until ``advance``."""
        self.timers.append((self.now_ms + delay_ms, call))

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
        self.gathering = BatchGathering(
            monotonic_ms=self.clock.monotonic_ms,
            call_later=self.clock.call_later,
            begin=self._begin,
        )

    def _begin(self, _batches: object, members: Sequence[RunningAttempt]) -> None:
        self.begun.append(len(members))
        self.members += members

    def add(self, batches: Any, count: int) -> list[RunningAttempt]:
        """Let so many attempts come."""
        listener: Any = None
        added = [RunningAttempt(an_attempt(), listener, None) for _ in range(count)]
        self.gathering.add(batches, added)
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
    gathered.gathering.end(batches)  # type: ignore[arg-type]

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
    gathered.gathering.end(batches)  # type: ignore[arg-type]

    assert gathered.begun == [1, 3]
