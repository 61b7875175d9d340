"""The user's executors as guests of a node: each is made by the attempt that needs it first.

Decides what stands for an executor before that. Making one and reading its attributes is user code,
which may raise any error and take long: it is part of an attempt, in that attempt's thread or
coroutine, and is never called elsewhere.
"""

import asyncio
import inspect
from collections.abc import Awaitable
from datetime import timedelta
from typing import cast

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.executor_attributes import (
    attribute_complaint,
    declared_policy_of,
    declared_timeout_of,
)
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.task import Task
from hourhand.scheduler.executors.executor_path import ExecutorFactory, class_of
from hourhand.scheduler.runtime.user_code import is_coroutine_method, runs_async


class GuestKind:
    """One kind of task: the factory of its executors, and their expected class."""

    def __init__(self, factory: ExecutorFactory) -> None:
        self._factory = factory
        self.declared_class: type | None = None
        """None if only an executor will show it."""
        self._guest_class: type[Guest] = Guest
        self._declare(class_of(factory))

    @property
    def declared_retry(self) -> RetryPolicy:
        """The policy of the class; no user code is called for it."""
        return declared_policy_of(self.declared_class)

    def guest(self) -> "Guest":
        """Return a guest for the executor of one busy ordering id."""
        return self._guest_class(self)

    def _declare(self, declared_class: type | None) -> None:
        """Look at the class once: there is a guest for each busy ordering id."""
        self.declared_class = declared_class
        is_async = is_coroutine_method(declared_class, "execute")
        self._guest_class = AsyncGuest if is_async else Guest

    def make(self) -> TaskExecutor:
        """Make an executor; raises the factory's errors, and TypeError for a product that cannot
        run a task.
        """
        executor: object = self._factory()
        if not isinstance(executor, TaskExecutor):
            returned = type(executor).__name__
            raise TypeError(
                f"the executor factory returned a {returned}, which is not a TaskExecutor"
            )
        if complaint := attribute_complaint(executor):
            raise TypeError(f"{type(executor).__qualname__}.{complaint}")
        if self.declared_class is None:
            self._declare(type(executor))
        return executor


class Guest(TaskExecutor):
    """Stands for the executor of one busy ordering id.

    ``execute`` raises the errors of its constructor, within the middleware, and the next attempt
    constructs it again.
    """

    def __init__(self, kind: GuestKind) -> None:
        self._kind = kind
        self._executor: TaskExecutor | None = None
        self._failure: BaseException | None = None
        """The error of the constructor before ``execute`` was called."""
        self._is_tried = False

    @property
    def declared_retry(self) -> RetryPolicy:
        """The policy of the class; no user code is called for it."""
        return self._kind.declared_retry

    @property
    def retry(self) -> RetryPolicy:  # type: ignore[override]
        """The executor's policy; that of its class if it could not be made."""
        if not self._is_tried:
            self._try()
        return self.declared_retry if self._executor is None else self._executor.retry

    @property
    def timeout(self) -> timedelta | None:  # type: ignore[override]
        """The timeout of the executor, which is made for it; that of its class if it cannot be
        made.
        """
        if self._executor is None:
            self._try()
        if self._executor is not None:
            return self._executor.timeout
        return declared_timeout_of(self._kind.declared_class)

    def execute(self, task: Task) -> Outcome | None | Awaitable[Outcome | None]:
        """Run the task once; raises the errors of the constructor too."""
        return self._told().execute(task)

    def _try(self) -> None:
        self._is_tried, self._failure = True, None
        try:
            self._executor = self._kind.make()
        except BaseException as error:  # noqa: BLE001 - execute raises it
            self._failure = error

    def _told(self) -> TaskExecutor:
        """Return the executor with its attempt set; raises the errors of its constructor."""
        executor = self._executor
        if executor is None:
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            self._is_tried = True
            executor = self._executor = self._kind.make()
        executor.attempt, executor.fence = self.attempt, self.fence
        executor.hourhand_checkpoints = self.hourhand_checkpoints
        return executor


class AsyncGuest(Guest):
    """The same as ``Guest``, for ``async def execute``."""

    async def execute(self, task: Task) -> Outcome | None:
        """Run the task once; raises the errors of the constructor too."""
        executor = self._told()
        if not runs_async(executor):
            # The factory returned a blocking executor this time, which would block the loop.
            outcome: object = await asyncio.to_thread(executor.execute, task)
        else:
            outcome = executor.execute(task)
        if inspect.isawaitable(outcome):
            outcome = await outcome
        return cast("Outcome | None", outcome)
