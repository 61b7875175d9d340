"""ComputingWatch: attempts that last and use a processor are what it looks for."""

import threading

import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.scheduler.adapters.clock import thread_ms
from hourhand.scheduler.node.computing_watch import CALM_MS, ComputingWatch
from hourhand.scheduler.node.workers.worker_threads import own_clock
from tests.unit.scheduler.node.runner_bench import TIMEOUT_S, Bench, Blocking


class Watched:
    """Threads by their clocks, what they run, and the time they have used."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.at_work: dict[int, object] = {}
        self.used_ms: dict[int, float] = {}
        self.chosen: list[int] = []
        self.watch = ComputingWatch(
            lambda: self.at_work, self.used_ms.get, self.clock, self.chosen.append
        )

    def window(self, *used_ms: float, window_ms: float = 100) -> None:
        """Let a window pass, in which each thread uses so much time, and look."""
        self.clock.advance(window_ms)
        for clock, ms in enumerate(used_ms):
            self.used_ms[clock] = self.used_ms.get(clock, 0) + ms
        self.watch.look()


def test_attempts_that_last_and_compute_are_counted() -> None:
    """With those that wait beside them left out."""
    watched = Watched()
    watched.at_work = {0: "a", 1: "b", 2: "waits"}

    watched.window(0, 0, 0)
    watched.window(45, 45, 0)

    assert watched.chosen == [2]


@pytest.mark.parametrize("ends", ["each has another attempt", "none has one"])
def test_a_drain_of_short_attempts_does_not_compute(ends: str) -> None:
    """However busy it keeps all threads."""
    watched = Watched()
    for number in range(20):
        busy = ends == "each has another attempt" or not number % 2
        watched.at_work = {each: f"{number}-{each}" if busy else None for each in range(4)}
        watched.window(25, 25, 25, 25)

    assert not watched.chosen


def test_one_that_waits_all_the_time_does_not_compute() -> None:
    """As most slow attempts do."""
    watched = Watched()
    watched.at_work = {0: "a"}

    for _ in range(20):
        watched.window(5)

    assert not watched.chosen


def test_it_is_calm_again_once_nothing_has_computed_for_a_while() -> None:
    """A pause between two attempts that compute changes nothing."""
    watched = Watched()
    watched.at_work = {0: "a"}
    watched.window(0)
    watched.window(90)
    watched.at_work = {0: None}
    for _ in range(int(CALM_MS) // 100 - 1):
        watched.window(0)
    early = list(watched.chosen)

    for _ in range(10):
        watched.window(0)

    assert early == [1] and watched.chosen == [1, 0]


def test_looks_that_come_too_soon_are_passed_over() -> None:
    """A window that is too short says nothing."""
    watched = Watched()
    watched.at_work = {0: "a"}
    watched.window(0)

    for _ in range(9):
        watched.window(9, window_ms=10)

    assert not watched.chosen
    watched.window(9, window_ms=10)
    assert watched.chosen == [1]


def test_a_runner_says_what_its_threads_are_at() -> None:
    """By clocks that count what they compute; an idle thread is at nothing."""
    bench, begun, go = Bench(), threading.Event(), threading.Event()
    clocks: list[int] = []

    def work() -> None:
        clocks.append(own_clock())
        begun.set()
        assert go.wait(TIMEOUT_S)

    attempt = bench.run(Blocking(work))
    assert begun.wait(TIMEOUT_S)
    (at_work,) = bench.workers.at_work().items()
    go.set()
    bench.ended()
    bench.close()

    assert at_work[0] == clocks[0] and at_work[1].attempt is attempt  # type: ignore[attr-defined]
    assert thread_ms(own_clock()) is not None


def test_what_is_not_a_clock_shows_nothing() -> None:
    """A thread may have ended, and some systems have no such clocks."""
    assert thread_ms(1_000_000) is None
    assert thread_ms(2**63) is None
