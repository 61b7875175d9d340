"""One task of some ids in a window, whatever its time, and whatever fails meanwhile."""

from datetime import timedelta
from typing import Any

import pytest

from hourhand import Hourhand, Receipt, Task, TaskState
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.errors import InvalidTask, TaskInThePast
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.services.system.unique_tasks import unique_request
from hourhand.scheduler.tasks.appending import TaskAppender
from hourhand.scheduler.testing import VirtualScheduler
from tests.builders import Idle
from tests.failing_once import fail_once

HOUR = timedelta(hours=1)
NOT_A_TIMEDELTA: Any = 3_600
PIECES: tuple[tuple[type, str, int], ...] = (
    (DefinitionBook, "find_all", 0),
    (DefinitionBook, "save_all", 0),
    (TaskAppender, "_append", 0),
    (TaskAppender, "_append", 1),
)
"""What a request waits for, in this order, and how many of those come before."""


class Bench:
    """Requests for the same ids, each for a time of its own."""

    def __init__(self) -> None:
        self.scheduler = VirtualScheduler(executors={"mail": Idle, "call": Idle}, executor=Idle)
        self.client = self.scheduler.client

    def ask(self, number: int, window: timedelta = HOUR, **fields: Any) -> Receipt:
        """Ask for the task that is due in so many days."""
        return self.client.schedule_task(self.task(number, **fields), unique_for=window).result(1)

    def task(self, number: int, **fields: Any) -> Task:
        """Return a task of the ids that all have."""
        named = {"ordering_id": "customer-7", "uniqueness_key": "digest", **fields}
        due = self.scheduler.now + timedelta(days=number)
        return Task(scheduled_time=due, data={"number": number}, **named)

    @property
    def made(self) -> list[int]:
        """The numbers of the tasks that were made, in the order of their times."""
        self.scheduler.run_due()
        return [each.data["number"] for each in self.client.list_tasks() if each.data]

    def state(self, receipt: Receipt) -> TaskState:
        """Return what was made of a request."""
        self.scheduler.run_due()
        return self.client.find_task(receipt).state


def test_the_first_of_a_window_makes_its_task() -> None:
    """Those that follow say which one did, and until when it is the only one."""
    bench = Bench()
    first, second = bench.ask(2), bench.ask(1)

    assert bench.made == [2]
    assert (bench.state(first), bench.state(second)) == (TaskState.SUCCESS, TaskState.DROPPED)
    reason = bench.client.find_task(second).reason
    assert reason is not None
    assert str(bench.task(2).key) in reason and "until 2026-01-01T01:00:00.000Z" in reason


def test_a_window_begins_with_the_request_that_made_a_task_and_ends() -> None:
    """A later request does not make it longer."""
    bench = Bench()
    bench.ask(1)
    bench.scheduler.advance(minutes=59)
    bench.ask(2)
    bench.scheduler.advance(minutes=1)
    bench.ask(3)
    bench.scheduler.advance(minutes=30)
    bench.ask(4)

    assert bench.made == [1, 3]


def test_a_task_that_ended_is_the_only_one_as_well() -> None:
    """The window is one of time, not of the task's life."""
    bench = Bench()
    bench.ask(0)
    bench.scheduler.advance(minutes=1)
    bench.ask(1)

    assert bench.made == [0]


@pytest.mark.parametrize(
    "fields",
    [{"ordering_id": "customer-8"}, {"uniqueness_key": "letter"}, {"kind": "mail"}],
)
def test_other_ids_and_kinds_have_windows_of_their_own(fields: dict[str, str]) -> None:
    """All three say what is the same."""
    bench = Bench()
    bench.ask(1, kind="call")
    bench.ask(2, HOUR, **{"kind": "call", **fields})

    assert sorted(bench.made) == [1, 2]


def test_ids_may_be_as_long_as_any() -> None:
    """Both together are longer than one may be."""
    bench = Bench()
    for number in (1, 2):
        bench.ask(number, ordering_id="é" * 15_000, uniqueness_key="x" * 30_000)

    assert bench.made == [1]


def test_a_task_is_made_with_its_kind_and_data() -> None:
    """As it was asked for."""
    bench = Bench()
    bench.ask(1, kind="mail")
    bench.scheduler.run_due()

    [info] = bench.client.list_tasks()
    assert (info.kind, info.data, info.key) == ("mail", {"number": 1}, bench.task(1).key)


def test_what_cannot_be_is_refused_at_the_call() -> None:
    """And nothing is sent."""
    bench = Bench()
    for window in (timedelta(0), -HOUR, timedelta(days=367), NOT_A_TIMEDELTA):
        refused = bench.client.schedule_task(bench.task(1), unique_for=window)
        assert isinstance(refused.exception(), InvalidTask)
    past = bench.client.schedule_task(bench.task(-1), unique_for=HOUR)

    assert isinstance(past.exception(), TaskInThePast)
    assert bench.made == []


def test_a_request_that_cannot_be_read_is_dropped() -> None:
    """Anybody may write to the log."""
    bench = Bench()
    good = unique_request(bench.task(1), HOUR, 0, "a")
    bad = good.model_copy(update={"data": {**good.data, "key": "no key"}})
    TaskAppender(bench.client._task_writer(), 4).append(bad).result(timeout=1)
    bench.scheduler.run_due()

    assert bench.state(Receipt(bad.key, 0, 0)) is TaskState.DROPPED
    assert bench.made == []


@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("piece", range(len(PIECES)))
def test_a_crash_at_any_await_neither_loses_nor_doubles(
    monkeypatch: pytest.MonkeyPatch, piece: int, takes_effect: bool
) -> None:
    """Before and after what was waited for was durable; another node goes on."""
    bench = Bench()
    owner, name, before = PIECES[piece]
    calls = fail_once(monkeypatch, owner, name, before, takes_effect=takes_effect)
    first, second = bench.ask(1), bench.ask(2)
    bench.scheduler.run_due()
    bench.scheduler.crash()
    bench.scheduler.advance(minutes=5)

    assert len(calls) > before
    assert bench.made == [1]
    assert (bench.state(first), bench.state(second)) == (TaskState.SUCCESS, TaskState.DROPPED)


def test_a_crash_at_any_time_changes_nothing() -> None:
    """Each second, while requests come."""
    bench = Bench()
    for number in range(30):
        bench.ask(number + 1, timedelta(seconds=10))
        bench.scheduler.advance(seconds=1)
        bench.scheduler.crash()
    bench.scheduler.run_due()

    assert bench.made == [1, 11, 21]


def test_a_registered_function_asks_as_well() -> None:
    """Only with a key that says what is the same."""
    app = Hourhand()

    @app.task("digest")
    def digest(payload: dict[str, Any]) -> None:
        del payload

    scheduler = VirtualScheduler(executors=app)
    for _ in range(3):
        digest.schedule(
            {}, ordering_id="customer-7", uniqueness_key="digest", unique_for=HOUR
        ).result(timeout=1)
    scheduler.run_due()

    [key] = [each.key for each in scheduler.executions if "hourhand" not in each.key.ordering_id]
    assert key == TaskKey(key.scheduled_ms, "customer-7", "digest")
    with pytest.raises(InvalidTask, match="needs a uniqueness_key"):
        digest.schedule({}, ordering_id="customer-7", unique_for=HOUR)
