"""One trace a task: scheduled, stored, run and completed, through OpenTelemetry's API.

The context travels in the record's ``traceparent`` header, is stored with the row
(``hourhand.actors.model.trace``), is current while user code runs, and leaves through relayed
messages and callbacks. A task without a sampled context costs only a look at its data. Spans name
the task and hold neither its data nor an error's text. The process chooses the SDK and the share of
sampled traces. Decides nothing about when an attempt runs or about its outcome.
"""

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, cast

import msgspec
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from hourhand.actors.model.attempts import Attempt, AttemptEnded, Ending
from hourhand.actors.model.codec import Headers, LogRecord
from hourhand.actors.model.key import TaskKey
from hourhand.actors.model.outcome import Outcome
from hourhand.actors.model.status import Completion
from hourhand.actors.model.task import StoredTask, Task
from hourhand.actors.model.trace import TRACEPARENT, carried_context, context_of
from hourhand.actors.ports.log import LogWriter, Position, TaskLog
from hourhand.actors.ports.runner import AttemptListener, Executable, Runner
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.futures.future_group import FutureWriter
from hourhand.scheduler.node.system_executor import ImmediateWork, SystemExecutor
from hourhand.scheduler.observe.health import Health, NodeProbes
from hourhand.scheduler.observe.observation import Observation
from hourhand.scheduler.ports.messages import MessageWriter
from hourhand.scheduler.ports.processes import is_in_process
from hourhand.scheduler.process.user_code import runs_async

_W3C = TraceContextTextMapPropagator()
_NS = 1_000_000
"""Nanoseconds of a millisecond."""
_OUTCOMES = {Ending.DROPPED: "drop", Ending.SNOOZED: "snooze"}
"""Names of outcomes that are not those of their endings."""
_ENDED_MAX = 10_000
"""Most attempts whose completion is still to be traced; that of an abandoned one never comes."""


def traced(_settings: Settings, behind: Observation) -> "Traced":
    """Return an observation that traces, and passes everything on to ``behind``."""
    return Traced(behind)


class Traced(Observation):
    """Traces, and passes everything on to the observation behind it."""

    def __init__(self, behind: Observation) -> None:
        super().__init__(behind.telemetry)
        self._behind = behind
        self.registry = behind.registry
        self._spans = Spans()

    @property
    def health(self) -> Health | None:  # type: ignore[override]
        """The health of the node, from the observation behind it."""
        return self._behind.health

    @property
    def port(self) -> int | None:  # type: ignore[override]
        """The port of metrics and health."""
        return self._behind.port

    def stores(self, stores: Stores) -> Stores:
        """Trace rows written and keys closed."""
        stores = self._behind.stores(stores)
        schedule: Any = TracedSchedule(stores.schedule, self._spans)
        status: Any = TracedStatus(stores.status, self._spans)
        return msgspec.structs.replace(stores, schedule=schedule, status=status)

    def log(self, log: TaskLog) -> TaskLog:
        """Pass on: reading belongs to the traces of the records."""
        return self._behind.log(log)

    def writer(self, writer: LogWriter) -> LogWriter:
        """Trace records appended."""
        return TracedWriter(self._behind.writer(writer), self._spans)

    def leave_out(self, unordered: Collection[str | None]) -> None:
        """Pass on to the observation behind it."""
        self._behind.leave_out(unordered)

    def runner(self, runner: Runner) -> Runner:
        """Trace calls of user code."""
        return TracedRunner(self._behind.runner(runner), self._spans.attempt, self._spans.note_end)

    def messages(self, messages: MessageWriter) -> MessageWriter:
        """Add the current trace to every message."""
        return TracedMessages(self._behind.messages(messages))

    def headers(self) -> Mapping[str, str]:
        """Return the current trace as HTTP headers."""
        carrier: dict[str, str] = {}
        _W3C.inject(carrier)
        return carrier

    def within(self, headers: Headers) -> AbstractContextManager[object]:
        """Continue the trace of a message, if it belongs to a sampled one."""
        return _within(context_of(headers))

    def begin(self, probes: NodeProbes) -> None:
        """Pass on."""
        self._behind.begin(probes)

    def close(self) -> None:
        """Pass on."""
        self._behind.close()


class Spans:
    """Makes spans of tasks; used from any thread."""

    def __init__(self) -> None:
        self._tracer = trace.get_tracer("hourhand")
        self._ended: dict[TaskKey, bytes] = {}

    def begin(
        self,
        name: str,
        kind: SpanKind,
        context: bytes | None,
        attributes: Mapping[str, Any],
        started_ns: int | None = None,
    ) -> Span:
        """Begin a span below a task's context, or below the current one."""
        parent = None if context is None else _as_context(context)
        named = {f"hourhand.{key}": value for key, value in attributes.items()}
        return self._tracer.start_span(
            f"hourhand {name}", parent, kind, named, start_time=started_ns
        )

    def of_task(self, name: str, key: TaskKey, context: bytes, **attributes: object) -> Span:
        """Begin a span that names its task."""
        about = {"key": str(key), "ordering_id": key.ordering_id, **attributes}
        return self.begin(name, SpanKind.CLIENT, context, about)

    def attempt(
        self, context: bytes, attributes: Mapping[str, Any], started_ns: int | None = None
    ) -> Span:
        """Begin the span of a call of user code, which began now, or nanoseconds after 1970."""
        return self.begin("attempt", SpanKind.CONSUMER, context, attributes, started_ns)

    def note_end(self, key: TaskKey, context: bytes) -> None:
        """Keep the context of a task whose completion may follow."""
        if len(self._ended) >= _ENDED_MAX:
            self._ended.pop(next(iter(self._ended)), None)
        self._ended[key] = context

    def take_end(self, key: TaskKey) -> bytes | None:
        """Return the kept context, once."""
        return self._ended.pop(key, None) if self._ended else None


class _Behind:
    """Wraps a port; passes on the methods that it does not have."""

    def __init__(self, behind: object, spans: Spans) -> None:
        self._port: Any = behind
        self._spans = spans

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


class TracedSchedule(_Behind):
    """``ScheduleStore``: a span for each traced row that is written."""

    def insert_tasks(
        self, partition: int, tasks: Sequence[StoredTask], write_time: int
    ) -> "Future[None]":
        """Write rows."""
        spans = [
            self._spans.of_task("store", task.key, context, partition=partition)
            for task in tasks
            if (context := carried_context(task.body)) is not None
        ]
        written: Future[None] = self._port.insert_tasks(partition, tasks, write_time)
        return _ending(spans, written)


class TracedStatus(_Behind):
    """``StatusStore``: a span for each traced key that is closed."""

    def insert_completions(
        self, partition: int, completions: Sequence[Completion], write_time: int
    ) -> "Future[None]":
        """Write completions."""
        spans = [
            self._spans.of_task("complete", each.key, context, result=each.result.value)
            for each in completions
            if (context := self._spans.take_end(each.key)) is not None
        ]
        written: Future[None] = self._port.insert_completions(partition, completions, write_time)
        return _ending(spans, written)


class TracedWriter(FutureWriter):
    """``LogWriter``: a span a record, whose context goes with it."""

    def __init__(self, writer: LogWriter, spans: Spans) -> None:
        self._writer = writer
        self._spans = spans
        self.flush = writer.flush
        self.close = writer.close

    def partition_count(self) -> int:
        """Return the log's number of partitions."""
        return self._writer.partition_count()

    def append(
        self, partition: int, key: bytes, value: bytes, headers: Headers = ()
    ) -> "Future[Position]":
        """Append a record; one that already belongs to a trace keeps it."""
        if context_of(headers) is not None:
            return self._writer.append(partition, key, value, headers)
        about = {"ordering_id": key.decode(errors="replace"), "partition": partition}
        span = self._spans.begin("schedule", SpanKind.PRODUCER, None, about)
        carried = (*headers, *_header_of(span))
        appended = self._writer.append(partition, key, value, carried)
        return _ending([span], appended)

    def dead_letter(self, record: LogRecord, reason: str) -> "Future[Position]":
        """Append to the dead-letter topic; the record's own headers name its trace."""
        return self._writer.dead_letter(record, reason)


class TracedMessages:
    """``MessageWriter``: a message gets the current trace, unless it has its own."""

    def __init__(self, messages: MessageWriter) -> None:
        self._messages = messages
        self.close = messages.close

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "Future[None]":
        """Produce a message."""
        if not any(name == TRACEPARENT for name, _ in headers):
            headers = (*headers, *_header_of(trace.get_current_span()))
        return self._messages.produce(topic, key, value, headers)


def _header_of(span: Span) -> Headers:
    """Return the header that makes later spans children of this one; empty if it is not sampled."""
    if not span.get_span_context().trace_flags.sampled:
        return ()
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, trace.set_span_in_context(span, Context()))
    return [(TRACEPARENT, carrier[TRACEPARENT].encode())]


def _as_context(context: bytes) -> Context:
    return _W3C.extract({TRACEPARENT: context.decode()}, Context())


@contextmanager
def _within(context: bytes | None) -> Iterator[None]:
    if context is None:
        yield
        return
    token = contexts.attach(_as_context(context))
    try:
        yield
    finally:
        contexts.detach(token)


def _ending(spans: Sequence[Span], future: "Future[Any]") -> "Future[Any]":
    """End spans when a future ends."""
    if spans:
        future.add_done_callback(partial(_end_all, spans))
    return future


def _end_all(spans: Sequence[Span], future: "Future[Any]") -> None:
    error = None if future.cancelled() else future.exception()
    for span in spans:
        if error is not None:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
        span.end()


BeginSpan = Callable[[bytes, Mapping[str, Any], int | None], Span]
NoteEnd = Callable[[TaskKey, bytes], None]


class TracedRunner:
    """``Runner``; wraps the executors of traced tasks."""

    def __init__(self, runner: Runner, begin: BeginSpan, note_end: NoteEnd) -> None:
        self._runner = runner
        self._begin = begin
        self._note_end = note_end
        self.withdraw = runner.withdraw
        self.long_running = runner.long_running
        self.unsettled = runner.unsettled
        self.adopt = runner.adopt
        self.tell_checkpoints = runner.tell_checkpoints
        self.settle = runner.settle
        self.drain = runner.drain

    def start(
        self, starts: Sequence[tuple[Attempt, Executable]], listener: AttemptListener
    ) -> None:
        """Run each attempt as soon as a worker is free for it."""
        away = {
            each: call for each, by in starts if is_in_process(by) and (call := self._call(each))
        }
        traced = [(each, by if each in away else self._traced(each, by)) for each, by in starts]
        self._runner.start(traced, partial(_tell_with_spans, away, listener) if away else listener)

    def _traced(self, attempt: Attempt, executor: Executable) -> Executable:
        call = self._call(attempt)
        if call is None:
            return executor
        return (_Async if runs_async(executor) else _Blocking)(executor, call)

    def _call(self, attempt: Attempt) -> "_CallSpan | None":
        context = carried_context(attempt.task.body)
        if context is None:
            return None
        return _CallSpan(attempt, context, self._begin, self._note_end)


def _tell_with_spans(
    away: Mapping[Attempt, "_CallSpan"], listener: AttemptListener, ended: AttemptEnded
) -> None:
    """Make the span of an attempt that a process has run, by the times that it was told with: so it
    has one even if its process was killed.
    """
    call = away.get(ended.attempt)
    if call is not None and ended.ending.is_of_user_code:
        call.tell(ended)
    listener(ended)


class _CallSpan:
    """The span of one call."""

    def __init__(
        self, attempt: Attempt, context: bytes, begin: BeginSpan, note_end: NoteEnd
    ) -> None:
        self._attempt = attempt
        self._context = context
        self._begin = begin
        self._note_end = note_end

    def begin(self, started_ns: int | None = None) -> Span:
        """Begin the span, below the task's context, now or at a time."""
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
        return self._begin(self._context, about, started_ns)

    def tell(self, ended: AttemptEnded) -> None:
        """Make the span of a call that has ended elsewhere."""
        span = self.begin(ended.started_ms * _NS)
        if ended.error_class is not None:
            span.set_attribute("error.type", ended.error_class)
            span.set_status(Status(StatusCode.ERROR))
        else:
            name = _OUTCOMES.get(ended.ending, ended.ending.value)
            span.set_attribute("hourhand.outcome", name)
        self._close(span, ended.finished_ms * _NS)

    def end(self, span: Span, outcome: object) -> None:
        """End the span with the result of user code."""
        name = "done" if outcome is None else type(outcome).__name__.lower()
        span.set_attribute("hourhand.outcome", name)
        self._close(span)

    def fail(self, span: Span, error: BaseException) -> None:
        """End the span with the class of the error; its text may hold anything."""
        span.set_attribute("error.type", type(error).__qualname__)
        span.set_status(Status(StatusCode.ERROR))
        self._close(span)

    def _close(self, span: Span, ended_ns: int | None = None) -> None:
        span.end(ended_ns)
        self._note_end(self._attempt.task.key, self._context)


class _Wrapped:
    """Wraps an executor; attributes that the runner sets are set on the executor."""

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
        """The executor's class: the runner treats the wrapper as one of its kind."""
        return type(self._inner)

    @contextmanager
    def around(self) -> Iterator[None]:
        """Make the span current, for a task of a batch."""
        span = self._call.begin()
        with use_span(span, record_exception=False, set_status_on_exception=False):
            try:
                yield
            except BaseException as error:
                self._call.fail(span, error)
                raise
        self._call.end(span, None)

    def immediate(self, task: StoredTask) -> ImmediateWork | None:
        """Return the fast path of an executor that has one, inside a span as well."""
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
        """Await the result of user code, inside its span."""
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
