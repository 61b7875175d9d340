"""One trace from schedule to completion, through a real node, log and store of its own."""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Iterator, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tenacity import wait_none

from hourhand import BatchExecutor, Scheduler, SchedulerClient, Settings, Task, TaskExecutor
from hourhand.actors.model.execution.attempts import Attempt, AttemptEnded, Ending
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.task.codec import Headers
from hourhand.actors.model.task.task import AttemptState, StoredTask
from hourhand.actors.model.task.trace import TRACEPARENT, context_of, with_context
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.adapters.observing import tracing
from hourhand.scheduler.adapters.observing.tracing import Spans, TracedMessages, TracedRunner, below
from hourhand.scheduler.configuration.door_settings import ObserveSettings
from hourhand.scheduler.configuration.settings import EmbeddedSettings, TopicSettings
from hourhand.scheduler.executors.user_executors import UserExecutors
from hourhand.scheduler.node.system_executor import ImmediateWork, SystemExecutor
from hourhand.scheduler.ports.processes import ProcessMember, is_in_process
from hourhand.scheduler.wiring import build_telemetry, observe, open_clock
from tests.builders import NOW_MS, a_stored_task, a_task, an_attempt
from tests.unit.fakes import FakeRunner
from tests.waiting import until

PATIENCE_S = 60.0
CONTEXT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
_DUE = "2026-03-01T12:00:00.000Z"


def a_maker(link_after_ms: int = 60_000, topic: str | None = None) -> Spans:
    """Return a maker of spans at the time of the builders' tasks."""
    return Spans(lambda: NOW_MS, link_after_ms, topic)


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """Set this process's provider, which OpenTelemetry allows once."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace.set_tracer_provider(provider)
    return kept


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Iterator[InMemorySpanExporter]:
    """Return where this test's spans go."""
    exporter.clear()
    yield exporter
    exporter.clear()


class Blocking(TaskExecutor):
    """Fails once, then makes a span of its own, as a traced library does."""

    retry = RetryPolicy(attempts_max=3, wait=wait_none())

    def execute(self, task: Task) -> None:
        """Run."""
        if self.attempt == 1:
            raise ValueError(f"card number of {task.data}")
        with trace.get_tracer("user").start_as_current_span("mailing"):
            pass


def _sent() -> "Future[Outcome | None]":
    """Return a future that is resolved from another thread."""
    future: Future[Outcome | None] = Future()
    threading.Thread(target=future.set_result, args=(None,)).start()
    return future


class Async(TaskExecutor):
    """The same on the event loop."""

    retry = Blocking.retry

    async def execute(self, task: Task) -> None:
        """Run."""
        if self.attempt == 1:
            raise ValueError(f"card number of {task.data}")
        with trace.get_tracer("user").start_as_current_span("mailing"):
            await asyncio.wrap_future(_sent())


class Immediate(SystemExecutor):
    """The same on the fast path, as system tasks go that only hand something over."""

    retry = Blocking.retry

    def immediate(self, task: StoredTask) -> ImmediateWork:
        """Hand over, below the attempt's span."""
        tries = task.attempts.last

        def work() -> "Future[Outcome | None]":
            if not tries:
                raise ValueError(f"card number of {task.data!r}")
            with trace.get_tracer("user").start_as_current_span("mailing"):
                return _sent()

        return work

    def execute(self, task: Task) -> None:
        """Refuse: nothing here needs a worker."""
        raise AssertionError(f"{task.key} did not take the fast path")


@pytest.fixture(autouse=True)
def immediate_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have it made as what runs system tasks is: at once, and nobody's guest."""
    make = UserExecutors.make

    def made(users: UserExecutors, kind: str | None) -> TaskExecutor:
        return Immediate() if users.default is Immediate else make(users, kind)

    monkeypatch.setattr(UserExecutors, "make", made)


def installation(folder: Path, *, traces: bool = True) -> Settings:
    """Return an embedded installation."""
    return Settings(
        embedded=EmbeddedSettings(folder=folder),
        topic=TopicSettings(partitions=2),
        observe=ObserveSettings(traces=traces),
    )


def finished(spans: InMemorySpanExporter, names: Sequence[str]) -> dict[str, list[ReadableSpan]]:
    """Return the spans by name."""
    found: dict[str, list[ReadableSpan]] = {name: [] for name in names}
    for span in spans.get_finished_spans():
        found.setdefault(span.name, []).append(span)
    return found


@pytest.mark.parametrize("executor", [Blocking, Async, Immediate])
def test_a_task_is_one_trace_from_its_caller_to_its_completion(
    tmp_path: Path, spans: InMemorySpanExporter, executor: type[TaskExecutor]
) -> None:
    """A client in one process, the node in another: here, one after the other on one folder."""
    settings = installation(tmp_path)
    with (
        SchedulerClient(settings) as client,
        trace.get_tracer("user").start_as_current_span("web request") as request,
    ):
        task = Task(
            ordering_id="customer-7",
            scheduled_time=datetime.now(UTC),
            uniqueness_key="1",
            data={"card": "4111"},
        )
        receipt = client.schedule_task(task).result(timeout=PATIENCE_S)

    with Scheduler(settings, executor=executor):
        _wait_until_closed(spans)

    found = finished(spans, ())
    (scheduled,), (first, second) = found["hourhand schedule"], found["hourhand attempt"]
    assert scheduled.context is not None
    assert second.context is not None
    assert scheduled.context.trace_id == request.get_span_context().trace_id
    assert _parents([*found["hourhand store"], first]) == 2 * [scheduled.context.span_id]
    assert second.parent is None
    assert [each.context.span_id for each in second.links] == [scheduled.context.span_id]
    assert _parents(found["hourhand complete"]) == [second.context.span_id]
    attempts = [span.attributes or {} for span in found["hourhand attempt"]]
    assert [each["hourhand.attempt"] for each in attempts] == [1, 2]
    assert attempts[0]["error.type"] == "ValueError"
    assert {each["hourhand.key"] for each in attempts} == {str(receipt.key)}
    assert _parents(found["mailing"]) == [second.context.span_id]
    assert "4111" not in "".join(span.to_json() for each in found.values() for span in each)


def test_a_process_has_the_span_of_its_attempt_and_a_killed_one_too(
    spans: InMemorySpanExporter,
) -> None:
    """From when it was sent, or by the times that it told; what never began has none."""
    runner, made, told = FakeRunner(), a_maker(), list[AttemptEnded]()
    traced = TracedRunner(runner, made)
    context = CONTEXT
    endings = {
        "well": (Ending.DONE, None),
        "dropped": (Ending.DROPPED, None),
        "killed": (Ending.FAILED, "ProcessDied"),
        "never": (Ending.NOT_STARTED, None),
        "untraced": (Ending.DONE, None),
    }
    member = ProcessMember(RetryPolicy(), None)
    bodies = {of: b"{}" if of == "untraced" else with_context(b"{}", context) for of in endings}
    rows = [a_stored_task(due_in_ms=0, ordering_id=of, data=body) for of, body in bodies.items()]
    for row in rows:
        made.note_stored(row.key)
    traced.start([(an_attempt(task=row), member) for row in rows], told.append)
    assert all(e.executor is not None and is_in_process(e.executor) for e in runner.started)

    sent = _sent_to_process(runner, {"well", "never"})
    for each in runner.started:
        ending, error = endings[each.attempt.task.key.ordering_id]
        ended_ms = (1_000, 3_000) if each.attempt not in sent else (NOW_MS + 1, NOW_MS + 3)
        each.listener(AttemptEnded(each.attempt, ending, *ended_ms, error_class=error))

    assert [each.ending for each in told] == [ending for ending, _ in endings.values()]
    found = finished(spans, ())["hourhand attempt"]
    assert {span.context.trace_id for span in found if span.context} == {int(context[3:35], 16)}
    times = [(span.start_time, span.end_time) for span in found]
    at_ns = NOW_MS * 10**6
    assert times == [(at_ns, at_ns + 3 * 10**6), *(2 * [(10**9, 3 * 10**9)])]
    assert _as_header(found[0]) in sent.values()
    well, dropped, killed = (dict(span.attributes or {}) for span in found)
    assert (well["hourhand.outcome"], dropped["hourhand.outcome"]) == ("done", "drop")
    assert (killed["error.type"], killed["hourhand.ordering_id"]) == ("ProcessDied", "killed")
    assert made.take_end(runner.started[0].attempt.task.key) == context


def _sent_to_process(runner: FakeRunner, names: set[str]) -> dict[Attempt, bytes | None]:
    """Send attempts twice, as some are that were taken back; return the contexts sent."""
    sent: dict[Attempt, bytes | None] = {}
    for each in runner.started:
        begin = cast("ProcessMember", each.executor).begin_trace
        assert (begin is None) == (each.attempt.task.key.ordering_id == "untraced")
        if begin is not None and each.attempt.task.key.ordering_id in names:
            first = begin()
            sent[each.attempt] = begin()
            assert first != sent[each.attempt], "the first one is forgotten"
    return sent


def _as_header(span: ReadableSpan) -> bytes:
    assert span.context is not None
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-01".encode()


@pytest.mark.parametrize("executor", [Blocking, Async])
def test_code_in_a_process_runs_below_the_span_of_its_node(
    spans: InMemorySpanExporter, executor: type[Blocking | Async]
) -> None:
    """A span that it makes is a child of the attempt's, which the process does not make."""
    inner = executor()
    inner.attempt = 2
    ran = below(inner, CONTEXT).execute(a_task())
    if inspect.isawaitable(ran):
        asyncio.run(_awaited(ran))

    (made,) = spans.get_finished_spans()
    assert (made.name, made.parent and made.parent.span_id) == ("mailing", int(CONTEXT[36:52], 16))
    assert made.context is not None
    assert made.context.trace_id == int(CONTEXT[3:35], 16)


async def _awaited(ran: Awaitable[object]) -> object:
    return await ran


@pytest.mark.parametrize(
    ("link_after_ms", "due_in_ms", "changed", "continues"),
    [
        (60_000, 59_999, {}, True),
        (60_000, -5_000, {}, True),
        (60_000, 60_000, {}, False),
        (0, 0, {}, False),
        (0, -1, {}, True),
        (60_000, 0, {"number": 2}, False),
        (60_000, 0, {"attempts": AttemptState(snoozed=1)}, False),
        (60_000, 0, {"uniqueness_key": f"report@{_DUE}"}, False),
        (60_000, 0, {"uniqueness_key": f"report@{_DUE}!"}, False),
        (60_000, 0, {"ordering_id": "hourhand:recurring:report"}, False),
        (60_000, 0, {"ordering_id": "hourhand:timer:alarm"}, False),
        (60_000, 0, {"ordering_id": "hourhand:relay:message"}, True),
    ],
)
def test_a_late_attempt_a_retry_and_an_occurrence_have_a_link_in_place_of_a_parent(
    spans: InMemorySpanExporter,
    link_after_ms: int,
    due_in_ms: int,
    changed: dict[str, Any],
    continues: bool,
) -> None:
    """Their completion is below the attempt, so in its trace."""
    made, number = a_maker(link_after_ms), changed.pop("number", 1)
    body = with_context(b"{}", CONTEXT)
    row = a_stored_task(due_in_ms=due_in_ms, data=body, **changed)
    attempt = an_attempt(task=row, number=number)
    key = attempt.task.key

    made.note_stored(key)
    span, completes = made.attempt(attempt, CONTEXT)
    span.end()
    made.note_end(key, completes)
    kept = made.take_end(key)
    assert kept is not None
    made.of_task("complete", key, kept).end()

    attempted, completed = spans.get_finished_spans()
    assert attempted.context is not None
    if continues:
        assert attempted.parent == completed.parent
        assert attempted.parent is not None
        assert attempted.parent.span_id == int(CONTEXT[36:52], 16)
        assert not attempted.links
    else:
        assert attempted.parent is None
        assert [each.context.span_id for each in attempted.links] == [int(CONTEXT[36:52], 16)]
        assert attempted.context.trace_id != int(CONTEXT[3:35], 16)
        assert _parents([completed]) == [attempted.context.span_id]


def test_a_task_that_another_node_stored_has_a_link(spans: InMemorySpanExporter) -> None:
    """Nothing is known of how long ago that was."""
    span, _ = a_maker().attempt(an_attempt(), CONTEXT)
    span.end()

    (attempted,) = spans.get_finished_spans()
    assert (attempted.parent, len(attempted.links)) == (None, 1)


def test_as_many_tasks_as_wait_are_known_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest ones are forgotten, and get links."""
    monkeypatch.setattr(tracing, "_NEAR_MAX", 2)
    made = a_maker()
    rows = [a_stored_task(uniqueness_key=key, due_in_ms=0) for key in "abc"]

    for row in rows:
        made.note_stored(row.key)

    begun = [made.attempt(an_attempt(task=row), CONTEXT) for row in rows]
    assert [completes == CONTEXT for _, completes in begun] == [False, True, True]


def test_spans_have_the_attributes_of_messaging_if_asked_for(spans: InMemorySpanExporter) -> None:
    """By the names of OpenTelemetry's conventions."""
    made, attempt = a_maker(topic="tasks"), an_attempt(partition=3)

    made.attempt(attempt, CONTEXT)[0].end()
    made.of_task("complete", attempt.task.key, CONTEXT, result="success").end()
    a_maker().attempt(attempt, CONTEXT)[0].end()

    attempted, completed, without = (
        dict(span.attributes or {}) for span in spans.get_finished_spans()
    )
    assert {key: value for key, value in attempted.items() if key.startswith("messaging.")} == {
        "messaging.system": "hourhand",
        "messaging.operation.name": "attempt",
        "messaging.operation.type": "process",
        "messaging.destination.name": "tasks",
        "messaging.destination.partition.id": "3",
        "messaging.message.id": str(attempt.task.key),
    }
    assert completed["messaging.operation.type"] == "settle"
    assert not [key for key in without if key.startswith("messaging.")]


class Together(BatchExecutor):
    """Makes one span for all."""

    retry = RetryPolicy(attempts_max=1)
    batch_wait = timedelta(seconds=1)

    def execute_many(self, tasks: Sequence[Task]) -> None:
        """Run."""
        with trace.get_tracer("user").start_as_current_span("mailing"):
            assert tasks


def test_a_batch_is_a_span_that_its_tasks_are_linked_to(
    tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    """User code is below the batch, and each task has its attempt."""
    settings, due = installation(tmp_path), datetime.now(UTC)
    with SchedulerClient(settings) as client:
        for each in "ab":
            task = Task(ordering_id=each, scheduled_time=due, uniqueness_key="1")
            client.schedule_task(task).result(timeout=PATIENCE_S)

    with Scheduler(settings, executor=Together):
        until(lambda: len(finished(spans, ()).get("hourhand complete", ())) == 2)

    found = finished(spans, ())
    scheduled = {span.context.span_id for span in found["hourhand schedule"] if span.context}
    batches = found["hourhand batch"]
    assert {link.context.span_id for batch in batches for link in batch.links} == scheduled
    assert len(_parents(found["hourhand attempt"])) == 2
    assert sorted(_parents(found["mailing"])) == sorted(
        batch.context.span_id for batch in batches if batch.context
    )


def _parents(found: Sequence[ReadableSpan]) -> list[int]:
    return [span.parent.span_id for span in found if span.parent]


def _wait_until_closed(spans: InMemorySpanExporter) -> None:
    until(lambda: finished(spans, ["hourhand complete"])["hourhand complete"])


def test_without_the_setting_nothing_is_wrapped(tmp_path: Path) -> None:
    """What is not there cannot cost anything."""
    settings = installation(tmp_path, traces=False)
    seen = observe(settings, open_clock(), build_telemetry(settings))
    writer = MemoryWriter(MemoryBroker(2, open_clock()))

    assert seen.writer(writer) is writer
    assert seen.messages(kept := KeptMessages()) is kept
    assert seen.headers() == {}


class KeptMessages:
    """``MessageWriter`` that keeps the headers."""

    def __init__(self) -> None:
        self.headers: list[Headers] = []

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "Future[None]":
        """Keep."""
        self.headers.append(headers)
        return Future()

    def close(self) -> None:
        """Nothing is open."""


def test_messages_and_callbacks_hand_the_trace_on(
    tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    """Unless a message names its own; and what comes with a message continues its trace."""
    kept, seen = (
        KeptMessages(),
        observe(installation(tmp_path), open_clock(), build_telemetry(Settings())),
    )
    messages = TracedMessages(kept)
    own = [(TRACEPARENT, b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]

    messages.produce("out", None, b"x", ())
    with seen.within(own):
        messages.produce("out", None, b"x", [("a", b"b")])
        assert seen.headers()[TRACEPARENT].split("-")[1] == "4bf92f3577b34da6a3ce929d0e0e4736"
        with trace.get_tracer("user").start_as_current_span("other"):
            messages.produce("out", None, b"x", own)

    assert kept.headers[0] == ()
    assert list(kept.headers[1]) == [("a", b"b"), *own]
    assert kept.headers[2] == own
    assert context_of(kept.headers[2]) == own[0][1]
