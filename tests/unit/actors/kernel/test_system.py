"""ThreadedSystem: one thread for all actors, timers on time, nothing that kills it."""

import threading
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from hourhand.actors.kernel.actor import Actor
from hourhand.actors.kernel.system import (
    MESSAGES_BETWEEN_TIMERS,
    ROUNDS_BETWEEN_LAST,
    ThreadedSystem,
)
from hourhand.scheduler.adapters.clock import SystemClock
from tests.waiting import until

TIMEOUT_S = 60


class Echo(Actor):
    """Does what it is told and says so on a queue."""

    def __init__(self) -> None:
        self.started: SimpleQueue[float] = SimpleQueue()
        self.told: SimpleQueue[tuple[object, str]] = SimpleQueue()
        self.stopped = threading.Event()

    def on_start(self) -> None:
        self.started.put(self._context.rng.random())

    def on_stop(self) -> None:
        self.stopped.set()

    def on_receive(self, message: object) -> None:
        if isinstance(message, tuple):
            delay_ms, later = message
            self._context.after(delay_ms, later)
        elif isinstance(message, list):
            for urgent in message:
                self._context.tell_first(urgent)
        elif isinstance(message, set):
            for patient in message:
                self._context.tell_last(patient)
        elif isinstance(message, range):
            self.told.put((len(message), ""))
            self._context.tell_self(message[1:] or "end")
        elif isinstance(message, threading.Event):
            message.wait(TIMEOUT_S)
        elif message == "boom":
            raise ValueError(message)
        else:
            self.told.put((message, threading.current_thread().name))


class Bench:
    """A real system, its failures on a queue."""

    def __init__(self) -> None:
        self.failures: SimpleQueue[BaseException] = SimpleQueue()
        self.clock = SystemClock()
        self.system = ThreadedSystem(self.clock, self.failures.put, "test")
        self.echo = Echo()
        self.ref = self.system.spawn_root(self.echo)

    def hear(self) -> object:
        """Return the next message the actor handled."""
        return self.echo.told.get(timeout=TIMEOUT_S)[0]


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A system that is closed afterwards."""
    made = Bench()
    yield made
    made.system.close()


def test_messages_are_handled_in_order_on_the_dispatchers_thread(bench: Bench) -> None:
    """Whoever tells them."""
    for number in range(200):
        bench.ref.tell(number)

    told = [bench.echo.told.get(timeout=TIMEOUT_S) for _ in range(200)]

    assert told == [(number, "test-dispatcher") for number in range(200)]


@pytest.mark.parametrize("waiting", [0, 1, 200])
def test_what_an_actor_tells_first_passes_all_that_waits(bench: Bench, waiting: int) -> None:
    """In the order in which it was told, and without anybody who wakes the dispatcher."""
    gate = threading.Event()
    bench.ref.tell(gate)
    bench.ref.tell(["a", ["b", "c"], "d"])
    for number in range(waiting):
        bench.ref.tell(number)
    gate.set()

    told = [bench.hear() for _ in range(waiting + 4)]

    assert told == ["a", "d", "b", "c", *range(waiting)]


def test_what_an_actor_tells_last_is_passed_by_what_waits_and_by_what_comes(bench: Bench) -> None:
    """Though nobody wakes the dispatcher for it."""
    gate = threading.Event()
    bench.ref.tell(gate)
    bench.ref.tell({"last"})
    for number in range(3):
        bench.ref.tell(number)
    bench.ref.tell(["first"])
    gate.set()

    assert [bench.hear() for _ in range(5)] == [0, 1, 2, "first", "last"]


def test_what_is_told_last_has_its_turn_in_a_flood(bench: Bench) -> None:
    """Each message of it brings the next one."""
    flood = 10 * ROUNDS_BETWEEN_LAST * (MESSAGES_BETWEEN_TIMERS + 1)
    gate = threading.Event()
    bench.ref.tell(gate)
    bench.ref.tell({"last"})
    bench.ref.tell(range(flood))
    gate.set()

    passed = 0
    while bench.hear() != "last":
        passed += 1

    assert 0 < passed <= flood // 5


def test_a_timer_is_on_time_while_something_is_told_last(bench: Bench) -> None:
    """It passes that, as all else does."""
    bench.ref.tell((1, {"last"}))
    bench.ref.tell((1, "late"))

    assert {bench.hear(), bench.hear()} == {"late", "last"}


def test_what_a_timer_lets_an_actor_tell_first_is_handled_too(bench: Bench) -> None:
    """Though nothing else comes."""
    bench.ref.tell((1, ["a"]))

    assert bench.hear() == "a"


def test_a_root_begins_on_the_dispatcher_with_numbers_of_its_own(bench: Bench) -> None:
    """Two systems spread their load differently."""
    first = bench.echo.started.get(timeout=TIMEOUT_S)

    other = ThreadedSystem(bench.clock, bench.failures.put, "other")
    echo = Echo()
    other.spawn_root(echo)
    second = echo.started.get(timeout=TIMEOUT_S)
    other.close()

    assert first != second


def test_a_failure_in_a_flood_is_told_to_the_owner(bench: Bench) -> None:
    """Whichever of the messages that were waiting raises."""
    gate = threading.Event()
    bench.ref.tell(gate)
    for number in range(64):
        bench.ref.tell(number)
    bench.ref.tell("boom")
    others = [Echo() for _ in range(63)]
    refs = [bench.system.spawn_root(other) for other in others]
    for ref in refs:
        ref.tell("boom")
    gate.set()

    told = [str(bench.failures.get(timeout=TIMEOUT_S)) for _ in range(64)]

    assert told == ["boom"] * 64


def test_a_tree_is_stopped_from_outside_behind_what_it_was_told(bench: Bench) -> None:
    """Its owner hears of no failure."""
    bench.ref.tell("last")

    bench.system.stop_tree(bench.ref)

    assert bench.hear() == "last" and bench.echo.stopped.wait(TIMEOUT_S)
    assert bench.failures.empty()


def test_rounds_of_work_are_counted_and_odd_while_one_is_under_way(bench: Bench) -> None:
    """They grow as long as the dispatcher does not hang."""
    seen = []
    for _ in range(5):
        gate = threading.Event()
        bench.ref.tell(gate)
        until(lambda: bench.system.rounds % 2 == 1)
        seen.append(bench.system.rounds)
        gate.set()
        until(lambda: bench.system.rounds % 2 == 0)

    assert seen == sorted(set(seen))


def test_close_waits_no_longer_than_it_is_told(bench: Bench) -> None:
    """User code may hold the dispatcher."""
    gate = threading.Event()
    bench.ref.tell(gate)

    bench.system.close(timeout_ms=0)
    waits = any(thread.name == "test-dispatcher" for thread in threading.enumerate())
    gate.set()

    assert waits


def test_a_timer_fires_on_time_and_not_early(bench: Bench) -> None:
    """While nothing else happens."""
    before_ms = bench.clock.monotonic_ms()

    bench.ref.tell((20, "later"))
    heard = bench.hear()
    waited_ms = bench.clock.monotonic_ms() - before_ms

    assert heard == "later" and 20 <= waited_ms < 1_000


def test_an_earlier_timer_overtakes_one_that_is_waited_for(bench: Bench) -> None:
    """The dispatcher's sleep is cut short by the message that sets it."""
    bench.ref.tell((60_000, "never"))
    bench.ref.tell("awake")
    bench.ref.tell((1, "soon"))

    assert [bench.hear(), bench.hear()] == ["awake", "soon"]


def test_a_flood_of_messages_does_not_hold_back_a_due_timer(bench: Bench) -> None:
    """A due timer is looked at every few dozen messages."""
    gate = threading.Event()
    bench.ref.tell(gate)
    bench.ref.tell((0, "timer"))
    for number in range(1_000):
        bench.ref.tell(number)
    gate.set()

    told = [bench.hear() for _ in range(1_001)]

    assert told.index("timer") < 200


def test_a_wait_of_millennia_does_not_kill_the_dispatcher(bench: Bench) -> None:
    """A retry may ask for it."""
    bench.ref.tell((8.64e16, "never"))
    bench.ref.tell("one")
    first = bench.hear()
    bench.ref.tell("two")

    assert (first, bench.hear()) == ("one", "two")


def test_a_failure_is_told_to_the_owner_and_the_system_goes_on(bench: Bench) -> None:
    """The next tree runs on the same dispatcher."""
    bench.ref.tell("boom")
    error = bench.failures.get(timeout=TIMEOUT_S)
    successor = Echo()
    bench.system.spawn_root(successor).tell("hello")

    assert str(error) == "boom"
    assert successor.told.get(timeout=TIMEOUT_S) == ("hello", "test-dispatcher")
    assert bench.echo.stopped.is_set() and not bench.ref.is_alive()


def test_p16_a_tree_that_was_given_up_fails_in_silence(bench: Bench) -> None:
    """Its late failure would be taken for one of its successor."""
    gate = threading.Event()
    bench.ref.tell(gate)
    bench.ref.tell("boom")
    bench.system.stop_tree(bench.ref)
    successor = Echo()
    bench.system.spawn_root(successor).tell("hello")
    gate.set()

    successor.told.get(timeout=TIMEOUT_S)

    assert bench.failures.empty() and bench.echo.stopped.is_set()


def test_close_handles_what_was_told_before_and_ends_the_thread() -> None:
    """A second close changes nothing."""
    bench = Bench()
    bench.ref.tell("last")

    bench.system.close()
    bench.system.close()

    assert bench.hear() == "last"
    assert "test-dispatcher" not in {thread.name for thread in threading.enumerate()}


class Fatal(Actor):
    """Raises what no actor should let out."""

    def on_receive(self, message: object) -> None:
        raise SystemExit(message)


def test_a_dispatcher_outlives_what_escapes_from_a_message(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Its trees are lost, and their owner hears of it; whatever is spawned next works."""
    bench.system.spawn_root(Fatal()).tell("out")

    assert isinstance(bench.failures.get(timeout=TIMEOUT_S), SystemExit)
    assert bench.echo.stopped.wait(TIMEOUT_S)
    assert isinstance(bench.failures.get(timeout=TIMEOUT_S), SystemExit)

    bench.echo = Echo()
    bench.system.spawn_root(bench.echo).tell("again")
    assert bench.hear() == "again"
    assert "please report this" in caplog.text


def test_an_owner_that_fails_to_hear_of_a_failure_ends_no_dispatcher(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not even with what only ends a process."""
    heard = threading.Event()

    def refuse(_error: BaseException) -> None:
        heard.set()
        raise SystemExit("not now")

    system = ThreadedSystem(SystemClock(), refuse, "test")
    echo = Echo()
    system.spawn_root(echo).tell("boom")
    assert heard.wait(TIMEOUT_S)
    until(lambda: "please report this" in caplog.text)

    echo = Echo()
    system.spawn_root(echo).tell("again")

    assert echo.told.get(timeout=TIMEOUT_S)[0] == "again"
    system.close()
