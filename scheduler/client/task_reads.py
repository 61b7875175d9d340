"""A client's reads of tasks: one, many, attempts, and waiting.

Each call is one of ``TaskQueries``, waited for in the caller's thread. ``AsyncReads`` has the same
calls for coroutines, and those that read recurring schedules: none of them blocks the event loop.
Writes need no such twin, because a client's futures can be awaited.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from hourhand.actors.model.task.status import CommandOutcome, RecordedOutcome
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.client.system_requests import SystemRequests
from hourhand.scheduler.runtime.answers import answered, awaited_answer
from hourhand.scheduler.runtime.sleeping import Sleeper
from hourhand.scheduler.services.recurring.state import Recurring
from hourhand.scheduler.tasks.outcome_stream import OutcomeInfo
from hourhand.scheduler.tasks.receipt import CommandReceipt
from hourhand.scheduler.tasks.task_info import AttemptInfo, TaskInfo
from hourhand.scheduler.tasks.task_queries import (
    ChosenTasks,
    KeyOrReceipt,
    KeyReceiptOrPair,
    TaskQueries,
    TaskWatch,
    chosen_tasks,
    pauses_s,
    refuse_requests,
    seconds,
    undecided,
)
from hourhand.scheduler.tasks.task_state import TaskState


class TaskReads:
    """A client's calls that read tasks, in the caller's thread; their errors are the client's."""

    def __init__(self, queries: TaskQueries, clock: Clock, sleeper: Sleeper) -> None:
        self._queries = queries
        self._clock = clock
        self._sleeper = sleeper

    def find_task(self, task: KeyReceiptOrPair) -> TaskInfo:
        """Return a stored task; see ``SchedulerClient.find_task``."""
        return self._queries.opened(answered(self._queries.find(task, with_result=True)))

    def history(self, task: KeyOrReceipt) -> tuple[AttemptInfo, ...]:
        """Return the attempts at a task; see ``SchedulerClient.history``."""
        return answered(self._queries.attempts(task))

    def list_tasks(self, chosen: ChosenTasks) -> Iterator[TaskInfo]:
        """Return the stored tasks that match; see ``SchedulerClient.list_tasks``."""
        return chain.from_iterable(self._queries.pages(chosen))

    def wait_task(self, task: KeyOrReceipt, timeout: timedelta | float | None = None) -> TaskInfo:
        """Wait until a task is closed; see ``SchedulerClient.wait_task``."""
        watch, timeout_s = TaskWatch(task), seconds(timeout)
        for pause_s in pauses_s(self._clock, timeout_s):
            self._sleeper.sleep(pause_s)
            info = answered(self._queries.find(watch.task))
            if watch.is_over(info):
                return self._queries.opened(info)
        raise watch.too_late(timeout_s or 0)

    def wait_result(self, task: KeyOrReceipt, timeout: timedelta | float | None = None) -> Any:
        """Wait for the value that a task ends with; see ``SchedulerClient.wait_result``."""
        info = self.wait_task(refuse_requests(task), timeout)
        found = answered(self._queries.result(info))
        return self._queries.value(found)

    def outcomes(
        self, after: int = 0, timeout: timedelta | float | None = None
    ) -> Iterator[OutcomeInfo]:
        """Yield outcomes of tasks as they come; see ``SchedulerClient.outcomes``."""
        timeout_s = seconds(timeout)
        while page := self._next_outcomes(after, timeout_s):
            yield from page
            after = page[-1].position

    def _next_outcomes(self, after: int, timeout_s: float | None) -> list[OutcomeInfo]:
        for pause_s in pauses_s(self._clock, timeout_s):
            self._sleeper.sleep(pause_s)
            if page := answered(self._queries.outcomes(after)):
                return page
        return []

    def outcome(self, receipt: CommandReceipt) -> RecordedOutcome | None:
        """Return the outcome of a command; see ``SchedulerClient.outcome``."""
        return answered(self._queries.outcome(receipt))

    def wait_outcome(
        self,
        receipt: CommandReceipt,
        timeout: timedelta | float | None = None,
        *,
        ended: bool = False,
    ) -> RecordedOutcome:
        """Wait until a node has decided on a command; see ``SchedulerClient.wait_outcome``."""
        timeout_s, found = seconds(timeout), None
        for pause_s in pauses_s(self._clock, timeout_s):
            self._sleeper.sleep(pause_s)
            found = answered(self._queries.outcome(receipt))
            if found is not None and not (ended and _runs(found)):
                break
        if found is None:
            raise undecided(receipt, timeout_s or 0)
        return found


def _runs(found: RecordedOutcome) -> bool:
    """Return if an attempt was running and its end is not known."""
    return found.outcome is CommandOutcome.RUNNING


class AsyncReads:
    """A client's calls that read, under the same names, for an event loop of asyncio.

    Their errors are the client's. A cancelled call leaves nothing behind.
    """

    def __init__(
        self, queries: TaskQueries, clock: Clock, sleeper: Sleeper, systems: SystemRequests
    ) -> None:
        self._queries = queries
        self._clock = clock
        self._sleeper = sleeper
        self._systems = systems

    async def find_task(self, task: KeyReceiptOrPair) -> TaskInfo:
        """Return a stored task; see ``SchedulerClient.find_task``."""
        found = await awaited_answer(self._queries.find(task, with_result=True))
        return await self._opened(found)

    async def history(self, task: KeyOrReceipt) -> tuple[AttemptInfo, ...]:
        """Return the attempts at a task; see ``SchedulerClient.history``."""
        return await awaited_answer(self._queries.attempts(task))

    def list_tasks(
        self,
        *,
        ordering_id: str | None = None,
        kind: str | None = None,
        state: TaskState | Collection[TaskState] | None = None,
        scheduled_from: datetime | None = None,
        scheduled_before: datetime | None = None,
        limit: int | None = None,
        results: bool = False,
    ) -> AsyncIterator[TaskInfo]:
        """Return the stored tasks that match; see ``SchedulerClient.list_tasks``.

        A worker thread of the event loop reads each page.
        """
        span = scheduled_from, scheduled_before
        return self._listed(chosen_tasks(ordering_id, kind, state, *span, limit, results=results))

    async def wait_task(
        self,
        task: KeyOrReceipt,
        timeout: timedelta | float | None = None,  # noqa: ASYNC109 - its error says how it stands
    ) -> TaskInfo:
        """Wait until a task is closed; see ``SchedulerClient.wait_task``."""
        watch, timeout_s = TaskWatch(task), seconds(timeout)
        for pause_s in pauses_s(self._clock, timeout_s):
            await self._sleeper.sleep_async(pause_s)
            info = await awaited_answer(self._queries.find(watch.task))
            if watch.is_over(info):
                return await self._opened(info)
        raise watch.too_late(timeout_s or 0)

    async def wait_result(
        self,
        task: KeyOrReceipt,
        timeout: timedelta | float | None = None,  # noqa: ASYNC109 - as above
    ) -> Any:
        """Wait for the value that a task ends with; see ``SchedulerClient.wait_result``."""
        info = await self.wait_task(refuse_requests(task), timeout)
        found = await awaited_answer(self._queries.result(info))
        if self._queries.opening_blocks:
            return await asyncio.to_thread(self._queries.value, found)
        return self._queries.value(found)

    async def outcomes(
        self,
        after: int = 0,
        timeout: timedelta | float | None = None,  # noqa: ASYNC109 - as above
    ) -> AsyncIterator[OutcomeInfo]:
        """Yield outcomes of tasks as they come; see ``SchedulerClient.outcomes``."""
        timeout_s = seconds(timeout)
        while page := await self._next_outcomes(after, timeout_s):
            for each in page:
                yield each
            after = page[-1].position

    async def _next_outcomes(self, after: int, timeout_s: float | None) -> list[OutcomeInfo]:
        for pause_s in pauses_s(self._clock, timeout_s):
            await self._sleeper.sleep_async(pause_s)
            if page := await awaited_answer(self._queries.outcomes(after)):
                return page
        return []

    async def outcome(self, receipt: CommandReceipt) -> RecordedOutcome | None:
        """Return the outcome of a command; see ``SchedulerClient.outcome``."""
        return await awaited_answer(self._queries.outcome(receipt))

    async def wait_outcome(
        self,
        receipt: CommandReceipt,
        timeout: timedelta | float | None = None,  # noqa: ASYNC109 - as above
        *,
        ended: bool = False,
    ) -> RecordedOutcome:
        """Wait until a node has decided on a command; see ``SchedulerClient.wait_outcome``."""
        timeout_s, found = seconds(timeout), None
        for pause_s in pauses_s(self._clock, timeout_s):
            await self._sleeper.sleep_async(pause_s)
            found = await self.outcome(receipt)
            if found is not None and not (ended and _runs(found)):
                break
        if found is None:
            raise undecided(receipt, timeout_s or 0)
        return found

    async def find_recurring(self, name: str) -> Recurring | None:
        """Return a recurring schedule; see ``SchedulerClient.find_recurring``."""
        return await asyncio.to_thread(self._systems.find_recurring, name)

    async def list_recurring(self) -> list[Recurring]:
        """Return all recurring schedules; see ``SchedulerClient.list_recurring``."""
        return await asyncio.to_thread(self._systems.list_recurring)

    async def _opened(self, info: TaskInfo) -> TaskInfo:
        if self._queries.opening_blocks:
            return await asyncio.to_thread(self._queries.opened, info)
        return self._queries.opened(info)

    async def _listed(self, chosen: ChosenTasks) -> AsyncIterator[TaskInfo]:
        pages = self._queries.pages(chosen)
        nothing: Sequence[TaskInfo] | None = None
        while (page := await asyncio.to_thread(next, pages, nothing)) is not None:
            for each in page:
                yield each
