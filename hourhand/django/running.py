"""Runs a task of Django on a node: its function, its context, its signals, its connections.

Decides what the function is called with and what the node is told of its end.  Never when it runs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import iscoroutinefunction
from typing import Any, ClassVar

from asgiref.sync import sync_to_async
from django.db import close_old_connections, reset_queries

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.outcome import Done
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.task.task_result import require_storable, result_text
from hourhand.actors.model.values.instant import to_millis
from hourhand.django import framework
from hourhand.django.calls import (
    CallReturned,
    aware_time,
    call_of,
    django_time,
    returned_value,
    running_result,
)
from hourhand.django.declaring import kind_of, options_of
from hourhand.scheduler.executors.user_executors import TaskKind


def kind_for(declared: Any, backend: Any, retry: RetryPolicy) -> TaskKind:
    """Return what runs a task of Django; ``retry`` is the policy of functions without one."""
    options = options_of(declared.func)
    runs = _CoroutineRun if iscoroutinefunction(declared.func) else _FunctionRun
    values = {
        "declared": declared,
        "backend": backend,
        "retry": options.retry or retry,
        "timeout": options.timeout,
        "stuck_after": options.stuck_after,
        # A process would have to set Django up first.
        "run_in": "thread",
        "__doc__": declared.func.__doc__,
    }
    return TaskKind(
        type(declared.func.__name__, (runs,), values),
        concurrency=options.concurrency,
        limits=options.limits,
        # Declares that priorities count, and each task has its own.
        priority=0,
        fair=options.fair,
        expires_after=options.expires_after,
    )


class _DjangoRun(TaskExecutor):
    """The parts that runs of functions and of coroutines share."""

    declared: ClassVar[Any]
    """The task of Django."""
    backend: ClassVar[Any]

    def _begin(self, task: Task) -> tuple[Any, list[Any], dict[str, Any]]:
        """Return the result so far and the arguments; ValidationError for data of another form."""
        call = call_of(task.data)
        result = running_result(
            *(task, call, self.declared, self.backend), attempt=self.attempt, fence=self.fence
        )
        # An error of a receiver's is logged by Django, and costs the task nothing.
        framework.signals.task_started.send_robust(sender=type(self.backend), task_result=result)
        context = [framework.base.TaskContext(task_result=result)]
        # The function may change its arguments, which are not the result's then.
        call = call_of(task.data)
        return result, (context if self.declared.takes_context else []) + call.args, call.kwargs

    def _end(self, task: Task, result: Any, returned: Any) -> Done:
        """Return the outcome; TypeError for a value that is not JSON, InvalidResult for a large
        one.
        """
        value = framework.normalize_json(returned)
        started = aware_time(result.started_at)
        ended = CallReturned(
            kind=kind_of(self.declared.func),
            call=call_of(task.data),
            attempt=self.attempt,
            started_ms=to_millis(started),
            fence=self.fence,
            returned=value,
            priority=task.priority,
        )
        outcome = Done(returned_value(ended))
        # The node does the same, when the signal has said that the task ended well.
        require_storable(result_text(outcome.value))
        object.__setattr__(result, "_return_value", value)
        self._tell_finished(result, "SUCCESSFUL")
        return outcome

    def _failed(self, result: Any, error: BaseException) -> None:
        """Tell Django's receivers that no further attempt follows, unless one does."""
        last = self.attempt >= self.retry.attempts_max
        if last or self.retry.verdict_on(error) != "retry":
            self._tell_finished(result, "FAILED")

    def _tell_finished(self, result: Any, status: str) -> None:
        object.__setattr__(result, "finished_at", django_time(self.backend.now))
        object.__setattr__(result, "status", framework.base.TaskResultStatus[status])
        framework.signals.task_finished.send_robust(sender=type(self.backend), task_result=result)


class _FunctionRun(_DjangoRun):
    """Runs a blocking function."""

    def execute(self, task: Task) -> Done:
        """Call the function within fresh connections."""
        with _fresh_connections():
            result, arguments, named = self._begin(task)
            try:
                return self._end(task, result, self.declared.func(*arguments, **named))
            except BaseException as error:
                self._failed(result, error)
                raise


class _CoroutineRun(_DjangoRun):
    """Runs a coroutine function on the node's event loop."""

    async def execute(self, task: Task) -> Done:
        """Await the coroutine; its connections are those of the thread of ``sync_to_async``."""
        await sync_to_async(_refresh_connections)()
        try:
            result, arguments, named = self._begin(task)
            try:
                return self._end(task, result, await self.declared.func(*arguments, **named))
            except BaseException as error:
                self._failed(result, error)
                raise
        finally:
            await sync_to_async(_refresh_connections)()


@contextmanager
def _fresh_connections() -> Iterator[None]:
    _refresh_connections()
    try:
        yield
    finally:
        _refresh_connections()


def _refresh_connections() -> None:
    """Close connections that are too old or broken, as Django does around a request."""
    reset_queries()
    close_old_connections()
