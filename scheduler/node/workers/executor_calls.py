"""One call of an executor, in a thread or as a coroutine, from the gate to its end.

Never decides when an attempt runs, or on which thread.  Any error of user code becomes the end of
its attempt.
"""

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextvars import Context
from functools import partial

from hourhand.actors.model.execution.attempts import Attempt, AttemptEnded, Ending
from hourhand.actors.model.execution.executor_attributes import timeout_ms_of
from hourhand.actors.model.task.task import FRESH
from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.current_attempt import tell_attempt
from hourhand.scheduler.node.durable_starts import START_DEADLINE_S
from hourhand.scheduler.node.endings import not_started
from hourhand.scheduler.node.workers.async_loop import LoopThread
from hourhand.scheduler.node.workers.machine import MACHINE, Machine
from hourhand.scheduler.runtime.forking import end_child, process

Watch = Callable[[RunningAttempt, int | None], Callable[[], object] | None]
"""Watches an attempt with a timeout in milliseconds; returns a function that ends the watch."""


class ExecutorCalls:
    """Calls executors, one attempt at a time."""

    def __init__(
        self,
        calls: Calls,
        loop: LoopThread,
        watch: Watch,
        watch_async: Watch | None = None,
        machine: Machine = MACHINE,
    ) -> None:
        """``watch`` watches blocking attempts, ``watch_async`` async ones."""
        self._calls, self._loop = calls, loop
        self._watch, self._watch_async = watch, watch_async
        self._machine = machine

    def run(self, running: RunningAttempt) -> None:
        """Run a blocking attempt in this thread, and report its end."""
        try:
            # In a context of its own: context variables that it sets do not reach other attempts.
            ended = Context().run(self._attempt, running)
        except BaseException as error:  # noqa: BLE001 - an attempt without an end blocks its id
            ended = self._calls.broken_off(running, error)
        self._calls.end(running, ended)

    def _attempt(self, running: RunningAttempt) -> AttemptEnded:
        calls, attempt, executor = self._calls, running.attempt, running.executor
        if not calls.may_begin(running):
            return self._not_started(running)
        uncalled = calls.uncalled(running)
        if uncalled is not None:
            return uncalled
        is_again = attempt.task.attempts is not FRESH and attempt.was_given_up
        if is_again and not (self._recorded_start(attempt) and calls.gate(attempt)):
            return self._not_started(running)
        started_ms = calls.begin(running)
        watch, awaits = None, False
        try:
            tell_attempt(running)
            timeout_ms = timeout_ms_of(executor, attempt.timeout_ms)
            watch = self._watch(running, timeout_ms)
            outcome: object = executor.execute(attempt.task.to_task())
            if outcome is not None and inspect.isawaitable(outcome):
                awaits = True
                let_cancel = partial(calls.registry.let_cancel, running)
                allowed_ms = left_ms(running, timeout_ms, calls.clock)
                awaited = self._loop.begin(outcome, allowed_ms, let_cancel)
                outcome = self._machine.result_of(awaited)
            ended = calls.returned(running, outcome, started_ms)
        except FutureTimeoutError as error:
            end_child(calls.born, error)
            ending = Ending.TIMED_OUT if awaits else Ending.FAILED
            ended = calls.failed(running, error, started_ms, ending)
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            end_child(calls.born, error)
            ended = calls.failed(running, error, started_ms)
        if process.generation != calls.born:
            end_child(calls.born)
        if watch is not None:
            watch()
        return ended

    async def run_async(self, running: RunningAttempt) -> None:
        """Run an attempt on this event loop, and report its end."""
        try:
            ended = await self._attempt_async(running)
        except BaseException as error:  # noqa: BLE001 - as for a worker
            ended = self._calls.broken_off(running, error)
        self._calls.end(running, ended)

    async def _attempt_async(self, running: RunningAttempt) -> AttemptEnded:
        calls, attempt = self._calls, running.attempt
        if not calls.may_begin(running):
            return self._not_started(running)
        running.task = task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        if task is not None:
            calls.registry.let_cancel(running, lambda: loop.call_soon_threadsafe(task.cancel))
        uncalled = calls.uncalled(running)
        if uncalled is not None:
            return uncalled
        if attempt.was_given_up and not (await _start_recorded(attempt) and calls.gate(attempt)):
            return self._not_started(running)
        return await self._execute_async(running, calls.begin(running))

    async def _execute_async(self, running: RunningAttempt, started_ms: int) -> AttemptEnded:
        calls, attempt, executor = self._calls, running.attempt, running.executor
        limit = asyncio.timeout(None)
        try:
            tell_attempt(running)
            timeout_ms = timeout_ms_of(executor, attempt.timeout_ms)
            remaining_ms = left_ms(running, timeout_ms, calls.clock)
            if remaining_ms is not None:
                limit = asyncio.timeout(remaining_ms / 1000)
            if self._watch_async is not None:
                self._watch_async(running, timeout_ms)
            async with limit:
                outcome = executor.execute(attempt.task.to_task())
                if inspect.isawaitable(outcome):
                    outcome = await outcome
            end_child(calls.born)
            return calls.returned(running, outcome, started_ms)
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            end_child(calls.born, error)
            ending = Ending.TIMED_OUT if limit.expired() else Ending.FAILED
            return calls.failed(running, error, started_ms, ending)

    def _not_started(self, running: RunningAttempt) -> AttemptEnded:
        return not_started(running.attempt, self._calls.clock.now_ms())

    def _recorded_start(self, attempt: Attempt) -> bool:
        """Wait until the start of an attempt is durable; return False if that fails."""
        if attempt.record_starts is None:
            return True
        try:
            self._machine.result_of(attempt.record_starts((attempt,)), START_DEADLINE_S)
        except (CancelledError, FutureTimeoutError, HourhandError):
            # The tree is gone; its successor starts the task again.
            return False
        return True


async def _start_recorded(attempt: Attempt) -> bool:
    """Wait until the start of an attempt is durable; uses no part of the loop that user code can
    replace.
    """
    if attempt.record_starts is None:
        return True
    try:
        async with asyncio.timeout(START_DEADLINE_S):
            await asyncio.wrap_future(attempt.record_starts((attempt,)))
    except (asyncio.CancelledError, TimeoutError, HourhandError):
        # The cancel came before user code began.
        return False
    return True


def left_ms(running: RunningAttempt, timeout_ms: int | None, clock: Clock) -> float | None:
    """Return the milliseconds that an attempt has left: its constructor has taken some of them."""
    if timeout_ms is None:
        return None
    begun_ms = running.started_monotonic_ms
    assert begun_ms is not None, "only what has begun has a timeout"
    return max(0.0, begun_ms + timeout_ms - clock.monotonic_ms())
