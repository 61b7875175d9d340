"""ThroughputController: it loads into the room there is, and never stops looking."""

import pytest

from hourhand.actors.messages import (
    BandsChanged,
    LoadMeasured,
    LoadTasks,
    MeasureLoad,
    ShrinkWindow,
    TasksLoaded,
)
from hourhand.actors.model.values.settings import TreeSettings, WindowSettings
from hourhand.actors.model.window.band import BandName
from hourhand.actors.throughput_controller import (
    FIRST_AHEAD_MS,
    ON_TIME_AHEAD_MS,
    ThroughputController,
)
from tests.builders import NOW_MS
from tests.unit.probes import Harness

WINDOW = WindowSettings(
    look_ahead_ms=300_000, prefetch_ms=60_000, tick_ms=200, page_tasks=100, tasks_max=500
)


class Bench:
    """A ThroughputController between probes."""

    def __init__(self, window: WindowSettings = WINDOW) -> None:
        settings = TreeSettings(window=window)
        self.harness = Harness(settings)
        self.ref = self.harness.spawn(ThroughputController(settings))
        self.scheduler = self.harness.scheduler
        self.persistence = self.harness.persistence

    def tell(self, message: object) -> None:
        """Let the role handle a message."""
        self.ref.tell(message)
        self.harness.run()

    @property
    def pending(self) -> tuple[int, int, int]:
        """Questions, loads and timers that are under way: exactly one in all."""
        timers = int(self.harness.system.next_timer_ms() is not None)
        questions = len([m for m in self.scheduler.messages if isinstance(m, MeasureLoad)])
        loads = len([m for m in self.persistence.messages if isinstance(m, LoadTasks)])
        return questions, loads, timers

    def measure(self, waiting: int, executing: int = 0, on_time: int = 0) -> None:
        """Answer the question how much is in memory."""
        self.scheduler.take(MeasureLoad)
        self.tell(LoadMeasured(waiting, executing, on_time))

    def begin(self) -> None:
        """Let the first load, of what is due soon, be over, and the next look begin."""
        self.measure(waiting=0)
        self.load(FIRST_AHEAD_MS)
        self.harness.advance(WINDOW.tick_ms)

    def load(self, ahead_ms: int, *, complete: bool = True) -> None:
        """Answer a load."""
        self.persistence.take(LoadTasks)
        self.tell(TasksLoaded(self.harness.clock.now_ms() + ahead_ms, complete))


def test_the_first_load_brings_what_is_due_soon() -> None:
    """A partition that changed hands starts nothing before; the rest follows a tick later."""
    bench = Bench()

    bench.measure(waiting=430, executing=10)
    first = bench.persistence.messages[-1]
    bench.load(FIRST_AHEAD_MS)
    early = bench.pending
    bench.harness.advance(200)
    bench.measure(waiting=440)

    assert first == LoadTasks(NOW_MS + FIRST_AHEAD_MS, 60) and early == (0, 0, 1)
    assert bench.persistence.take(LoadTasks) == LoadTasks(NOW_MS + 200 + 300_000, 60)


def test_the_first_load_goes_on_until_all_that_is_due_is_there() -> None:
    """However many pages that takes."""
    bench = Bench()
    bench.measure(waiting=0)

    bench.load(-5_000, complete=False)
    bench.measure(waiting=100)

    assert bench.persistence.take(LoadTasks) == LoadTasks(NOW_MS + FIRST_AHEAD_MS, 100)


def test_a_short_window_is_never_stretched() -> None:
    """What the operator allows in memory holds for the first load, too."""
    bench = Bench(WindowSettings(look_ahead_ms=1_000))

    bench.measure(waiting=0)

    assert bench.persistence.take(LoadTasks).before_ms == NOW_MS + 1_000


def test_it_loads_up_to_the_window_into_the_room_there_is() -> None:
    """A page at most."""
    bench = Bench()
    bench.begin()

    bench.measure(waiting=430, executing=10)

    assert bench.persistence.take(LoadTasks) == LoadTasks(NOW_MS + 200 + 300_000, 60)


def test_a_page_is_the_most_it_asks_for() -> None:
    """However empty memory is."""
    bench = Bench()

    bench.measure(waiting=0)

    assert bench.persistence.take(LoadTasks).limit == 100


@pytest.mark.parametrize("free", [0, 49])
def test_it_waits_until_a_tenth_is_free(free: int) -> None:
    """Small pages cost a round trip each."""
    bench = Bench()

    bench.measure(waiting=500 - free)
    early = bench.pending
    bench.harness.advance(200)

    assert (early, bench.pending) == ((0, 0, 1), (1, 0, 0))


def test_an_incomplete_page_is_followed_by_a_look_at_the_room() -> None:
    """At once, not by the clock."""
    bench = Bench()

    bench.measure(waiting=0)
    bench.load(1_000, complete=False)

    assert bench.pending == (1, 0, 0)


def test_the_next_load_begins_before_the_window_ends() -> None:
    """A prefetch ahead of it."""
    bench = Bench()
    bench.measure(waiting=0)
    bench.load(300_000)

    bench.harness.advance(239_999)
    early = bench.pending
    bench.harness.advance(1)

    assert (early, bench.pending) == ((0, 0, 1), (1, 0, 0))


@pytest.mark.parametrize("step_ms", [600_000, 3_600_000, 86_400_000, 366 * 86_400_000])
def test_a_clock_set_forward_brings_the_next_load_within_its_check(step_ms: int) -> None:
    """The window's end is a time of the wall clock, and the clock that is slept by knows nothing of
    the step.
    """
    bench = Bench()
    bench.measure(waiting=0)
    bench.load(300_000)
    bench.harness.advance(10_500)
    bench.harness.clock.step_wall(step_ms)

    bench.harness.advance(WINDOW.clock_check_ms)

    assert bench.pending == (1, 0, 0)


def test_a_clock_set_far_back_puts_off_the_next_load_by_one_window_at_most() -> None:
    """The window's end looks far away then."""
    bench = Bench()
    bench.measure(waiting=0)

    bench.load(86_400_000)
    bench.harness.advance(300_000)

    assert bench.pending == (1, 0, 0)


def test_p13_too_many_tasks_are_left_to_the_store() -> None:
    """What executes cannot be left; the rest shrinks to what is allowed."""
    bench = Bench()
    bench.measure(waiting=0)
    bench.load(300_000)

    bench.tell(LoadMeasured(waiting=600, executing=100))

    assert bench.scheduler.take(ShrinkWindow).tasks_max == 400


def test_after_a_shrink_it_looks_again_soon() -> None:
    """Not only when the window that was loaded before is nearly over."""
    bench = Bench()
    bench.measure(waiting=0)
    bench.load(300_000)

    bench.tell(LoadMeasured(waiting=600, executing=0))
    bench.harness.advance(200)

    assert bench.pending == (1, 0, 0)


def test_where_all_flows_have_enough_it_looks_again_after_a_tick() -> None:
    """The store is not asked again and again for what has to wait."""
    bench = Bench()
    bench.measure(waiting=0)
    bench.persistence.take(LoadTasks)

    bench.tell(TasksLoaded(NOW_MS - 9_000, complete=False, held_up=True))
    early = bench.pending
    bench.harness.advance(200)

    assert (early, bench.pending) == ((0, 0, 1), (1, 0, 0))


def test_more_executing_than_allowed_keeps_nothing_waiting() -> None:
    """A number below zero means nothing to anybody."""
    bench = Bench()

    bench.measure(waiting=10, executing=600)

    assert bench.scheduler.take(ShrinkWindow).tasks_max == 0


def test_p13_too_many_bytes_are_left_to_the_store() -> None:
    """However few tasks hold them."""
    bench = Bench()
    budget = bench.harness.siblings.budget
    budget.keep_waiting(budget.share_bytes + 1)

    bench.measure(waiting=10, executing=3)

    assert bench.scheduler.take(ShrinkWindow).tasks_max == 497
    assert bench.pending == (0, 0, 1)


def test_p13_what_just_fits_stays() -> None:
    """In tasks and in bytes."""
    bench = Bench()
    budget = bench.harness.siblings.budget
    budget.resize(0, budget.share_bytes)

    bench.measure(waiting=400, executing=100)

    assert not bench.scheduler.has(ShrinkWindow) and bench.pending == (0, 0, 1)


@pytest.mark.parametrize(("missing_bytes", "pending"), [(0, (0, 1, 0)), (1, (0, 0, 1))])
def test_it_waits_until_a_tenth_of_the_bytes_is_free(
    missing_bytes: int, pending: tuple[int, int, int]
) -> None:
    """As it does for tasks: small pages cost a round trip each."""
    bench = Bench()
    budget = bench.harness.siblings.budget
    budget.keep_waiting(budget.share_bytes - budget.share_bytes // 10 + missing_bytes)

    bench.measure(waiting=0)

    assert bench.pending == pending


@pytest.mark.parametrize("state", ["measuring", "loading", "waiting"])
def test_an_unasked_measure_never_leaves_it_with_nothing_to_wait_for(state: str) -> None:
    """Exactly one of question, load and timer is under way, whatever comes unasked."""
    bench = Bench()
    if state != "measuring":
        bench.measure(waiting=0)
    if state == "waiting":
        bench.load(300_000)

    bench.tell(LoadMeasured(waiting=600, executing=0))
    bench.tell(LoadMeasured(waiting=600, executing=0))
    if state == "measuring":
        # The question was answered by what came unasked; its own answer follows.
        bench.measure(waiting=100)
    if state == "loading":
        bench.load(300_000)

    assert sum(bench.pending) == 1
    bench.harness.advance(300_000)
    assert sum(bench.pending) == 1 and bench.pending[0] == 1


def behind(reached_ms: int, waiting: int, on_time: int = 0) -> Bench:
    """Return a bench that was told of a backlog, and then how much is in memory."""
    bench = Bench()
    bench.measure(waiting=0)
    bench.tell(BandsChanged(reached_ms))
    bench.load(-60_000, complete=False)
    bench.measure(waiting=waiting, on_time=on_time)
    return bench


def test_what_is_on_time_is_loaded_beside_a_backlog() -> None:
    """First, and for a short while ahead."""
    bench = behind(NOW_MS, waiting=100)

    assert bench.persistence.take(LoadTasks) == LoadTasks(
        NOW_MS + ON_TIME_AHEAD_MS, 100, band=BandName.ON_TIME
    )


@pytest.mark.parametrize(("ahead_ms", "is_next"), [(2_499, True), (2_500, False)])
def test_what_is_on_time_is_loaded_again_in_time(ahead_ms: int, *, is_next: bool) -> None:
    """When half of that has passed."""
    bench = behind(NOW_MS + ahead_ms, waiting=100)

    assert bench.persistence.take(LoadTasks).band is (
        BandName.ON_TIME if is_next else BandName.ORDINARY
    )


@pytest.mark.parametrize(("on_time", "expected"), [(190, (60, True)), (210, (100, False))])
def test_what_is_on_time_takes_half_of_memory_ahead(
    on_time: int, expected: tuple[int, bool]
) -> None:
    """What is overdue does not wait for room that tasks take which are not due yet."""
    bench = behind(NOW_MS, waiting=210, on_time=on_time)

    load = bench.persistence.take(LoadTasks)

    assert (load.limit, load.band is BandName.ON_TIME) == expected


@pytest.mark.parametrize(("waiting", "loads"), [(325, 1), (326, 0)])
def test_p13_a_quarter_of_memory_is_kept_for_what_is_on_time(waiting: int, loads: int) -> None:
    """A tenth is free beside it, or the overdue ones wait."""
    bench = behind(NOW_MS + 5_000, waiting=waiting)

    assert bench.pending == (0, loads, 1 - loads)


def test_p13_without_room_nothing_is_loaded_at_all() -> None:
    """It looks again a tick later."""
    bench = behind(NOW_MS, waiting=451)

    assert bench.pending == (0, 0, 1)


def test_all_memory_is_for_all_where_the_backlog_is_worked_off() -> None:
    """Nothing is kept for anybody."""
    bench = behind(NOW_MS + 5_000, waiting=400)

    bench.tell(BandsChanged(None))
    bench.harness.advance(200)
    bench.measure(waiting=400)

    assert bench.persistence.take(LoadTasks).limit == 100
