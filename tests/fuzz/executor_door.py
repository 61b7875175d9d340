"""User code's door: executors that return, raise and do what no executor should.

Decides what a hostile executor does.  A good task of another ordering id runs beside each, and
the hostile one ends by its own policy: failed for good, or done.
"""

import random
from collections.abc import Callable
from typing import Any

import tenacity

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.outcome import Drop, Retry
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.operations.events import TreeRebuilt
from hourhand.actors.model.task.status import AttemptResult
from hourhand.actors.model.task.task import Task
from hourhand.scheduler.testing import VirtualScheduler
from tests.fuzz import values

_ONCE = RetryPolicy(attempts_max=2, wait=tenacity.wait_fixed(1))


class HostileError(Exception):
    """An exception whose every view raises, its trace included."""

    def __str__(self) -> str:
        """Raise what ``except Exception`` does not catch."""
        raise SystemExit(3)

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        """Raise where the trace is made."""
        raise RuntimeError("no notes")

    def __reduce__(self) -> str:
        """Refuse to be copied."""
        raise RuntimeError("no copies")


class OwnError(BaseException):
    """An error that no ``except Exception`` catches."""


class BadSyntax(SyntaxError):
    """A syntax error whose fields are not what ``traceback`` expects."""

    def __init__(self) -> None:
        super().__init__("odd")
        self.filename, self.lineno, self.offset = "x", 1, 10**6
        self.text = "\ud800"


def _raiser(error: BaseException) -> Callable[[TaskExecutor, Task], object]:
    def act(_executor: TaskExecutor, _task: Task) -> object:
        raise error

    return act


def _spoil_attribute(name: str, value: object) -> Callable[[TaskExecutor, Task], object]:
    def act(executor: TaskExecutor, _task: Task) -> object:
        setattr(executor, name, value)
        raise ValueError("after it spoiled itself")

    return act


class _Raising(tenacity.wait.wait_base):
    """A wait strategy that raises."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        """Raise, whatever was waited for."""
        del retry_state
        raise self._error


def _grow_property(name: str, error: BaseException) -> Callable[[TaskExecutor, Task], object]:
    def read(_executor: TaskExecutor) -> object:
        raise error

    def act(executor: TaskExecutor, _task: Task) -> object:
        kind = type(executor)
        executor.__class__ = type(kind.__name__, (kind,), {name: property(read)})
        raise ValueError("after it grew a property that raises")

    return act


def _delete(executor: TaskExecutor, _task: Task) -> object:
    del executor.attempt, executor.fence
    return None


def _change_data(_executor: TaskExecutor, task: Task) -> object:
    task.data.clear()
    task.__dict__["ordering_id"] = object()
    raise ValueError("after it changed the task")


def _act(rng: random.Random) -> Callable[[TaskExecutor, Task], object]:
    anything: Any = values.value(rng)
    # Only for wait strategies: the test kit runs attempts in the main thread and lets Ctrl-C out.
    interrupt = KeyboardInterrupt()
    errors: tuple[BaseException, ...] = (
        HostileError(),
        BadSyntax(),
        SystemExit(7),
        GeneratorExit(),
        OwnError(),
        StopIteration(anything),
        ValueError("\ud800\0" + values.text(rng)),
        ExceptionGroup("many", [HostileError(), ValueError(anything)]),
        RecursionError("too deep"),
        MemoryError(),
        type("x" * 100_000, (Exception,), {})(),
    )
    return rng.choice(
        (
            _raiser(rng.choice(errors)),
            lambda _executor, _task: anything,
            lambda _executor, _task: "x" * 1_000_000,
            lambda _executor, _task: Drop(anything),
            lambda _executor, _task: Drop("\ud800"),
            lambda _executor, _task: Retry(anything),
            _spoil_attribute("timeout", anything),
            _spoil_attribute("retry", anything),
            _spoil_attribute("attempt", anything),
            _spoil_attribute("retry", RetryPolicy(2, _Raising(rng.choice((*errors, interrupt))))),
            _grow_property("timeout", rng.choice(errors)),
            _delete,
            _change_data,
        )
    )


def try_executors(seed: int, count: int) -> int:
    """Run ``count`` hostile tasks beside good ones; AssertionError where a good one suffers."""
    rng = random.Random(f"executors {seed}")
    acts = {f"bad-{number}": _act(rng) for number in range(count)}

    class Hostile(TaskExecutor):
        retry = _ONCE

        def execute(self, task: Task) -> Any:
            act = acts.get(task.uniqueness_key)
            return None if act is None else act(self, task)

    with VirtualScheduler(Hostile) as scheduler:
        for name in (*acts, *(f"good-{number}" for number in range(count))):
            at = scheduler.now
            task = Task(ordering_id=name, scheduled_time=at, uniqueness_key=name)
            scheduler.schedule_task(task).result(0)
        scheduler.advance(minutes=1)
        ran = [each.key.uniqueness_key for each in scheduler.executions if each.error_class is None]
        good = sorted(name for name in ran if name.startswith("good-"))
        assert good == sorted(f"good-{number}" for number in range(count)), "a good task suffered"
        assert not any(isinstance(event, TreeRebuilt) for event in scheduler.events), "tree rebuilt"
        # A policy that was spoiled gives way to the default one, whose waits are longer, and a
        # Retry may well ask for years.
        scheduler.advance(days=2)
        waiting = {each.key for each in scheduler.executions if each.result is AttemptResult.RETRY}
        assert {task.key for task in scheduler.all_scheduled()} <= waiting, "not brought to an end"
    return count
