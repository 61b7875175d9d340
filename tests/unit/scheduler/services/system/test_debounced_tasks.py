"""The last of several calls makes its task, once they have ended, whatever fails meanwhile."""

from datetime import timedelta
from typing import Any

import pytest

from hourhand import Hourhand, Receipt, Task, TaskState
from hourhand.actors.model.values.errors import InvalidTask, TaskInThePast
from hourhand.scheduler.services.system.debounced_tasks import debounced_call
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.tasks.appending import TaskAppender
from hourhand.scheduler.testing import VirtualScheduler
from tests.builders import Idle
from tests.failing_once import fail_once

MINUTE = timedelta(minutes=1)
NOT_A_TIMEDELTA: Any = 60
PIECES: tuple[tuple[type, str, int], ...] = (
    (DefinitionBook, "find_all", 0),
    (DefinitionBook, "save_all", 0),
    (TaskAppender, "_append", 0),
    (DefinitionBook, "find_all", 2),
    (TaskAppender, "_append", 2),
    (DefinitionBook, "save_all", 2),
)
"""Requests that two calls and the ends of their windows wait for, and how many come before."""


class DebounceBench:
    """Calls for the same ids, each with a number of its own, due at once."""

    def __init__(self) -> None:
        self.scheduler = VirtualScheduler(executors={"mail": Idle}, executor=Idle)
        self.client = self.scheduler.client

    def call(self, number: int, window: timedelta = MINUTE, **fields: Any) -> Receipt:
        """Call for a task of the ids that all have."""
        return self.client.schedule_task(self.task(number, **fields), debounce=window).result(1)

    def task(self, number: int, **fields: Any) -> Task:
        """Return the task of one call."""
        named: dict[str, Any] = {"ordering_id": "page-7", "uniqueness_key": "index"}
        due = {"scheduled_time": self.scheduler.now, "data": {"number": number}}
        return Task(**{**named, **due, **fields})

    @property
    def made(self) -> list[int]:
        """The numbers of the tasks that were made, in the order of their times."""
        self.scheduler.run_due()
        return [each.data["number"] for each in self.client.list_tasks() if each.data]

    @property
    def ran(self) -> list[int]:
        """The numbers of the tasks that ran, in order."""
        own = [each for each in self.scheduler.executions if each.key.ordering_id == "page-7"]
        found = [self.client.find_task(each.key).data for each in own]
        return [each["number"] for each in found if each is not None]

    def state(self, receipt: Receipt) -> TaskState:
        """Return what was made of a call."""
        return self.client.find_task(receipt).state


def test_the_last_call_makes_its_task_once_it_was_quiet() -> None:
    """Each call begins the window again."""
    bench = DebounceBench()
    for number in (1, 2, 3):
        bench.call(number)
        bench.scheduler.advance(seconds=50)
    assert bench.ran == []

    bench.scheduler.advance(seconds=9)
    assert bench.ran == []
    bench.scheduler.advance(seconds=1)

    assert bench.ran == bench.made == [3]


def test_a_call_after_the_window_makes_another_task() -> None:
    """Each burst of calls has one."""
    bench = DebounceBench()
    for number in (1, 2):
        bench.call(number)
        bench.scheduler.advance(seconds=60)

    assert bench.ran == [1, 2]


def test_calls_at_one_moment_are_told_apart() -> None:
    """The last one wins, though the clock did not move."""
    bench = DebounceBench()
    for number in range(20):
        bench.call(number)
    bench.scheduler.advance(MINUTE)

    assert bench.ran == bench.made == [19]


def test_a_task_is_due_at_its_own_time_where_that_is_later() -> None:
    """The window's end is the earliest time."""
    bench = DebounceBench()
    at = bench.scheduler.now + timedelta(days=2)
    bench.call(1, scheduled_time=at, kind="mail")
    early = bench.scheduler.now + timedelta(seconds=1)
    bench.call(2, scheduled_time=early, uniqueness_key="other")
    due = bench.scheduler.now + MINUTE
    bench.scheduler.advance(minutes=2)

    first, second = bench.client.list_tasks()
    assert (second.key.scheduled_time, second.kind, second.data) == (at, "mail", {"number": 1})
    assert (first.key.scheduled_time, first.state) == (due, TaskState.SUCCESS)


@pytest.mark.parametrize("fields", [{"ordering_id": "page-8"}, {"uniqueness_key": "x"}])
def test_other_ids_are_not_replaced(fields: dict[str, Any]) -> None:
    """All of kind, ordering id and uniqueness key say what is the same."""
    bench = DebounceBench()
    bench.call(1)
    bench.call(2, **fields)
    bench.scheduler.advance(seconds=1)
    bench.call(3, kind="mail")
    bench.scheduler.advance(minutes=1)

    assert sorted(bench.made) == [1, 2, 3]


def test_unique_for_and_debounce_do_not_meet() -> None:
    """Each has rows of its own."""
    bench = DebounceBench()
    bench.client.schedule_task(bench.task(1), unique_for=MINUTE).result(1)
    bench.call(2)
    bench.scheduler.advance(minutes=1)

    assert bench.ran == [1, 2]


def test_a_call_that_reaches_the_log_late_is_dropped() -> None:
    """A later one was decided before it."""
    bench = DebounceBench()
    late = debounced_call(bench.task(1), MINUTE, 0, "late")
    bench.call(2)
    bench.scheduler.run_due()
    TaskAppender(bench.client._task_writer(), 4).append(late).result(timeout=1)
    bench.scheduler.advance(minutes=1)

    assert bench.state(Receipt(late.key, 0, 0)) is TaskState.DROPPED
    assert bench.ran == [2]


@pytest.mark.parametrize("windows", [(20, 1), (20, 20), (1, 20), (20, 12, 1)])
def test_a_replaced_call_makes_no_task_though_its_window_ends_weeks_after_the_last_one(
    windows: tuple[int, ...],
) -> None:
    """The row is there until the last window of all calls has ended."""
    bench = DebounceBench()
    due = bench.scheduler.now + timedelta(days=windows[-1])
    for number, days in enumerate(windows):
        bench.call(number, timedelta(days=days))
    bench.scheduler.advance(days=40)

    own = [each.key for each in bench.scheduler.executions if each.key.ordering_id == "page-7"]
    assert [key.scheduled_time for key in own] == [due]


def test_calls_that_pile_up_while_no_node_runs_are_one() -> None:
    """Their windows are over when a node reads them, and the last call still wins."""
    bench = DebounceBench()
    appender = TaskAppender(bench.client._task_writer(), 4)
    now_ms = bench.scheduler.clock.now_ms()
    for number in (1, 2, 3):
        asked_ms = now_ms - 600_000 + number * 100_000
        appender.append(debounced_call(bench.task(number), MINUTE, asked_ms, str(number)))
    bench.scheduler.run_due()

    assert bench.ran == bench.made == [3]


def test_what_cannot_be_debounced_is_refused_at_the_call() -> None:
    """And nothing is sent."""
    bench = DebounceBench()
    for window in (timedelta(0), -MINUTE, timedelta(days=367), NOT_A_TIMEDELTA):
        refused = bench.client.schedule_task(bench.task(1), debounce=window)
        assert isinstance(refused.exception(), InvalidTask)
    both = bench.client.schedule_task(bench.task(1), debounce=MINUTE, unique_for=MINUTE)
    assert isinstance(both.exception(), InvalidTask)
    past = bench.task(1, scheduled_time=bench.scheduler.now - timedelta(days=1))
    assert isinstance(bench.client.schedule_task(past, debounce=MINUTE).exception(), TaskInThePast)
    bench.scheduler.advance(minutes=2)

    assert bench.made == []


@pytest.mark.parametrize("wrong", [{"key": "no key"}, {"until_ms": 10**18}, {"task_data": 1}])
def test_a_call_that_cannot_be_read_is_dropped(wrong: dict[str, Any]) -> None:
    """Anybody may write to the log."""
    bench = DebounceBench()
    good = debounced_call(bench.task(1), MINUTE, 0, "a")
    bad = good.model_copy(update={"data": {**good.data, **wrong}})
    TaskAppender(bench.client._task_writer(), 4).append(bad).result(timeout=1)
    bench.scheduler.run_due()

    assert bench.state(Receipt(bad.key, 0, 0)) is TaskState.DROPPED
    assert bench.made == []


@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize(("owner", "name", "before"), PIECES)
def test_a_crash_at_any_await_loses_no_last_call(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, before: int, takes_effect: bool
) -> None:
    """Before and after what was waited for was durable; another node goes on."""
    bench = DebounceBench()
    calls = fail_once(monkeypatch, owner, name, before, takes_effect=takes_effect)
    bench.call(1)
    bench.call(2)
    bench.scheduler.run_due()
    bench.scheduler.crash()
    bench.scheduler.advance(minutes=1)
    bench.scheduler.crash()
    bench.scheduler.advance(minutes=5)

    assert len(calls) > before
    assert bench.ran == bench.made == [2]


def test_a_crash_at_any_second_changes_nothing() -> None:
    """Two bursts of calls, ten seconds apart."""
    bench = DebounceBench()
    for second in range(40):
        if second % 20 < 10:
            bench.call(second, timedelta(seconds=5))
        bench.scheduler.advance(seconds=1)
        bench.scheduler.crash()
    bench.scheduler.advance(minutes=1)

    assert bench.made == [9, 29]


def test_a_registered_function_and_bulk_debounce_as_well() -> None:
    """And ``unique_for`` in bulk keeps the first."""
    app = Hourhand()

    @app.task("index")
    def index(payload: dict[str, Any]) -> None:
        del payload

    scheduler = VirtualScheduler(executors=app, executor=Idle)
    for number in range(3):
        index.schedule(
            {"number": number}, ordering_id="page-7", uniqueness_key="index", debounce=MINUTE
        ).result(timeout=1)
    windows: dict[str, dict[str, Any]] = {
        "first": {"unique_for": MINUTE},
        "last": {"debounce": MINUTE},
    }
    for ordering_id, window in windows.items():
        result = scheduler.client.schedule_tasks(
            [
                index.make_task(
                    {"number": number},
                    ordering_id=ordering_id,
                    at=scheduler.now + timedelta(seconds=number),
                    uniqueness_key="index",
                )
                for number in range(3)
            ],
            **window,
        )
        assert (result.accepted, result.rejected_count) == (3, 0)
    scheduler.advance(minutes=2)

    made = {each.key.ordering_id: each.data for each in scheduler.client.list_tasks()}
    assert made == {"page-7": {"number": 2}, "first": {"number": 0}, "last": {"number": 2}}
    with pytest.raises(InvalidTask, match="debounce needs a uniqueness_key"):
        index.schedule({}, ordering_id="page-7", debounce=MINUTE)
    with pytest.raises(InvalidTask, match="give one of them"):
        scheduler.client.schedule_tasks([], unique_for=MINUTE, debounce=MINUTE)
