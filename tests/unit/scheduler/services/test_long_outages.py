"""Windows of ``unique_for`` and ``debounce`` over outages and pauses that outlast every row.

The store of the test kit expires rows as Cassandra does, with nobody there to see it.
"""

from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta

import pytest

from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.pauses import Pause, PauseScope
from hourhand.actors.model.task.definition import Definition, DefinitionKind
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import StoreUnavailable
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.services.system.debounced_tasks import debounced_call
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.services.system.unique_tasks import unique_request
from hourhand.scheduler.tasks.appending import TaskAppender
from hourhand.scheduler.testing import VirtualScheduler
from tests.unit.scheduler.testing.testing_bench import Noting

HOUR = timedelta(hours=1)
Make = Callable[[Task, timedelta, int, str], Task]
MAKERS: tuple[Make, ...] = (unique_request, debounced_call)
WEEKS = pytest.mark.parametrize("weeks", [0, 2, 5])
CALLS = 20


class Bench:
    """Calls for the same ids, a second after one another, straight into the log."""

    def __init__(self, make: Make) -> None:
        self.scheduler = VirtualScheduler(Noting)
        self._make = make
        self._begin_ms = self.scheduler.clock.now_ms()
        self._appender = TaskAppender(MemoryWriter(self.scheduler.broker), 4)

    def call(self, number: int, window: timedelta = HOUR) -> None:
        """Have one call reach the log, whenever that is."""
        asked_ms = self._begin_ms + 1_000 * number
        task = Task(
            ordering_id="customer-7",
            scheduled_time=self.scheduler.now,
            uniqueness_key="digest",
            data={"number": number},
        )
        self._appender.append(self._make(task, window, asked_ms, f"call{number:04}")).result(0)

    def pass_weeks(self, weeks: int) -> None:
        """Let time pass while no node runs."""
        self.scheduler.stop()
        self.scheduler.clock.advance(weeks * 7 * 86_400_000)
        self.scheduler.restart()

    def pause(self, *pauses: Pause) -> None:
        """Have an operator pause just these."""
        config = self.scheduler.stores.oversight.read_config(OperatorConfig()).result(0)
        self.scheduler._replace_config(OperatorConfig(config.version + 1, pauses))

    @property
    def rows(self) -> list[Definition]:
        """The rows that say what was decided."""
        places = [(kind, part) for kind in DefinitionKind for part in range(4)]
        pages = [self.scheduler.stores.definitions.page(p, k, None, 10) for k, p in places]
        return [row for page in pages for row in page.result(0).definitions]

    @property
    def ran(self) -> int:
        """How many tasks were made and ran."""
        self.scheduler.advance(minutes=1)
        ended = [each for each in self.scheduler.executions if each.key.ordering_id == "customer-7"]
        return len(ended)


@WEEKS
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("before", [1, 10])
def test_calls_around_an_outage_make_one_task(make: Make, before: int, weeks: int) -> None:
    """True if they were decided before it, behind it, or in part."""
    bench = Bench(make)
    for number in range(before):
        bench.call(number)
    bench.scheduler.advance(seconds=CALLS)
    bench.scheduler.stop()
    for number in range(before, CALLS):
        bench.call(number)

    bench.pass_weeks(weeks)
    bench.scheduler.advance(hours=2)

    assert bench.ran == 1


@WEEKS
@pytest.mark.parametrize("make", MAKERS)
def test_calls_that_reach_the_log_late_find_what_was_decided_late(make: Make, weeks: int) -> None:
    """The row is kept from when its window was ended, not from when that was due."""
    bench = Bench(make)
    bench.scheduler.stop()
    for number in range(10, CALLS):
        bench.call(number)
    bench.pass_weeks(weeks)
    bench.scheduler.advance(hours=2, days=9)
    for number in range(10):
        bench.call(number)
    bench.scheduler.advance(hours=2)

    assert bench.ran == 1


@WEEKS
@pytest.mark.parametrize("make", MAKERS)
def test_a_pause_of_weeks_makes_no_second_task(make: Make, weeks: int) -> None:
    """What was decided before it stands for what is decided after it."""
    bench = Bench(make)
    bench.call(0)
    bench.scheduler.advance(seconds=10)
    bench.pause(Pause(PauseScope.ALL))
    for number in range(1, CALLS):
        bench.call(number)
    bench.scheduler.advance(weeks=weeks)
    bench.pause()
    bench.scheduler.advance(hours=2)

    assert bench.ran == 1


@WEEKS
@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("windows", [(HOUR,), (5 * HOUR, HOUR), (HOUR, 5 * HOUR)])
def test_an_outage_between_the_end_of_the_last_window_and_its_record_makes_no_second_task(
    monkeypatch: pytest.MonkeyPatch, windows: tuple[timedelta, ...], takes_effect: bool, weeks: int
) -> None:
    """The node dies with the last write of the end of the last window done or not, and without its
    outcome.
    """
    bench = Bench(debounced_call)
    for number, window in enumerate(windows):
        bench.call(number, window)
    hours = max(windows) // HOUR
    bench.scheduler.advance(hours=hours - 1, minutes=59)
    real: Callable[..., Future[None]] = DefinitionBook.save_all

    def fails(own: object, *asked: object) -> "Future[None]":
        if takes_effect:
            real(own, *asked)
        failed: Future[None] = Future()
        failed.set_exception(StoreUnavailable("the node died here"))
        return failed

    with monkeypatch.context() as patch:
        patch.setattr(DefinitionBook, "save_all", fails)
        bench.scheduler.advance(minutes=1, seconds=10)
    bench.pass_weeks(weeks)
    bench.scheduler.advance(hours=2)

    assert bench.ran == 1


@pytest.mark.parametrize("make", MAKERS)
def test_a_row_expires_ten_days_after_its_last_window_has_ended(make: Make) -> None:
    """No row is kept for ever."""
    bench = Bench(make)
    bench.call(0)
    bench.call(1)
    bench.scheduler.advance(hours=2)

    kept_ms = [row.expires_ms for row in bench.rows]

    begun_ms = bench.scheduler.clock.now_ms() - 2 * 3_600_000
    assert len(kept_ms) == 1
    assert kept_ms[0] is not None
    assert 0 <= kept_ms[0] - begun_ms - 3_600_000 - 10 * 86_400_000 <= 2_000
