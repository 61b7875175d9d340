"""Middleware: around every attempt, and at a node's start and stop."""

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from hourhand import RetryPolicy, Scheduler, Settings, Task, TaskExecutor
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import AttemptResult
from hourhand.scheduler.configuration.settings import EmbeddedSettings
from hourhand.scheduler.executors.middleware import (
    AttemptContext,
    ExhaustedNews,
    Middleware,
    MiddlewareStack,
)
from hourhand.scheduler.executors.registry import Hourhand
from hourhand.scheduler.testing import VirtualScheduler

TIMEOUT_S = 60


class Noting(Middleware):
    """Notes what it is told, under a name."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self._name = name
        self._seen = seen

    def on_node_start(self) -> None:
        """Note it."""
        self._seen.append(f"{self._name} starts")

    def on_node_stop(self) -> None:
        """Note it."""
        self._seen.append(f"{self._name} stops")

    @contextmanager
    def around_attempt(self, attempt: AttemptContext) -> Iterator[None]:
        """Note before and after, and what was raised."""
        self._seen.append(f"{self._name} before {attempt.kind} {attempt.attempt}")
        try:
            yield
        except ValueError as error:
            self._seen.append(f"{self._name} failed {error}")
            raise
        self._seen.append(f"{self._name} after")


class Awaiting(Middleware):
    """Goes around async attempts alone."""

    def __init__(self, seen: list[str]) -> None:
        self._seen = seen

    @asynccontextmanager
    async def around_attempt(self, attempt: AttemptContext) -> AsyncIterator[None]:
        """Note before and after."""
        self._seen.append(f"awaiting before {attempt.key.ordering_id}")
        yield
        self._seen.append("awaiting after")


def test_the_first_is_the_outermost_and_sees_what_was_raised() -> None:
    """Before, after and failed, for a blocking attempt and one that is awaited."""
    app, seen = Hourhand(), []
    run = []

    @app.task("mail", retry=RetryPolicy(attempts_max=1))
    def mail() -> None:
        seen.append("mail")
        raise ValueError("no")

    @app.task("charge")
    async def charge() -> None:
        seen.append("charge")

    both = [Noting("outer", seen), Noting("inner", seen)]
    with VirtualScheduler(executors=app, middleware=both) as scheduler:
        for each in (mail, charge):
            each.schedule(None, ordering_id=each.kind).result(TIMEOUT_S)
            run += scheduler.run_due()

    assert [each.result for each in run] == [AttemptResult.FAILURE, AttemptResult.SUCCESS]
    assert seen == [
        "outer before mail 1",
        "inner before mail 1",
        "mail",
        "inner failed no",
        "outer failed no",
        "outer before charge 1",
        "inner before charge 1",
        "charge",
        "inner after",
        "outer after",
    ]


def test_an_asynchronous_context_manager_goes_around_async_attempts_only() -> None:
    """A blocking executor cannot await it: its attempt fails and says so."""
    app, seen = Hourhand(), []

    @app.task("charge")
    async def charge() -> None:
        seen.append("charge")

    @app.task("mail", retry=RetryPolicy(attempts_max=1))
    def mail() -> None:
        seen.append("mail")

    with VirtualScheduler(executors=app, middleware=[Awaiting(seen)]) as scheduler:
        for each in (charge, mail):
            each.schedule(None, ordering_id=each.kind).result(TIMEOUT_S)
        ran = scheduler.run_due()

    assert seen == ["awaiting before charge", "charge", "awaiting after"]
    assert sorted(f"{each.key.ordering_id} {each.error_class}" for each in ran) == [
        "charge None",
        "mail TypeError",
    ]


class Seeing(TaskExecutor):
    """Keeps which attempt it was."""

    seen: list[tuple[int, int]]
    retry = RetryPolicy(attempts_max=1)

    def execute(self, task: Task) -> None:
        """Keep it."""
        self.seen.append((self.attempt, self.fence))


def test_an_executor_within_middleware_knows_its_attempt_and_its_policy() -> None:
    """It is the user's own object that runs, and what it says of itself holds."""
    seen: list[tuple[int, int]] = []
    made = type("Made", (Seeing,), {"seen": seen})
    with VirtualScheduler(made, middleware=[Noting("one", [])]) as scheduler:
        task = Task(ordering_id="o", scheduled_time=scheduler.now, uniqueness_key="u")
        scheduler.schedule_task(task).result(TIMEOUT_S)
        scheduler.run_due()

    assert [number for number, _fence in seen] == [1] and seen[0][1] > 0


class Raising(Noting):
    """Cannot begin."""

    def on_node_start(self) -> None:
        """Raise."""
        raise RuntimeError("no pool")


def settings_in(folder: Path) -> Settings:
    """Return settings of an embedded node."""
    return Settings(embedded=EmbeddedSettings(folder=folder / "data"))


def test_a_node_starts_and_stops_its_middleware(tmp_path: Path) -> None:
    """The outermost first, and the other way round at the end; once each."""
    seen: list[str] = []
    both = [Noting("outer", seen), Noting("inner", seen)]

    with Scheduler(settings_in(tmp_path), executors={}, middleware=both):
        assert seen == ["outer starts", "inner starts"]

    assert seen == ["outer starts", "inner starts", "inner stops", "outer stops"]


def test_middleware_that_cannot_begin_keeps_the_node_from_starting(tmp_path: Path) -> None:
    """What began before it ends, and the folder is free again."""
    seen: list[str] = []
    both = [Noting("outer", seen), Raising("inner", seen)]

    scheduler = Scheduler(settings_in(tmp_path), executors={}, middleware=both)
    with pytest.raises(RuntimeError, match="no pool"):
        scheduler.start()

    assert seen == ["outer starts", "outer stops"]
    with Scheduler(settings_in(tmp_path), executors={}):
        pass


class Hearing(Middleware):
    """Hears of tasks that used up their attempts; the first time it raises."""

    def __init__(self) -> None:
        self.heard: list[tuple[TaskKey, str]] = []
        self.twice = threading.Event()

    def on_exhausted(self, key: TaskKey, on_exhausted: str) -> None:
        """Keep it."""
        self.heard.append((key, on_exhausted))
        if len(self.heard) == 1:
            raise SystemExit
        self.twice.set()


def test_it_hears_of_tasks_that_used_up_their_attempts(tmp_path: Path) -> None:
    """From a thread of the node's own, which nothing that it raises ends."""
    app, hearing = Hourhand(), Hearing()

    @app.task("mail", retry=RetryPolicy(attempts_max=1, on_exhausted="skip"))
    def mail() -> None:
        raise ValueError("no")

    with Scheduler(settings_in(tmp_path), executors=app, middleware=[hearing]):
        for number in range(2):
            mail.schedule(None, ordering_id=f"o{number}").result(TIMEOUT_S)
        assert hearing.twice.wait(TIMEOUT_S)

    assert sorted(key.ordering_id for key, _what in hearing.heard) == ["o0", "o1"]
    assert {what for _key, what in hearing.heard} == {"skip"}


def test_without_middleware_an_executor_is_the_users_own() -> None:
    """Nothing stands between it and the runner."""
    executor = type("Made", (Seeing,), {"seen": []})()

    assert MiddlewareStack().around(executor) is executor
    assert MiddlewareStack([Hearing()]).around(executor) is executor
    assert MiddlewareStack([Hearing()]).hears_of_exhausted
    assert not MiddlewareStack([Noting("one", [])]).hears_of_exhausted
    ExhaustedNews(MiddlewareStack()).close()


def test_a_registry_brings_middleware_of_its_own() -> None:
    """Outside of the node's, and once for all registries that it includes."""
    seen: list[str] = []
    shared = Noting("shared", seen)
    app, part = Hourhand(middleware=[shared]), Hourhand(middleware=[shared, Noting("part", seen)])

    @part.task("mail")
    def mail() -> None:
        seen.append("mail")

    app.include(part)
    with VirtualScheduler(executors=app, middleware=[Noting("node", seen)]) as scheduler:
        mail.schedule(None, ordering_id="o").result(TIMEOUT_S)
        scheduler.run_due()

    begun = [each for each in seen if "before" in each or each == "mail"]
    assert begun == [*(f"{name} before mail 1" for name in ("shared", "part", "node")), "mail"]
