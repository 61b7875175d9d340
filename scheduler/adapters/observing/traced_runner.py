"""Calls of user code as spans: current while it runs, so that what it does belongs to the trace.

A task that belongs to no sampled trace goes to the runner behind as it is.  Decides nothing about
when an attempt runs or what its outcome means.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from opentelemetry.trace import Span, Status, StatusCode, use_span

from actors.model.attempts import Attempt
from actors.model.key import TaskKey
from actors.model.outcome import Outcome
from actors.model.task import StoredTask, Task
from actors.model.trace import carried_context
from actors.ports.runner import AttemptListener, Executable, Runner
from scheduler.node.system_executor import ImmediateWork, SystemExecutor
from scheduler.process.user_code import runs_async

BeginSpan = Callable[[bytes, Mapping[str, Any]], Span]
NoteEnd = Callable[[TaskKey, bytes], None]


class TracedRunner:
    """``Runner``, with the traced tasks' executors wrapped."""

    def __init__(self, runner: Runner, begin: BeginSpan, note_end: NoteEnd) -> None:
        self._runner = runner
        self._begin = begin
        self._note_end = note_end
        self.withdraw = runner.withdraw
        self.long_running = runner.long_running
        self.unsettled = runner.unsettled
        self.adopt = runner.adopt
        self.settle = runner.settle
        self.drain = runner.drain

    def start(
        self, starts: Sequence[tuple[Attempt, Executable]], listener: AttemptListener
    ) -> None:
        """Run each attempt as soon as a worker is free for it."""
        self._runner.start([(each, self._traced(each, by)) for each, by in starts], listener)

    def _traced(self, attempt: Attempt, executor: Executable) -> Executable:
        context = carried_context(attempt.task.data)
        if context is None:
            return executor
        wrapper = _Async if runs_async(executor) else _Blocking
        return wrapper(executor, _CallSpan(attempt, context, self._begin, self._note_end))


class _CallSpan:
    """The span of one call."""

    def __init__(
        self, attempt: Attempt, context: bytes, begin: BeginSpan, note_end: NoteEnd
    ) -> None:
        self._attempt = attempt
        self._context = context
        self._begin = begin
        self._note_end = note_end

    def begin(self) -> Span:
        """Begin it, below the task's context."""
        attempt = self._attempt
        key = attempt.task.key
        about = {
            "key": str(key),
            "ordering_id": key.ordering_id,
            "partition": attempt.partition,
            "attempt": attempt.number,
            "fence": attempt.epoch,
            **({"kind": kind} if (kind := attempt.task.kind) is not None else {}),
        }
        return self._begin(self._context, about)

    def end(self, span: Span, outcome: object) -> None:
        """End it with what user code returned."""
        name = "done" if outcome is None else type(outcome).__name__.lower()
        span.set_attribute("hourhand.outcome", name)
        self._close(span)

    def fail(self, span: Span, error: BaseException) -> None:
        """End it with what user code raised; its text may hold anything, so only its class."""
        span.set_attribute("error.type", type(error).__qualname__)
        span.set_status(Status(StatusCode.ERROR))
        self._close(span)

    def _close(self, span: Span) -> None:
        span.end()
        self._note_end(self._attempt.task.key, self._context)


class _Wrapped:
    """Stands for an executor: what the runner sets is set there."""

    __slots__ = ("_call", "_inner")
    _inner: Executable
    _call: _CallSpan
    attempt: int
    fence: int

    def __init__(self, inner: Executable, call: _CallSpan) -> None:
        object.__setattr__(self, "_inner", inner)
        object.__setattr__(self, "_call", call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._inner, name, value)

    @property  # type: ignore[misc]
    def __class__(self) -> type[Executable]:  # type: ignore[override]
        """The executor's: what a runner does for its kind it does for this one."""
        return type(self._inner)

    @contextmanager
    def around(self) -> Iterator[None]:
        """Be inside the span, for a task of a batch."""
        span = self._call.begin()
        with use_span(span, record_exception=False, set_status_on_exception=False):
            try:
                yield
            except BaseException as error:
                self._call.fail(span, error)
                raise
        self._call.end(span, None)

    def immediate(self, task: StoredTask) -> ImmediateWork | None:
        """Return the fast path of an executor that knows one, inside a span as well."""
        work = cast("SystemExecutor", self._inner).immediate(task)
        return None if work is None else partial(self._begin_immediate, work)

    def _begin_immediate(self, work: ImmediateWork) -> "Future[Outcome | None]":
        span = self._call.begin()
        with use_span(span, record_exception=False, set_status_on_exception=False):
            try:
                answer = work()
            except BaseException as error:
                self._call.fail(span, error)
                raise
        answer.add_done_callback(partial(self._acknowledged, span))
        return answer

    def _acknowledged(self, span: Span, done: "Future[Outcome | None]") -> None:
        error = done.exception()
        if error is None:
            self._call.end(span, done.result())
        else:
            self._call.fail(span, error)

    async def _awaited(self, span: Span, outcome: Awaitable[Outcome | None]) -> Outcome | None:
        """Await what user code returned, inside its span."""
        with use_span(span, record_exception=False, set_status_on_exception=False):
            try:
                ended = await outcome
            except BaseException as error:
                self._call.fail(span, error)
                raise
        self._call.end(span, ended)
        return ended


class _Blocking(_Wrapped):
    __slots__ = ()

    def execute(self, task: Task) -> Outcome | None | Awaitable[Outcome | None]:
        """Run the task once, inside its span."""
        span = self._call.begin()
        with use_span(span, record_exception=False, set_status_on_exception=False):
            try:
                outcome = self._inner.execute(task)
            except BaseException as error:
                self._call.fail(span, error)
                raise
        if inspect.isawaitable(outcome):
            return self._awaited(span, outcome)
        self._call.end(span, outcome)
        return outcome


class _Async(_Wrapped):
    __slots__ = ()

    async def execute(self, task: Task) -> Outcome | None:
        """Run the task once, inside its span."""
        span = self._call.begin()
        with use_span(span, record_exception=False, set_status_on_exception=False):
            try:
                outcome = self._inner.execute(task)
                if inspect.isawaitable(outcome):
                    outcome = await outcome
            except BaseException as error:
                self._call.fail(span, error)
                raise
        self._call.end(span, outcome)
        return outcome
