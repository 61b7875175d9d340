"""A user's code around attempts and around a node's life: pools, sessions, error reports.

Decides the order in which several are entered: the first is the outermost. An error of middleware
counts as raised by the attempt. Sealed data is opened just before all of them: an attempt whose
data cannot be opened fails, and its neighbours in a batch run.
"""

import asyncio
import inspect
import logging
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass
from datetime import timedelta

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.batch_executor import BatchOutcome
from hourhand.actors.model.execution.executor_attributes import unmade_policy_of
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.operations.events import Event, RetriesExhausted
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.display import log_raised
from hourhand.actors.model.values.public import public
from hourhand.scheduler.payloads.codec import OpenedTooLarge
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.payloads.open_budget import NoRoom, OpenedHere
from hourhand.scheduler.payloads.sealed_checkpoints import SealedCheckpoints
from hourhand.scheduler.payloads.sealed_results import (
    has_value,
    sealed_or_failed,
    sealed_outcome,
    sealed_outcome_async,
)
from hourhand.scheduler.ports.batches import BatchedAttempt, Batches, BatchLimits, TaskNotRun
from hourhand.scheduler.runtime.user_code import runs_async

logger = logging.getLogger("hourhand.middleware")
_NO_ROOM = "there is no room for its opened data beside that of its batch"


@public("hourhand")
@dataclass(frozen=True, slots=True)
class AttemptContext:
    """One attempt, as middleware sees it."""

    task: Task
    attempt: int
    """1 for the first."""
    fence: int
    """Grows with every owner of the partition."""

    @property
    def key(self) -> TaskKey:
        """The task's key."""
        return self.task.key

    @property
    def kind(self) -> str | None:
        """The task's kind, None for the default executor's."""
        return self.task.kind


@public("hourhand")
class Middleware:
    """Base class of middleware; one instance serves all attempts of a node.

    ``around_attempt`` is called from many threads at once.
    """

    def on_node_start(self) -> None:
        """Open pools and sessions. Called once, before the node runs anything.

        An error here keeps the node from starting.
        """

    def on_node_stop(self) -> None:
        """Close what was opened. Called once, after the last attempt that is waited for."""

    def around_attempt(
        self, attempt: AttemptContext
    ) -> "AbstractContextManager[object] | AbstractAsyncContextManager[object]":
        """Return a context manager around user code, entered in its thread or coroutine.

        It sees the attempt's exception, as every context manager does; one that swallows it makes
        the attempt a success. An asynchronous context manager serves ``async def execute`` only.
        """
        del attempt
        return nullcontext()

    def on_exhausted(self, key: TaskKey, on_exhausted: str) -> None:
        """Handle a task that has used up its attempts; ``on_exhausted`` as in ``RetryPolicy``.

        Called from a thread of the node's own, at most once for each time, never after a crash.
        """


class MiddlewareStack:
    """All middleware of a node, the outermost first."""

    def __init__(self, middleware: Sequence[Middleware] = ()) -> None:
        self._all = tuple(middleware)
        self._begun = False
        self.wraps = any(
            type(each).around_attempt is not Middleware.around_attempt for each in self._all
        )
        """True if any of it overrides ``around_attempt``."""
        self._hears = tuple(
            each for each in self._all if type(each).on_exhausted is not Middleware.on_exhausted
        )

    @property
    def hears_of_exhausted(self) -> bool:
        """True if any of it overrides ``on_exhausted``."""
        return bool(self._hears)

    def start(self) -> None:
        """Start all, the outermost first; if one raises, stop those before it."""
        with ExitStack() as undo:
            for each in self._all:
                each.on_node_start()
                undo.callback(_stop, each)
            undo.pop_all()
        self._begun = True

    def stop(self) -> None:
        """Stop all, the innermost first, also after an error of one; nothing if none was
        started.
        """
        begun, self._begun = self._begun, False
        for each in reversed(self._all if begun else ()):
            _stop(each)

    def exhausted(self, key: TaskKey, on_exhausted: str) -> None:
        """Call ``on_exhausted`` of all."""
        for each in self._hears:
            try:
                each.on_exhausted(key, on_exhausted)
            except BaseException:  # noqa: BLE001 - it is logged
                log_raised(logger, "on_exhausted of a middleware raised")

    def around(self, executor: TaskExecutor) -> TaskExecutor:
        """Return an executor that runs within the middleware."""
        if not self.wraps or not isinstance(executor, TaskExecutor):
            return executor
        if runs_async(executor):
            return _AsyncWithin(self, executor)
        return _Within(self, executor)

    @contextmanager
    def entered(self, attempt: AttemptContext) -> Iterator[None]:
        """Enter all for a blocking attempt."""
        with ExitStack() as stack:
            for each in self._all:
                entered = each.around_attempt(attempt)
                if not isinstance(entered, AbstractContextManager):
                    raise TypeError(
                        f"{type(each).__name__}.around_attempt returned a"
                        f" {type(entered).__name__} for an executor that is not async: return a"
                        " context manager"
                    )
                stack.enter_context(entered)
            yield

    @asynccontextmanager
    async def entered_async(self, attempt: AttemptContext) -> AsyncIterator[None]:
        """Enter all for an attempt that is awaited."""
        async with AsyncExitStack() as stack:
            for each in self._all:
                entered = each.around_attempt(attempt)
                if isinstance(entered, AbstractAsyncContextManager):
                    await stack.enter_async_context(entered)
                else:
                    stack.enter_context(entered)
            yield


def _stop(middleware: Middleware) -> None:
    try:
        middleware.on_node_stop()
    except BaseException:  # noqa: BLE001 - it is logged
        log_raised(logger, "on_node_stop of a middleware raised")


class ExhaustedNews:
    """Passes a node's events about used-up attempts to the middleware.

    On a thread of its own: the node must not wait for user code when it emits an event.
    """

    def __init__(self, stack: MiddlewareStack) -> None:
        self._stack = stack
        self._waiting: queue.SimpleQueue[RetriesExhausted | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._tell, name="hourhand-middleware", daemon=True)
        self._thread.start()

    def emit(self, event: Event) -> None:
        """Queue an event about used-up attempts."""
        if isinstance(event, RetriesExhausted):
            self._waiting.put(event)

    def close(self) -> None:
        """Stop passing events on."""
        self._waiting.put(None)

    def _tell(self) -> None:
        while (event := self._waiting.get()) is not None:
            self._stack.exhausted(event.key, event.on_exhausted)


class ExecutorWrapper(TaskExecutor):
    """Wraps an executor: it has the same policy, and passes its attempt on."""

    def __init__(self, executor: TaskExecutor) -> None:
        self._executor = executor

    @property
    def declared_retry(self) -> RetryPolicy:
        """The policy of the class; no user code is called for it."""
        return unmade_policy_of(self._executor)

    @property
    def retry(self) -> RetryPolicy:  # type: ignore[override]
        """The executor's policy."""
        return self._executor.retry

    @property
    def timeout(self) -> timedelta | None:  # type: ignore[override]
        """The executor's timeout."""
        return self._executor.timeout

    def _tell(self) -> None:
        """Set the executor's attempt."""
        self._executor.attempt, self._executor.fence = self.attempt, self.fence
        self._executor.hourhand_checkpoints = self.hourhand_checkpoints


class _Within(ExecutorWrapper):
    """Runs an executor within the middleware."""

    def __init__(self, stack: MiddlewareStack, executor: TaskExecutor) -> None:
        super().__init__(executor)
        self._stack = stack

    def execute(self, task: Task) -> Outcome | None | Awaitable[Outcome | None]:
        """Run the task once, within the middleware."""
        with ExitStack() as held:
            held.enter_context(self._stack.entered(self._told(task)))
            outcome = self._executor.execute(task)
            if inspect.isawaitable(outcome):
                return _awaited(outcome, held.pop_all())
            return outcome

    def _told(self, task: Task) -> AttemptContext:
        """Set the executor's attempt, and return its context for the middleware."""
        self._tell()
        return AttemptContext(task, self.attempt, self.fence)


async def _awaited(outcome: Awaitable[Outcome | None], held: ExitStack) -> Outcome | None:
    """Await the result of a blocking executor, and leave the middleware after that."""
    with held:
        return await outcome


class _AsyncWithin(_Within):
    """The same as ``_Within``, for ``async def execute``."""

    async def execute(self, task: Task) -> Outcome | None:
        """Run the task once, within the middleware."""
        async with self._stack.entered_async(self._told(task)):
            outcome = self._executor.execute(task)
            return await outcome if inspect.isawaitable(outcome) else outcome


def opening(payloads: PayloadCodecs, executor: TaskExecutor) -> TaskExecutor:
    """Return an executor that gets opened data."""
    made: object = executor
    if not isinstance(made, TaskExecutor):
        # A product of the factory that is not an executor is refused when it runs.
        return executor
    wrapper = _AsyncOpening if runs_async(executor) else _Opening
    return wrapper(payloads, executor)


class _Opening(ExecutorWrapper):
    """Runs an executor with opened data."""

    def __init__(self, payloads: PayloadCodecs, executor: TaskExecutor) -> None:
        super().__init__(executor)
        self._payloads = payloads

    def _tell_of(self, task: Task) -> SealedCheckpoints:
        """Tell the executor which attempt it is, and return its checkpoints, opened and sealed."""
        self._tell()
        checkpoints = SealedCheckpoints(self._payloads, task, self.hourhand_checkpoints)
        self._executor.hourhand_checkpoints = checkpoints
        return checkpoints

    def execute(self, task: Task) -> Outcome | None | Awaitable[Outcome | None]:
        """Run the task once; raises the errors of opening its data too."""
        self._tell_of(task)
        with ExitStack() as held:
            here = held.enter_context(OpenedHere(self._payloads.budget))
            outcome = self._executor.execute(self._payloads.opened(task, here))
            if inspect.isawaitable(outcome):
                awaited = _awaited(outcome, held.pop_all())
                return sealed_outcome_async(self._payloads, task, awaited)
            return sealed_outcome(self._payloads, task, outcome)


class _AsyncOpening(_Opening):
    """The same as ``_Opening``, for ``async def execute``."""

    async def execute(self, task: Task) -> Outcome | None:
        """Run the task once; raises the errors of opening its data too."""
        await self._tell_of(task).open_before()
        with OpenedHere(self._payloads.budget) as here:
            opened = await _opened_async(self._payloads, task, here)
            outcome = self._executor.execute(opened)
            if inspect.isawaitable(outcome):
                return await sealed_outcome_async(self._payloads, task, outcome)
            return sealed_outcome(self._payloads, task, outcome)


class OpeningBatches:
    """Implements ``Batches`` for executors that get opened data."""

    def __init__(self, payloads: PayloadCodecs, batches: Batches) -> None:
        self._payloads = payloads
        self._batches = batches

    @property
    def limits(self) -> BatchLimits:
        """The limits of the wrapped batches."""
        return self._batches.limits

    @property
    def runs_async(self) -> bool:
        """True if the wrapped batches run on the loop."""
        return self._batches.runs_async

    @property
    def declared_retry(self) -> RetryPolicy:
        """The policy of the wrapped batches' class."""
        return self._batches.declared_retry

    @property
    def retry(self) -> RetryPolicy:
        """The policy of the wrapped batches."""
        return self._batches.retry

    @property
    def timeout(self) -> timedelta | None:
        """The timeout of the wrapped batches."""
        return self._batches.timeout

    def run(
        self, attempts: Sequence[BatchedAttempt], awaited: Callable[[Awaitable[object]], object]
    ) -> Sequence[BatchOutcome]:
        """Run a batch of the attempts whose data can be opened; the others fail."""
        read = _OpenedBatch(len(attempts))
        with OpenedHere(self._payloads.budget) as here:
            for place, attempt in read.places(attempts):
                try:
                    opened = self._payloads.opened(attempt.task, here)
                    checkpoints = self._sealed_checkpoints(attempt)
                    read.take(attempt._replace(checkpoints=checkpoints), opened)
                except NoRoom:
                    read.leave(place, attempt)
                except BaseException as error:  # noqa: BLE001 - a codec is user code
                    read.failed[place] = error
            found = self._batches.run(read.opened, awaited) if read.opened else ()
        return self._sealed(attempts, read.outcomes(found))

    async def run_async(self, attempts: Sequence[BatchedAttempt]) -> Sequence[BatchOutcome]:
        """Run a batch on this event loop, as ``run`` does."""
        read = _OpenedBatch(len(attempts))
        with OpenedHere(self._payloads.budget) as here:
            for place, attempt in read.places(attempts):
                try:
                    checkpoints = self._sealed_checkpoints(attempt)
                    await checkpoints.open_before()
                    opened = await _opened_async(self._payloads, attempt.task, here)
                    read.take(attempt._replace(checkpoints=checkpoints), opened)
                except NoRoom:
                    read.leave(place, attempt)
                except BaseException as error:
                    task = asyncio.current_task()
                    if task is not None and task.cancelling():
                        raise
                    read.failed[place] = error
            found = await self._batches.run_async(read.opened) if read.opened else ()
        outcomes = read.outcomes(found)
        if not self._payloads.blocks or not any(map(has_value, outcomes)):
            return self._sealed(attempts, outcomes)
        return await asyncio.to_thread(self._sealed, attempts, outcomes)

    def _sealed(
        self, attempts: Sequence[BatchedAttempt], outcomes: Sequence[BatchOutcome]
    ) -> Sequence[BatchOutcome]:
        """Return outcomes with their values sealed; what cannot be sealed has failed."""
        return [
            sealed_or_failed(self._payloads, attempt.task, outcome)
            for attempt, outcome in zip(attempts, outcomes, strict=True)
        ]

    def _sealed_checkpoints(self, attempt: BatchedAttempt) -> SealedCheckpoints:
        return SealedCheckpoints(self._payloads, attempt.task, attempt.checkpoints)


class _OpenedBatch:
    """The results of opening the data of a batch."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.opened: list[BatchedAttempt] = []
        self.failed: dict[int, BaseException] = {}
        """By index in the batch."""
        self._left_ids: set[str] = set()

    def places(self, attempts: Sequence[BatchedAttempt]) -> Iterator[tuple[int, BatchedAttempt]]:
        """Yield attempts to open, each with its index; skip those behind one of their id that was
        left.
        """
        for place, attempt in enumerate(attempts):
            if attempt.task.ordering_id in self._left_ids:
                self.leave(place, attempt)
            else:
                yield place, attempt

    def leave(self, place: int, attempt: BatchedAttempt) -> None:
        """Mark a task to run later, because there is no room for its data."""
        self._left_ids.add(attempt.task.ordering_id)
        self.failed[place] = TaskNotRun(_NO_ROOM)

    def take(self, attempt: BatchedAttempt, task: Task) -> None:
        self.opened.append(attempt._replace(task=task))

    def outcomes(self, found: Sequence[BatchOutcome]) -> Sequence[BatchOutcome]:
        """Return the outcome of each task of the batch, from the outcomes of the opened ones."""
        left = iter(found)
        return [self.failed[i] if i in self.failed else next(left) for i in range(self._count)]


async def _opened_async(payloads: PayloadCodecs, task: Task, here: OpenedHere) -> Task:
    if not payloads.blocks:
        try:
            return payloads.opened(task, here, at_once=True)
        except OpenedTooLarge:
            # It may have to wait for room, which must not happen on an event loop.
            pass
    return await asyncio.to_thread(payloads.opened, task, here)
