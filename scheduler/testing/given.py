"""The arguments of the test kit's calls: the executor of one call, and a stretch of time.

Decides what may be given, and what an executor is made of.  Never calls one.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidExecutor, InvalidTask
from hourhand.actors.model.values.instant import INSTANT_MAX_MS
from hourhand.scheduler.executors.registry import TaskFunction
from hourhand.scheduler.executors.user_executors import TaskKind

Runnable = TaskExecutor | type[TaskExecutor] | TaskFunction[Any] | TaskKind


def executor_of(given: Runnable) -> TaskExecutor:
    """Return an executor itself, or a new one of its class, function or kind; InvalidExecutor for
    anything else.
    """
    factory: object = given.registered if isinstance(given, TaskFunction) else given
    made: object = factory.executor if isinstance(factory, TaskKind) else factory
    if callable(made) and not isinstance(made, TaskExecutor):
        is_one = isinstance(made, type) and issubclass(made, TaskExecutor)
        made = made() if is_one or isinstance(factory, TaskKind) else made
    if not isinstance(made, TaskExecutor):
        raise InvalidExecutor(
            "execute_task runs a TaskExecutor, or the class of one, or a function of @app.task, got"
            f" {shown(given)}"
        )
    return made


def stretch_ms(delta: object, units: Mapping[str, float], now_ms: int) -> float:
    """Return the milliseconds of a ``timedelta`` or of its keywords; InvalidTask for both, for
    time that passes backward, and for more than the clock has left.
    """
    if delta is None:
        try:
            delta = timedelta(**units)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidTask(f"a stretch of time is a timedelta's: {error}") from None
    elif units or not isinstance(delta, timedelta):
        raise InvalidTask(
            "a stretch of time is a timedelta, or its keywords, as seconds=5, got"
            f" {shown((delta, dict(units)) if units else delta)}"
        )
    passed_ms = delta / timedelta(milliseconds=1)
    if passed_ms < 0 or now_ms + passed_ms > INSTANT_MAX_MS:
        raise InvalidTask(
            f"{shown(delta)} cannot pass: the kit's clock goes forward, to the year 9999 at most"
        )
    return passed_ms
