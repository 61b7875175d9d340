"""A batch of tasks of one kind: runs it within the middleware of each, and returns each outcome.

Decides which executor serves a batch, and the outcome of each task of a batch that raises. A runner
decides which tasks go together.
"""

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    suppress,
)
from datetime import timedelta
from types import TracebackType
from typing import Any, cast

import msgspec

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.batch_executor import (
    BatchExecutor,
    BatchOutcome,
    outcomes_of,
    raised,
)
from hourhand.actors.model.execution.executor_attributes import declared_timeout_of
from hourhand.actors.model.execution.outcome import Retry, Snooze
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.codec import encode_data
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.scheduler.executors.guests import GuestKind
from hourhand.scheduler.executors.middleware import AttemptContext, MiddlewareStack
from hourhand.scheduler.ports.batches import BatchedAttempt, BatchLimits, TaskNotRun
from hourhand.scheduler.runtime.forking import end_child, process
from hourhand.scheduler.runtime.user_code import is_coroutine_method

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def limits_of(executor: BatchExecutor) -> BatchLimits:
    """Return an executor's limits for its batches; TypeError for invalid ones."""
    tasks_max, batches_max = executor.batch_tasks_max, executor.batches_max
    for name, value in (("batch_tasks_max", tasks_max), ("batches_max", batches_max)):
        if type(value) is not int or value < 1:
            raise TypeError(f"{name} is {shown(value)}, a number of 1 or more is needed")
    runs: object = executor.runs_of_one_id
    if type(runs) is not bool:
        raise TypeError(f"runs_of_one_id is {shown(runs)}, True or False is needed")
    wait: object = executor.batch_wait
    if not isinstance(wait, timedelta) or wait < timedelta(0):
        raise TypeError(f"batch_wait is {shown(wait)}, a timedelta of 0 or more is needed")
    return BatchLimits(tasks_max, 1000 * wait.total_seconds(), batches_max)


def declared_limits_of(made: type[TaskExecutor] | None) -> BatchLimits:
    """Return a class's limits for its batches; the default limits if the class is not known."""
    try:
        return limits_of(cast("BatchExecutor", made))
    except BaseException:  # noqa: BLE001 - a property, or nonsense, which an attempt fails of
        return limits_of(cast("BatchExecutor", BatchExecutor))


def run_tasks_max_of(found: object) -> int:
    """Return the most tasks of one ordering id in a batch of an executor's class."""
    if not (isinstance(found, type) and issubclass(found, BatchExecutor)):
        return 1
    most: object = found.batch_tasks_max if found.runs_of_one_id is True else 1
    return most if type(most) is int else 1


class TaskBatch:
    """Some tasks and the executor that runs them."""

    def __init__(
        self,
        executor: BatchExecutor,
        attempts: Sequence[BatchedAttempt],
        middleware: MiddlewareStack,
        *,
        retries_alone: bool,
    ) -> None:
        assert attempts, "a batch has a task"
        self.executor = executor
        self._attempts = attempts
        self._middleware = middleware
        self._retries_alone = retries_alone
        self._born = process.generation

    def run(self, awaited: Callable[[Awaitable[object]], object]) -> Sequence[BatchOutcome]:
        """Run it in this thread; ``awaited`` waits for an awaitable result."""
        if self._stands_alone():
            return self._called(range(len(self._attempts)), awaited)
        outcomes: dict[int, BatchOutcome] = {}
        entered: list[tuple[int, ExitStack]] = []
        for place, attempt in enumerate(self._attempts):
            held = ExitStack()
            try:
                if attempt.around is not None:
                    held.enter_context(attempt.around())
                if self._middleware.wraps:
                    around = self._middleware.entered(_context_of(attempt))
                    held.enter_context(_KeepsMarks(around))
            except BaseException as error:  # noqa: BLE001 - user code may raise anything
                end_child(self._born, error)
                outcomes[place] = _left(held, error)
            else:
                entered.append((place, held))
        found = self._called([place for place, _ in entered], awaited)
        # Left in reverse order: later ones may have seen what earlier ones set.
        for (place, held), outcome in reversed(list(zip(entered, found, strict=True))):
            outcomes[place] = _left(held, outcome)
        return [outcomes[place] for place in range(len(self._attempts))]

    def _called(
        self, places: Sequence[int], awaited: Callable[[Awaitable[object]], object]
    ) -> Sequence[BatchOutcome]:
        if not places:
            return ()
        given = self._given(places)
        try:
            returned = self._begin(places)
            if inspect.isawaitable(returned):
                returned = awaited(returned)
            end_child(self._born)
            return outcomes_of(returned, len(places))
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            end_child(self._born, error)
            if self._retries_alone and len(places) > 1:
                self._attempts = self._again(given)
                turns = _TurnsAlone(self._attempts)
                for place in places:
                    if turns.may_run(place):
                        turns.outcomes[place] = self._called([place], awaited)[0]
                return list(turns.outcomes.values())
            return [error] * len(places)

    async def run_async(self) -> Sequence[BatchOutcome]:
        """Run it on this loop."""
        if self._stands_alone():
            return await self._called_async(range(len(self._attempts)))
        outcomes: dict[int, BatchOutcome] = {}
        entered: list[tuple[int, AsyncExitStack]] = []
        for place, attempt in enumerate(self._attempts):
            held = AsyncExitStack()
            try:
                if attempt.around is not None:
                    held.enter_context(attempt.around())
                if self._middleware.wraps:
                    around = self._middleware.entered_async(_context_of(attempt))
                    await held.enter_async_context(_KeepsMarksAsync(around))
            except BaseException as error:  # noqa: BLE001 - user code may raise anything
                end_child(self._born, error)
                outcomes[place] = await _left_async(held, error)
            else:
                entered.append((place, held))
        found = await self._called_async([place for place, _ in entered])
        # Left in reverse order: later ones may have seen what earlier ones set.
        for (place, held), outcome in reversed(list(zip(entered, found, strict=True))):
            outcomes[place] = await _left_async(held, outcome)
        return [outcomes[place] for place in range(len(self._attempts))]

    async def _called_async(self, places: Sequence[int]) -> Sequence[BatchOutcome]:
        if not places:
            return ()
        given = self._given(places)
        try:
            timeout: object = self.executor.timeout
            timeout_s = timeout.total_seconds() if isinstance(timeout, timedelta) else None
            async with asyncio.timeout(timeout_s):
                returned: object = self._begin(places)
                if inspect.isawaitable(returned):
                    returned = await returned
            end_child(self._born)
            return outcomes_of(returned, len(places))
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            end_child(self._born, error)
            cancelled = isinstance(error, asyncio.CancelledError)
            if self._retries_alone and len(places) > 1 and not cancelled:
                self._attempts = self._again(given)
                turns = _TurnsAlone(self._attempts)
                for place in places:
                    if turns.may_run(place):
                        turns.outcomes[place] = (await self._called_async([place]))[0]
                return list(turns.outcomes.values())
            return [error] * len(places)

    def _given(self, places: Sequence[int]) -> Mapping[int, bytes]:
        """Return the data of tasks as JSON, for a second call that may need it."""
        if not self._retries_alone or len(places) == 1:
            return {}
        # Middleware may have replaced it by a value that is not JSON; it is passed on unchanged.
        with suppress(InvalidTask):
            return {place: encode_data(self._attempts[place].task) for place in places}
        return {}

    def _again(self, given: Mapping[int, bytes]) -> Sequence[BatchedAttempt]:
        """Return the attempts with fresh copies of their data, which no call has changed."""
        return [
            each._replace(task=each.task.model_copy(update={"data": _decode(given[place])}))
            if place in given
            else each
            for place, each in enumerate(self._attempts)
        ]

    def _stands_alone(self) -> bool:
        """True if no middleware is entered around any of its tasks."""
        return not self._middleware.wraps and all(e.around is None for e in self._attempts)

    def _begin(self, places: Sequence[int]) -> object:
        attempts = [self._attempts[place] for place in places]
        executor = self.executor
        executor.attempts = tuple(each.attempt for each in attempts)
        executor.fences = tuple(each.fence for each in attempts)
        executor.hourhand_members = tuple((each.task, each.checkpoints) for each in attempts)
        return executor.execute_many(tuple(each.task for each in attempts))


class _TurnsAlone:
    """The tasks of a batch that run once more, each alone, except behind one that failed."""

    def __init__(self, attempts: Sequence[BatchedAttempt]) -> None:
        self._attempts = attempts
        self.outcomes: dict[int, BatchOutcome] = {}

    def may_run(self, place: int) -> bool:
        """True if no earlier task of the same ordering id is open (P4)."""
        ordering_id = self._attempts[place].task.ordering_id
        is_open = any(
            self._attempts[each].task.ordering_id == ordering_id
            and isinstance(outcome, BaseException | Retry | Snooze)
            for each, outcome in self.outcomes.items()
        )
        if is_open:
            self.outcomes[place] = TaskNotRun(f"a task of {ordering_id} before it is not done")
        return not is_open


class _KeepsMarks(AbstractContextManager[None]):
    """Leaves middleware as after a success if its task was not run: the mark for that is not an
    error of user code.
    """

    def __init__(self, around: AbstractContextManager[None]) -> None:
        self._around = around

    def __enter__(self) -> None:
        self._around.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> bool | None:
        if kind is not TaskNotRun:
            return self._around.__exit__(kind, error, frames)
        with suppress(BaseException):
            self._around.__exit__(None, None, None)
        return False


class _KeepsMarksAsync(AbstractAsyncContextManager[None]):
    """The same as ``_KeepsMarks``, for asynchronous middleware."""

    def __init__(self, around: AbstractAsyncContextManager[None]) -> None:
        self._around = around

    async def __aenter__(self) -> None:
        await self._around.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> bool | None:
        if kind is not TaskNotRun:
            return await self._around.__aexit__(kind, error, frames)
        with suppress(BaseException):
            await self._around.__aexit__(None, None, None)
        return False


def _left(held: ExitStack, outcome: BatchOutcome) -> BatchOutcome:
    """Leave a task's middleware with its outcome; return the final outcome."""
    frames = outcome.__traceback__ if isinstance(outcome, BaseException) else None
    try:
        with held:
            raised(outcome)
    except BaseException as error:  # noqa: BLE001 - user code may raise anything
        # One error may belong to many tasks: each would add the frames of its leaving.
        return error.with_traceback(frames) if error is outcome else error
    # Middleware that swallows an error makes the attempt a success.
    return None if isinstance(outcome, BaseException) else outcome


async def _left_async(held: AsyncExitStack, outcome: BatchOutcome) -> BatchOutcome:
    frames = outcome.__traceback__ if isinstance(outcome, BaseException) else None
    try:
        async with held:
            raised(outcome)
    except BaseException as error:  # noqa: BLE001 - user code may raise anything
        # One error may belong to many tasks: each would add the frames of its leaving.
        return error.with_traceback(frames) if error is outcome else error
    # Middleware that swallows an error makes the attempt a success.
    return None if isinstance(outcome, BaseException) else outcome


def _context_of(attempt: BatchedAttempt) -> AttemptContext:
    return AttemptContext(attempt.task, attempt.attempt, attempt.fence)


class KindBatches:
    """Implements ``Batches`` for one kind on one node: its limits, and the executors it shares."""

    def __init__(self, guests: GuestKind, middleware: MiddlewareStack) -> None:
        """The class decides how batches are put together until the first executor is made."""
        self._guests = guests
        self._middleware = middleware
        self._idle = deque[BatchExecutor]()
        self._first: BatchExecutor | None = None
        self._is_tried = False
        self.limits = declared_limits_of(guests.declared_class)
        self.runs_async = is_coroutine_method(guests.declared_class, "execute_many")
        """True if ``execute_many`` is a coroutine function."""

    @property
    def declared_retry(self) -> RetryPolicy:
        """The policy of the class; no user code is called for it."""
        return self._guests.declared_retry

    @property
    def retry(self) -> RetryPolicy:
        """The executor's policy; that of its class if none could be made."""
        if not self._is_tried:
            with suppress(BaseException):
                self._idle.append(self._taken())
        return self.declared_retry if self._first is None else self._first.retry

    @property
    def timeout(self) -> timedelta | None:
        """The executor's timeout; that of its class until one is made."""
        if self._first is not None:
            return self._first.timeout
        return declared_timeout_of(self._guests.declared_class)

    def run(
        self, attempts: Sequence[BatchedAttempt], awaited: Callable[[Awaitable[object]], object]
    ) -> Sequence[BatchOutcome]:
        """Run a batch in this thread; ``awaited`` waits for an awaitable result of
        ``execute_many``.
        """
        outcomes: list[BatchOutcome] = []
        try:
            executor = self._taken()
            for some in self._portions(attempts):
                outcomes += self._batch(executor, some).run(awaited)
        except BaseException as error:  # noqa: BLE001 - a constructor is user code
            outcomes += [error] * (len(attempts) - len(outcomes))
        else:
            self._idle.append(executor)
        return outcomes

    async def run_async(self, attempts: Sequence[BatchedAttempt]) -> Sequence[BatchOutcome]:
        """Run a batch on this loop."""
        outcomes: list[BatchOutcome] = []
        try:
            executor = self._taken()
            for some in self._portions(attempts):
                outcomes += await self._batch(executor, some).run_async()
        except BaseException as error:  # noqa: BLE001 - a constructor is user code
            outcomes += [error] * (len(attempts) - len(outcomes))
        else:
            self._idle.append(executor)
        return outcomes

    def _portions(self, attempts: Sequence[BatchedAttempt]) -> Iterator[Sequence[BatchedAttempt]]:
        """Split a batch that was put together before its size limit was known."""
        most = self.limits.tasks_max
        return (attempts[at : at + most] for at in range(0, len(attempts), most))

    def _taken(self) -> BatchExecutor:
        """Return an idle executor; raises the errors of its constructor."""
        try:
            return self._idle.pop()
        except IndexError:
            self._is_tried = True
            made: object = self._guests.make()
        if not isinstance(made, BatchExecutor):
            raise TypeError(
                f"the executor factory returned a {type(made).__name__}, which is not a"
                " BatchExecutor as before"
            )
        if self._first is None:
            self.limits, self._first = limits_of(made), made
        return made

    def _batch(self, executor: BatchExecutor, attempts: Sequence[BatchedAttempt]) -> TaskBatch:
        alone = bool(executor.retries_alone)
        return TaskBatch(executor, attempts, self._middleware, retries_alone=alone)
