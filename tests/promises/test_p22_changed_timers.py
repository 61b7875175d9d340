"""P22: once a change of a timer is answered, no pop of its earlier state begins."""

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context

import pytest

from hourhand.actors.model.execution.interruption import note_attempt
from hourhand.actors.model.task.definition import Definition, DefinitionName
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.configuration.door_settings import TimerSettings
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.services.system.system_tasks import LeaseEnded, SystemDependencies
from hourhand.scheduler.services.timers.executor import LOOK_MS_MAX, LOOKS_MAX, LookTooOld, RunTimer
from hourhand.scheduler.tasks.appending import TaskAppender
from hourhand.scheduler.testing import execute_task
from tests.builders import an_attempt
from tests.unit.scheduler.services.timers.timers_bench import TimersBench, a_timer


def _stop_reading(bench: TimersBench) -> None:
    """Nobody owns the partitions, as between two owners."""
    bench.scheduler.stop()


@pytest.mark.parametrize("changes", [False, True])
def test_p22_a_pop_that_fails_is_not_tried_again_after_the_answer(*, changes: bool) -> None:
    """Whoever deletes a timer because its target is gone is not called for another minute."""
    bench = TimersBench()
    bench.scheduler.callbacks.failures = 100
    path = bench.made(10)
    bench.advance(11)
    if changes:
        bench.http.put(path, json=a_timer(1_000))
    else:
        bench.http.delete(path)
    bench.advance(300)

    assert bench.pops == [(10.0, 1)]


@pytest.mark.parametrize("changes", [False, True])
def test_p22_a_pop_that_fell_due_before_an_owner_was_there_is_not_made(*, changes: bool) -> None:
    """The timer was deleted after its time, while no node had its partition."""
    bench = TimersBench()
    path = bench.made(10)
    bench.advance(1)
    _stop_reading(bench)
    bench.advance(20)
    answer = bench.http.put(path, json=a_timer(30)) if changes else bench.http.delete(path)
    assert answer.status_code == 200
    bench.scheduler.restart()
    bench.advance(100)

    assert bench.pops == ([(51.0, 1)] if changes else [])


def test_p22_a_timer_begins_anew_with_number_one() -> None:
    """Changed again and again, by whichever of its pops."""
    bench = TimersBench()
    path = bench.made(10, 100)
    for _ in range(5):
        bench.advance(25)
        assert bench.http.put(path, json=a_timer(10, 100)).status_code == 200
    bench.advance(300)

    numbers = [number for _, number in bench.pops]
    assert numbers == [1, 2] * 5 + list(range(1, 11))


class _FrozenBook(DefinitionBook):
    """Definitions that are read before the process stands still, and heard of after it."""

    def __init__(self, bench: TimersBench, meanwhile: Callable[[], None]) -> None:
        kit = bench.scheduler
        super().__init__(kit.stores.definitions, len(kit.broker.partitions), kit.clock)
        self._meanwhile = meanwhile

    def find(self, name: DefinitionName) -> "Future[Definition | None]":
        """Read one row."""
        found = super().find(name)
        self._meanwhile()
        return found


class _Calls:
    """Implements ``Caller``: counts."""

    made = 0

    async def call(self, uri: str, body: bytes, sequence_number: int, of: str) -> None:
        """Count a callback."""
        del uri, body, sequence_number, of
        self.made += 1


def _pop_that_freezes(frozen_ms: int, lease_ms: float, calls: _Calls) -> None:
    """Run a pop on a node that stands still between its look and its call; the timer is deleted
    meanwhile, which is answered.
    """
    bench = TimersBench()
    kit = bench.scheduler
    path = bench.made(10)
    bench.advance(5)
    (pop,) = kit.all_scheduled()
    kit.stop()
    kit.clock.advance(5_000)
    lease_ends_ms = kit.clock.monotonic_ms() + lease_ms

    def meanwhile() -> None:
        # The service has a loop of its own, as in another process.
        with ThreadPoolExecutor(1) as service:
            assert service.submit(bench.http.delete, path).result().status_code == 200
        kit.clock.advance(frozen_ms)

    dependencies = SystemDependencies(
        TaskAppender(MemoryWriter(kit.broker), len(kit.broker.partitions)),
        _FrozenBook(bench, meanwhile),
        kit.clock,
        kit.telemetry,
        lambda: lease_ends_ms,
    )

    def attempt() -> None:
        note_attempt(an_attempt())
        looking = asyncio.Semaphore(LOOKS_MAX)
        timer = RunTimer(dependencies, kit.stores.status, calls, TimerSettings(), looking)
        execute_task(timer, pop)

    copy_context().run(attempt)


def test_p22_a_node_that_was_frozen_does_not_call_back_for_what_it_had_read() -> None:
    """It held its lease all the time; the timer was deleted two seconds ago."""
    calls = _Calls()

    with pytest.raises(LookTooOld):
        _pop_that_freezes(LOOK_MS_MAX + 1, math.inf, calls)

    assert calls.made == 0


def test_p22_a_node_that_wakes_without_its_lease_does_not_call_back() -> None:
    """The next owner may have called already, or found the timer deleted."""
    calls = _Calls()

    with pytest.raises(LeaseEnded):
        _pop_that_freezes(1_000, 1_000.0, calls)

    assert calls.made == 0


def test_p22_what_was_looked_up_a_moment_ago_is_called() -> None:
    """The bound is as long as it says: a slow store does not keep pops away."""
    calls = _Calls()

    _pop_that_freezes(LOOK_MS_MAX, math.inf, calls)

    assert calls.made == 1


class _TogetherBook(DefinitionBook):
    """Definitions that are read for all who asked in one turn of the event loop."""

    def find(self, name: DefinitionName) -> "Future[Definition | None]":
        """Read one row."""
        found: Future[Definition | None] = Future()
        asyncio.get_running_loop().call_soon(found.set_result, super().find(name).result())
        return found


def test_p22_pops_that_are_due_at_once_are_called_by_their_first_looks() -> None:
    """Each takes 5 ms of the event loop before it lets another one go on."""
    bench = TimersBench()
    kit, made = bench.scheduler, list[str]()
    bench.made(10, 100)
    bench.advance(5)
    (pop,) = kit.all_scheduled()
    kit.stop()
    kit.clock.advance(5_000)

    class Calls(_Calls):
        async def call(self, uri: str, body: bytes, sequence_number: int, of: str) -> None:
            await super().call(uri, body, sequence_number, of)
            kit.clock.advance(5)
            made.append(of)

    dependencies = SystemDependencies(
        TaskAppender(MemoryWriter(kit.broker), len(kit.broker.partitions)),
        _TogetherBook(kit.stores.definitions, len(kit.broker.partitions), kit.clock),
        kit.clock,
        kit.telemetry,
        lambda: math.inf,
    )

    async def all_at_once() -> None:
        note_attempt(an_attempt())
        given = dependencies, kit.stores.status, Calls(), TimerSettings()
        looking = asyncio.Semaphore(LOOKS_MAX)
        await asyncio.gather(*(RunTimer(*given, looking).execute(pop) for _ in range(1_000)))

    copy_context().run(asyncio.run, all_at_once())
    assert len(made) == 1_000
