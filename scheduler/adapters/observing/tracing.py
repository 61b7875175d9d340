"""The trace of a task: scheduled, stored, run and completed, through OpenTelemetry's API.

An attempt soon after its task was stored belongs to the trace of its caller. Any other begins a
trace of its own, with a link to that one, so that no trace lasts for days. The context travels in
the record's ``traceparent`` header, is stored with the row
(``hourhand.actors.model.task.trace``), is current while user code runs, and leaves through relayed
messages and callbacks. A task without a
sampled context costs only a look at its data. Spans name the task and hold neither its data nor an
error's text. The process chooses the SDK and the share of sampled traces. Decides nothing about
when an attempt runs or about its outcome.
"""

import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol, cast

import msgspec
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from hourhand.actors.model.execution.attempts import Attempt, AttemptEnded, Ending
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.task.codec import Headers, LogRecord
from hourhand.actors.model.task.definition import DefinitionKind, ordering_id_parts
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.task.trace import TRACEPARENT, carried_context, context_of
from hourhand.actors.model.values.display import log_raised
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import LogWriter, Position, TaskLog
from hourhand.actors.ports.runner import AttemptListener, Executable, Runner
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.node.system_executor import ImmediateWork, SystemExecutor
from hourhand.scheduler.observe.health import Health, NodeProbes
from hourhand.scheduler.observe.observation import Observation
from hourhand.scheduler.ports.messages import MessageWriter
from hourhand.scheduler.ports.processes import is_in_process
from hourhand.scheduler.runtime.future_group import FutureWriter
from hourhand.scheduler.runtime.user_code import runs_async

logger = logging.getLogger("hourhand.traces")

_W3C = TraceContextTextMapPropagator()
_NS = 1_000_000
"""Nanoseconds of a millisecond."""
_OUTCOMES = {Ending.DROPPED: "drop", Ending.SNOOZED: "snooze"}
"""Names of outcomes that are not those of their endings."""
_ENDED_MAX = 10_000
"""Most attempts whose completion is still to be traced; that of an abandoned one never comes."""
_NEAR_MAX = 10_000
"""Most tasks known to be due soon after they were stored; the attempt of any other has a link."""
_REPEATING = frozenset({DefinitionKind.RECURRING.value, DefinitionKind.TIMER.value})
"""Definitions whose tasks make one another."""
_OCCURRENCE = re.compile(r"@\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z!?$")
"""The end of an occurrence's uniqueness key."""
_MESSAGING_TYPES = {
    "schedule": "send",
    "store": "receive",
    "attempt": "process",
    "batch": "process",
    "complete": "settle",
}
"""The type of each operation in the conventions for messaging spans."""
_batch_span: ContextVar[Span | None] = ContextVar("_batch_span", default=None)
"""The span of the batch whose tasks are being entered or run."""


def traced(settings: Settings, clock: Clock, behind: Observation) -> "Traced":
    """Return an observation that traces, and passes everything on to ``behind``."""
    observed = settings.observe
    topic = settings.topic.name if observed.trace_messaging else None
    return Traced(behind, Spans(clock.now_ms, observed.trace_link_after_ms, topic))


class Traced(Observation):
    """Traces, and passes everything on to the observation behind it."""

    def __init__(self, behind: Observation, spans: "Spans") -> None:
        super().__init__(behind.telemetry)
        self._behind = behind
        self.registry = behind.registry
        self._spans = spans

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
        return TracedRunner(self._behind.runner(runner), self._spans)

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
    """Makes spans of tasks; used from any thread.

    ``now_ms`` is the wall clock. A task that is due more than ``link_after_ms`` after it was stored
    gets links; with 0 all do. With ``topic``, spans have the attributes of messaging, too.
    """

    def __init__(
        self, now_ms: Callable[[], int], link_after_ms: int, topic: str | None = None
    ) -> None:
        self._tracer = trace.get_tracer("hourhand")
        self.now_ms = now_ms
        self._link_after_ms = link_after_ms
        self._topic = topic
        self._near: dict[TaskKey, None] = {}
        self._ended: dict[TaskKey, bytes] = {}

    def begin(
        self,
        name: str,
        kind: SpanKind,
        parent: Context | None,
        attributes: Mapping[str, Any],
        *,
        links: Sequence[Link] = (),
        started_ns: int | None = None,
    ) -> Span:
        """Begin a span below a parent, which is the current span if it is None."""
        named = {f"hourhand.{key}": value for key, value in attributes.items()}
        if self._topic is not None:
            named |= _messaging(name, self._topic, attributes)
        return self._tracer.start_span(
            f"hourhand {name}", parent, kind, named, links, start_time=started_ns
        )

    def of_task(self, name: str, key: TaskKey, context: bytes, **attributes: object) -> Span:
        """Begin a span that names its task, below the task's context."""
        about = {"key": str(key), "ordering_id": key.ordering_id, **attributes}
        return self.begin(name, SpanKind.CLIENT, _as_context(context), about)

    def attempt(
        self, attempt: Attempt, context: bytes, started_ns: int | None = None
    ) -> tuple[Span, bytes | None]:
        """Begin the span of a call of user code, which began now, or nanoseconds after 1970.

        The second value is the context for the task's completion, None if it is not sampled.
        """
        about = _about(attempt)
        consumer = SpanKind.CONSUMER
        if self._continues(attempt):
            parent = _as_context(context)
            return self.begin("attempt", consumer, parent, about, started_ns=started_ns), context
        span = self.begin(
            "attempt", consumer, Context(), about, links=[_link(context)], started_ns=started_ns
        )
        return span, context_of(_header_of(span))

    def batch(self) -> Span:
        """Begin the span of a batch, to which its tasks are linked one by one."""
        return self.begin("batch", SpanKind.CONSUMER, Context(), {})

    def note_stored(self, key: TaskKey) -> None:
        """Keep a traced task that is due so soon that its first attempt continues the trace."""
        if key.scheduled_ms - self.now_ms() < self._link_after_ms and not _repeats(key):
            _keep(self._near, key, None, _NEAR_MAX)

    def note_end(self, key: TaskKey, context: bytes | None) -> None:
        """Keep the context for a completion that may follow the end of an attempt."""
        self._near.pop(key, None)
        if context is not None:
            _keep(self._ended, key, context, _ENDED_MAX)

    def take_end(self, key: TaskKey) -> bytes | None:
        """Return the kept context, once."""
        return self._ended.pop(key, None) if self._ended else None

    def _continues(self, attempt: Attempt) -> bool:
        """True if an attempt belongs to the trace that scheduled its task."""
        task = attempt.task
        return attempt.number == 1 and not task.attempts.snoozed and task.key in self._near


def _keep(kept: dict[TaskKey, Any], key: TaskKey, value: object, most: int) -> None:
    """Keep a value, and no more than so many."""
    if len(kept) >= most:
        # Another thread may have taken it, or may be adding one.
        with suppress(RuntimeError, StopIteration):
            kept.pop(next(iter(kept)), None)
    kept[key] = value


def _repeats(key: TaskKey) -> bool:
    """True if a task is an occurrence, or one of those that make occurrences or pops."""
    parts = ordering_id_parts(key.ordering_id)
    return (parts is not None and parts[0] in _REPEATING) or (
        _OCCURRENCE.search(key.uniqueness_key) is not None
    )


def _about(attempt: Attempt) -> dict[str, object]:
    """Return the attributes of an attempt."""
    key, kind = attempt.task.key, attempt.task.kind
    return {
        "key": str(key),
        "ordering_id": key.ordering_id,
        "partition": attempt.partition,
        "attempt": attempt.number,
        "fence": attempt.epoch,
        **({"kind": kind} if kind is not None else {}),
    }


def _messaging(name: str, topic: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of the conventions for messaging spans."""
    found: dict[str, Any] = {
        "messaging.system": "hourhand",
        "messaging.operation.name": name,
        "messaging.operation.type": _MESSAGING_TYPES[name],
        "messaging.destination.name": topic,
    }
    if "partition" in attributes:
        found["messaging.destination.partition.id"] = str(attributes["partition"])
    if "key" in attributes:
        found["messaging.message.id"] = attributes["key"]
    return found


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
        spans = []
        for task in tasks:
            if (context := carried_context(task.body)) is not None:
                self._spans.note_stored(task.key)
                spans.append(self._spans.of_task("store", task.key, context, partition=partition))
        written: Future[None] = self._port.insert_tasks(partition, tasks, write_time)
        return _ending(spans, written)


class TracedStatus(_Behind):
    """``StatusStore``: a span for each traced key that is closed."""

    def insert_completions(
        self, partition: int, completions: Sequence[Completion], write_time: int
    ) -> "Future[None]":
        """Write completions."""
        spans = [
            self._spans.of_task(
                "complete", each.key, context, partition=partition, result=each.result.value
            )
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


def _link(context: bytes) -> Link:
    """Return a link to the span that scheduled a task."""
    return Link(trace.get_current_span(_as_context(context)).get_span_context())


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


class TracedRunner:
    """``Runner``; wraps the executors of traced tasks."""

    def __init__(self, runner: Runner, spans: Spans) -> None:
        self._runner = runner
        self._spans = spans
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
        away: dict[Attempt, _CallSpan] = {}
        traced = [(each, self._traced(each, by, away)) for each, by in starts]
        self._runner.start(traced, partial(_tell_with_spans, away, listener) if away else listener)

    def _traced(
        self, attempt: Attempt, executor: Executable, away: "dict[Attempt, _CallSpan]"
    ) -> Executable:
        call = self._call(attempt)
        if call is None:
            return executor
        if is_in_process(executor):
            away[attempt] = call
            return cast("Executable", _SentExecutor(executor, call))
        return _wrapped(executor, call)

    def _call(self, attempt: Attempt) -> "_CallSpan | None":
        context = carried_context(attempt.task.body)
        if context is None:
            return None
        return _CallSpan(attempt, context, self._spans)


def _tell_with_spans(
    away: Mapping[Attempt, "_CallSpan"], listener: AttemptListener, ended: AttemptEnded
) -> None:
    """End the span of an attempt that a process has run: so it has one even if its process was
    killed.
    """
    call = away.get(ended.attempt)
    if call is not None and ended.ending.is_of_user_code:
        call.tell(ended)
    listener(ended)


class _CallSpan:
    """The span of one call."""

    def __init__(self, attempt: Attempt, context: bytes, spans: Spans) -> None:
        self._attempt = attempt
        self._context = context
        self._spans = spans
        self._completes: bytes | None = None
        """The context for the completion."""
        self._sent: Span | None = None
        """The span of a call in a process."""

    def begin(self, started_ns: int | None = None) -> Span:
        """Begin the span, now or at a time."""
        span, self._completes = self._spans.attempt(self._attempt, self._context, started_ns)
        return span

    @contextmanager
    def in_batch(self) -> Iterator[None]:
        """Link the task to the span of its batch, which is current from its first task on."""
        batch = _batch_span.get()
        if batch is not None:
            batch.add_link(_link(self._context).context)
            yield
            return
        batch = self._spans.batch()
        batch.add_link(_link(self._context).context)
        token = _batch_span.set(batch)
        try:
            with use_span(
                batch, end_on_exit=True, record_exception=False, set_status_on_exception=False
            ):
                yield
        finally:
            _batch_span.reset(token)

    def send(self) -> bytes | None:
        """Begin the span of a call in a process; return the context for its code, None if the span
        is not sampled.  One that was sent before and has not begun is forgotten.
        """
        try:
            # In milliseconds, as its end will be told: it would end before it began otherwise.
            self._sent = self.begin(self._spans.now_ms() * _NS)
            return context_of(_header_of(self._sent))
        except Exception:  # noqa: BLE001 - the SDK and its processors are the user's
            log_raised(logger, "the span of an attempt in a process could not be begun")
            return None

    def tell(self, ended: AttemptEnded) -> None:
        """End the span of a call in a process."""
        span = self._sent or self.begin(ended.started_ms * _NS)
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
        self._spans.note_end(self._attempt.task.key, self._completes)


class _SpannedCall(Protocol):
    """The span within which user code is called."""

    def begin(self) -> Span:
        """Begin it."""

    def in_batch(self) -> AbstractContextManager[None]:
        """Have a span current for the tasks of a batch."""

    def end(self, span: Span, outcome: object) -> None:
        """End it with the result of user code."""

    def fail(self, span: Span, error: BaseException) -> None:
        """End it with the class of the error."""


class _CallBelow:
    """A call in a process, whose node has the span of the attempt."""

    def __init__(self, context: bytes) -> None:
        self._span = trace.get_current_span(_as_context(context))

    def begin(self) -> Span:
        """Return the node's span, which records nothing here."""
        return self._span

    @contextmanager
    def in_batch(self) -> Iterator[None]:
        """Have it current for the tasks of a batch: that of the last one counts."""
        with use_span(self._span, record_exception=False, set_status_on_exception=False):
            yield

    def end(self, span: Span, outcome: object) -> None:
        """Leave the end to the node."""

    def fail(self, span: Span, error: BaseException) -> None:
        """Leave the end to the node."""


def below(executor: Executable, context: bytes) -> Executable:
    """Return an executor of a process whose code runs below the span of its node's attempt."""
    return _wrapped(executor, _CallBelow(context))


def _wrapped(executor: Executable, call: _SpannedCall) -> Executable:
    return (_Async if runs_async(executor) else _Blocking)(executor, call)


class _Wrapped:
    """Wraps an executor; attributes that the runner sets are set on the executor."""

    __slots__ = ("_call", "_inner")
    _inner: Executable
    _call: _SpannedCall
    attempt: int
    fence: int

    def __init__(self, inner: Executable, call: _SpannedCall) -> None:
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
        """Have the span of the batch current, and one for this task's attempt, in a batch."""
        span = self._call.begin()
        try:
            with self._call.in_batch():
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
        with self._current(span):
            answer = work()
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
        with self._current(span):
            ended = await outcome
        self._call.end(span, ended)
        return ended

    @contextmanager
    def _current(self, span: Span) -> Iterator[None]:
        """Have a span current for user code, whose error ends it."""
        with use_span(span, record_exception=False, set_status_on_exception=False):
            try:
                yield
            except BaseException as error:
                self._call.fail(span, error)
                raise


class _SentExecutor(_Wrapped):
    """Stands for an executor in a process."""

    __slots__ = ()

    def begin_trace(self) -> bytes | None:
        """Return the context for user code, as it is sent to a process."""
        return cast("_CallSpan", self._call).send()


class _Blocking(_Wrapped):
    __slots__ = ()

    def execute(self, task: Task) -> Outcome | None | Awaitable[Outcome | None]:
        """Run the task once, inside its span."""
        span = self._call.begin()
        with self._current(span):
            outcome = self._inner.execute(task)
        if inspect.isawaitable(outcome):
            return self._awaited(span, outcome)
        self._call.end(span, outcome)
        return outcome


class _Async(_Wrapped):
    __slots__ = ()

    async def execute(self, task: Task) -> Outcome | None:
        """Run the task once, inside its span."""
        span = self._call.begin()
        with self._current(span):
            outcome = self._inner.execute(task)
            if inspect.isawaitable(outcome):
                outcome = await outcome
        self._call.end(span, outcome)
        return outcome
