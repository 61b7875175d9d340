"""A mistake in a registry is told where it is declared, in words that say what to write."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any

import pytest

from hourhand import Hourhand, RetryPolicy, Task, TaskExecutor
from hourhand.errors import InvalidExecutor, InvalidTask, NotConnected, UnknownKind
from hourhand.scheduler.executors.loading import load_executors
from hourhand.scheduler.executors.user_executors import UserExecutors
from hourhand.testing import VirtualScheduler


def _declare(function: object, kind: object = "kind") -> None:
    registry: Any = Hourhand()
    registry.task(kind)(function)


def test_a_function_of_two_parameters_is_refused_at_its_decorator() -> None:
    """With the class to write in their place."""

    def add_up(a: int, b: "str") -> None: ...

    with pytest.raises(InvalidExecutor, match="takes 2 payloads, and a task has one") as caught:
        _declare(add_up)

    assert "`@dataclass class AddUp: a: int; b: str`" in str(caught.value)
    assert "def add_up(payload: AddUp)" in str(caught.value)


def test_parameters_without_a_type_are_payloads_too() -> None:
    """As those of a function of Celery are."""
    untyped: Any = lambda a, b: None  # noqa: E731

    with pytest.raises(InvalidExecutor, match="takes 2 payloads"):
        _declare(untyped)


def test_a_payload_and_the_task_are_taken() -> None:
    """In either order."""

    def one(of: dict[str, Any], task: Task) -> None: ...
    def other(task: Task, of: dict[str, Any]) -> None: ...

    _declare(one)
    _declare(other)


def test_a_type_that_is_defined_later_may_be_the_task() -> None:
    """What cannot be read yet is not judged."""

    def later(of: Any, task: Any) -> None: ...

    for name in ("DefinedLater", "pytest.DefinedLater"):
        # The other one is of a module that is imported half, in a circle.
        later.__annotations__ = {"of": name, "task": "TaskByAnotherName"}
        _declare(later)


def test_what_can_be_read_is_judged_beside_what_cannot() -> None:
    """Two payloads stay two."""

    def two(of: Any, more: Any, task: Any) -> None: ...

    two.__annotations__ = {"of": int, "more": str, "task": "DefinedLater"}
    with pytest.raises(InvalidExecutor, match="takes 2 payloads"):
        _declare(two)


@pytest.mark.parametrize("hint", [int, str, list, list[int], tuple[int, ...]])
def test_a_payload_that_is_never_an_object_is_refused_at_its_decorator(hint: Any) -> None:
    """The data of a task is a JSON object."""

    def one(of: Any) -> None: ...

    one.__annotations__["of"] = hint
    with pytest.raises(InvalidExecutor, match=r"'of' is of the type .*@dataclass class Payload"):
        _declare(one)


class Mailer:
    """Something that can be called, and is not a function."""

    note: int = 1

    def __call__(self, of: dict[str, Any]) -> None: ...

    def send(self, of: dict[str, Any]) -> None: ...


def test_a_callable_instance_is_refused_at_its_decorator() -> None:
    """Its annotations are not those of a call."""
    for given in (Mailer(), partial(Mailer().send, {})):
        with pytest.raises(InvalidExecutor, match="is not a function: write a function that call"):
            _declare(given)


def test_methods_and_wrapped_functions_are_functions() -> None:
    """They have annotations."""
    _declare(Mailer().send)
    _declare(lru_cache(Mailer().send))


@pytest.mark.parametrize("decorator", ["task", "batch", "executor"])
def test_a_decorator_without_a_name_says_what_to_write(decorator: str) -> None:
    """``@app.task`` instead of ``@app.task("send-mail")``."""

    def send_mail(of: dict[str, Any]) -> None: ...

    bare: Any = getattr(Hourhand(), decorator)

    def declare() -> None:
        bare(send_mail)(send_mail)

    with pytest.raises(InvalidExecutor, match=r"write the decorator.*@app\.task\('send-mail'\)"):
        declare()


@pytest.mark.parametrize("given", [lambda: None, [Mailer], "app", 7])
def test_executors_without_kinds_are_refused(given: Any) -> None:
    """Before anything is opened."""
    with pytest.raises(InvalidExecutor, match=r"has no kinds: give the registry, executors=app"):
        UserExecutors.of(None, given)


def test_a_kind_that_no_executor_runs_is_told_with_the_closest() -> None:
    """In the reason for which its task is held."""
    app = Hourhand()
    app.task("report")(lambda: None)

    with pytest.raises(
        UnknownKind, match=r"no executor for the kind 'reprot'.*did you mean report"
    ):
        UserExecutors.of(None, app).make("reprot")


def test_a_task_is_made_after_a_delay_as_it_is_scheduled() -> None:
    """By the clock of the registry's client."""
    app = Hourhand()
    start = datetime(2026, 1, 1, tzinfo=UTC)

    @app.task("report")
    def report() -> None: ...

    with pytest.raises(NotConnected):
        report.make_task(None, ordering_id="a", after=timedelta(hours=1))
    with VirtualScheduler(executors=app, now=start):
        later = report.make_task(None, ordering_id="a", after=timedelta(hours=1))
        now = report.make_task(None, ordering_id="a")
        with pytest.raises(InvalidTask, match="not both"):
            report.make_task(None, ordering_id="a", at=start, after=timedelta(hours=1))

    assert later.scheduled_time == start + timedelta(hours=1)
    assert now.scheduled_time == start


_app = Hourhand()


@_app.task("remind")
def remind(of: dict[str, int]) -> None:
    """Do nothing."""


@pytest.mark.parametrize("kind", ["", "remind="])
def test_a_path_to_one_function_is_refused_by_the_command(kind: str) -> None:
    """It was called as if it made executors, and the node began."""
    with pytest.raises(InvalidExecutor, match="is one function of a registry: name the registry"):
        load_executors([f"{kind}{__name__}:remind"])


def test_kinds_whose_class_allows_one_attempt_are_known() -> None:
    """Each in a thread or as a coroutine: a process tells of its own death."""
    app, once = Hourhand(), RetryPolicy(attempts_max=1)

    @app.task("thread", retry=once)
    def in_thread(of: dict[str, str]) -> None: ...

    @app.task("coroutine", retry=once)
    async def as_coroutine(of: dict[str, str]) -> None: ...

    @app.task("process", retry=once, run_in="process")
    def in_process(of: dict[str, str]) -> None: ...

    @app.task("twice", retry=RetryPolicy(attempts_max=2))
    def twice(of: dict[str, str]) -> None: ...

    @app.batch("batch", retry=once)
    def together(of: list[dict[str, str]]) -> None: ...

    class Once(TaskExecutor):
        retry = once

        def execute(self, task: Task) -> None: ...

    users = UserExecutors.of(Once, app)

    assert users.one_attempt_kinds == {None, "thread", "coroutine"}
    assert UserExecutors.of(None, app).with_processes("process").one_attempt_kinds == frozenset()
