"""Tasks of one kind that run many at a time: which go together, and what becomes of each.

Decides when a batch is full or has waited long enough, and runs it within the middleware of each of
its tasks.  Each task stays an attempt of its own for the tree and the runner.  Never decides what
follows from an outcome.
"""

import asyncio
import contextlib
import inspect
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from datetime import timedelta
from typing import NamedTuple

from actors.model.backoff import RetryPolicy
from actors.model.batch_executor import BatchExecutor, BatchOutcome, outcomes_of
from actors.model.display import shown
from actors.model.outcome import Outcome
from actors.model.task import Task
from actors.model.task_executor import TaskExecutor
from scheduler.executors.middleware import AttemptContext, MiddlewareStack


class BatchLimits(NamedTuple):
    """What a batch executor says of its batches."""

    tasks_max: int
    wait_s: float
    batches_max: int
    retries_alone: bool

    @classmethod
    def of(cls, executor: BatchExecutor) -> "BatchLimits":
        """Read them; TypeError for what is not one."""
        tasks_max, batches_max = executor.batch_tasks_max, executor.batches_max
        for name, value in (("batch_tasks_max", tasks_max), ("batches_max", batches_max)):
            if type(value) is not int or value < 1:
                raise TypeError(f"{name} is {shown(value)}, a number of 1 or more is needed")
        wait: object = executor.batch_wait
        if not isinstance(wait, timedelta) or wait < timedelta(0):
            raise TypeError(f"batch_wait is {shown(wait)}, a timedelta of 0 or more is needed")
        return cls(tasks_max, wait.total_seconds(), batches_max, bool(executor.retries_alone))


class _Joined:
    """A task that waits for its batch, or for the end of it."""

    __slots__ = ("attempt", "go_s", "is_let_go", "outcome", "running")

    def __init__(
        self, attempt: AttemptContext, outcome: "asyncio.Future[BatchOutcome]", go_s: float
    ) -> None:
        self.attempt = attempt
        self.outcome = outcome
        self.go_s = go_s
        """When its batch begins at the latest, by the loop's clock."""
        self.running: _RunningBatch | None = None
        self.is_let_go = False


class _RunningBatch(NamedTuple):
    batch: "TaskBatch"
    members: Sequence[_Joined]
    task: "asyncio.Task[Sequence[BatchOutcome]] | None"
    """What awaits it, where it is a coroutine."""


class TaskBatch:
    """Some tasks and the executor that runs them."""

    def __init__(
        self,
        executor: BatchExecutor,
        attempts: Sequence[AttemptContext],
        middleware: MiddlewareStack,
        *,
        retries_alone: bool,
    ) -> None:
        assert attempts, "a batch has a task"
        self.executor = executor
        self._attempts = attempts
        self._middleware = middleware
        self._retries_alone = retries_alone

    @property
    def runs_async(self) -> bool:
        """Whether ``execute_many`` is a coroutine function."""
        return inspect.iscoroutinefunction(self.executor.execute_many)

    def run(self, awaited: Callable[[Awaitable[object]], object]) -> Sequence[BatchOutcome]:
        """Run it in this thread; ``awaited`` waits for what it may return."""
        outcomes: dict[int, BatchOutcome] = {}
        entered: list[tuple[int, ExitStack]] = []
        for place, attempt in enumerate(self._attempts):
            held = ExitStack()
            try:
                held.enter_context(self._middleware.entered(attempt))
            except BaseException as error:  # noqa: BLE001 - user code may raise anything
                outcomes[place] = error
            else:
                entered.append((place, held))
        found = self._called([place for place, _ in entered], awaited)
        for (place, held), outcome in zip(entered, found, strict=True):
            outcomes[place] = _left(held, outcome)
        return [outcomes[place] for place in range(len(self._attempts))]

    def _called(
        self, places: Sequence[int], awaited: Callable[[Awaitable[object]], object]
    ) -> Sequence[BatchOutcome]:
        if not places:
            return ()
        try:
            returned = self._begin(places)
            if inspect.isawaitable(returned):
                returned = awaited(returned)
            return outcomes_of(returned, len(places))
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            if self._retries_alone and len(places) > 1:
                return [outcome for each in places for outcome in self._called([each], awaited)]
            return [error] * len(places)

    async def run_async(self) -> Sequence[BatchOutcome]:
        """Run it on this loop."""
        outcomes: dict[int, BatchOutcome] = {}
        entered: list[tuple[int, AsyncExitStack]] = []
        for place, attempt in enumerate(self._attempts):
            held = AsyncExitStack()
            try:
                await held.enter_async_context(self._middleware.entered_async(attempt))
            except BaseException as error:  # noqa: BLE001 - user code may raise anything
                outcomes[place] = error
            else:
                entered.append((place, held))
        found = await self._called_async([place for place, _ in entered])
        for (place, held), outcome in zip(entered, found, strict=True):
            outcomes[place] = await _left_async(held, outcome)
        return [outcomes[place] for place in range(len(self._attempts))]

    async def _called_async(self, places: Sequence[int]) -> Sequence[BatchOutcome]:
        if not places:
            return ()
        timeout: object = self.executor.timeout
        timeout_s = timeout.total_seconds() if isinstance(timeout, timedelta) else None
        try:
            async with asyncio.timeout(timeout_s):
                returned: object = self._begin(places)
                if inspect.isawaitable(returned):
                    returned = await returned
            return outcomes_of(returned, len(places))
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            cancelled = isinstance(error, asyncio.CancelledError)
            if self._retries_alone and len(places) > 1 and not cancelled:
                alone = [await self._called_async([each]) for each in places]
                return [outcome for outcomes in alone for outcome in outcomes]
            return [error] * len(places)

    def _begin(self, places: Sequence[int]) -> object:
        attempts = [self._attempts[place] for place in places]
        executor = self.executor
        executor.attempts = tuple(each.attempt for each in attempts)
        executor.fences = tuple(each.fence for each in attempts)
        return executor.execute_many(tuple(each.task for each in attempts))


def _left(held: ExitStack, outcome: BatchOutcome) -> BatchOutcome:
    """Leave a task's middleware with its outcome; return what that makes of it."""
    try:
        with held:
            raised(outcome)
    except BaseException as error:  # noqa: BLE001 - user code may raise anything
        return error
    # Middleware that swallows an error makes the attempt a success.
    return None if isinstance(outcome, BaseException) else outcome


async def _left_async(held: AsyncExitStack, outcome: BatchOutcome) -> BatchOutcome:
    try:
        async with held:
            raised(outcome)
    except BaseException as error:  # noqa: BLE001 - user code may raise anything
        return error
    # Middleware that swallows an error makes the attempt a success.
    return None if isinstance(outcome, BaseException) else outcome


def raised(outcome: BatchOutcome) -> Outcome | None:
    """Return an outcome; raises the exception that it is."""
    if isinstance(outcome, BaseException):
        # One error may be that of many tasks; each shows the frames of user code and no others.
        raise outcome.with_traceback(outcome.__traceback__)
    return outcome


class Batches:
    """The batches of one kind on one node; used on the node's event loop alone."""

    def __init__(
        self, make: Callable[[], BatchExecutor], first: BatchExecutor, middleware: MiddlewareStack
    ) -> None:
        """``first`` is the first of the executors that ``make`` returns.

        Raises TypeError where it says nonsense of its batches.
        """
        self.limits = BatchLimits.of(first)
        self.first = first
        self._make = make
        self._middleware = middleware
        self._idle = [first]
        self._waiting: deque[_Joined] = deque()
        self._running = 0
        self._timer: asyncio.TimerHandle | None = None

    def batch_of(self, attempts: Sequence[AttemptContext]) -> TaskBatch:
        """Return a batch to be run; ``end`` has to follow.  A constructor's error is raised."""
        executor = self._idle.pop() if self._idle else self._make()
        return TaskBatch(
            executor, attempts, self._middleware, retries_alone=self.limits.retries_alone
        )

    def end(self, batch: TaskBatch) -> None:
        """Keep a batch's executor for the next one."""
        self._idle.append(batch.executor)

    async def outcome_of(self, attempt: AttemptContext) -> BatchOutcome:
        """Run a task with others of its kind; return what became of it.

        A batch that runs is cancelled once nobody waits for any of it; the others are waited for.
        """
        loop = asyncio.get_running_loop()
        member = _Joined(attempt, loop.create_future(), loop.time() + self.limits.wait_s)
        self._waiting.append(member)
        self._look()
        while True:
            try:
                return await asyncio.shield(member.outcome)
            except asyncio.CancelledError:
                if member in self._waiting:
                    self._waiting.remove(member)
                    raise
                member.is_let_go = True
                _cancel_if_let_go(member.running)

    def _look(self) -> None:
        """Begin what is full or has waited long enough, where a batch more may run."""
        loop = asyncio.get_running_loop()
        while self._waiting and self._running < self.limits.batches_max:
            wait_s = self._waiting[0].go_s - loop.time()
            if len(self._waiting) < self.limits.tasks_max and wait_s > 0:
                if self._timer is None:
                    self._timer = loop.call_later(wait_s, self._time_is_up)
                return
            taken = min(len(self._waiting), self.limits.tasks_max)
            self._begin([self._waiting.popleft() for _ in range(taken)])

    def _time_is_up(self) -> None:
        self._timer = None
        self._look()

    def _begin(self, members: Sequence[_Joined]) -> None:
        loop = asyncio.get_running_loop()
        try:
            batch = self.batch_of([each.attempt for each in members])
        except BaseException as error:  # noqa: BLE001 - a constructor is user code
            _settle(members, [error] * len(members))
            return
        self._running += 1
        task = loop.create_task(batch.run_async()) if batch.runs_async else None
        running = _RunningBatch(batch, members, task)
        for member in members:
            member.running = running
        if task is not None:
            task.add_done_callback(lambda done: self._take_end(running, _ended(done, members)))
            return
        thread = threading.Thread(
            target=self._work, args=(running, loop), name="hourhand-batch", daemon=True
        )
        thread.start()

    def _work(self, running: _RunningBatch, loop: asyncio.AbstractEventLoop) -> None:
        outcomes = running.batch.run(
            lambda found: asyncio.run_coroutine_threadsafe(_of(found), loop).result()
        )
        # The loop is closed where the node stopped meanwhile, and nobody waits any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._take_end, running, outcomes)

    def _take_end(self, running: _RunningBatch, outcomes: Sequence[BatchOutcome]) -> None:
        self._running -= 1
        assert self._running >= 0, "a batch ends once"
        self.end(running.batch)
        _settle(running.members, outcomes)
        self._look()


class BatchMember(TaskExecutor):
    """Stands for a batch executor at one ordering id, whose attempts go into batches."""

    def __init__(self, batches: Batches) -> None:
        self.batches = batches

    @property
    def retry(self) -> RetryPolicy:  # type: ignore[override]
        """The batch executor's."""
        return self.batches.first.retry

    async def execute(self, task: Task) -> Outcome | None:
        """Run the task in a batch."""
        outcome = await self.batches.outcome_of(AttemptContext(task, self.attempt, self.fence))
        return raised(outcome)


async def _of(found: Awaitable[object]) -> object:
    return await found


def _cancel_if_let_go(running: _RunningBatch | None) -> None:
    assert running is not None, "what does not wait runs"
    if running.task is not None and all(each.is_let_go for each in running.members):
        running.task.cancel()


def _ended(
    done: "asyncio.Task[Sequence[BatchOutcome]]", members: Sequence[_Joined]
) -> Sequence[BatchOutcome]:
    if done.cancelled():
        return [asyncio.CancelledError()] * len(members)
    error = done.exception()
    return done.result() if error is None else [error] * len(members)


def _settle(members: Sequence[_Joined], outcomes: Sequence[BatchOutcome]) -> None:
    for member, outcome in zip(members, outcomes, strict=True):
        member.outcome.set_result(outcome)
