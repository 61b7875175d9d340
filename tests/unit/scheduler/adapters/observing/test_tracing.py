"""One trace from schedule to completion, through a real node, log and store of its own."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tenacity import wait_none

from hourhand import Scheduler, SchedulerClient, Settings, Task, TaskExecutor
from hourhand.actors.model.attempts import AttemptEnded, Ending
from hourhand.actors.model.backoff import RetryPolicy
from hourhand.actors.model.codec import Headers
from hourhand.actors.model.outcome import Outcome
from hourhand.actors.model.task import StoredTask
from hourhand.actors.model.trace import TRACEPARENT, context_of, with_context
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.adapters.observing.tracing import Spans, TracedMessages, TracedRunner
from hourhand.scheduler.configuration.door_settings import ObserveSettings
from hourhand.scheduler.configuration.settings import EmbeddedSettings, TopicSettings
from hourhand.scheduler.executors.user_executors import UserExecutors
from hourhand.scheduler.node.system_executor import ImmediateWork, SystemExecutor
from hourhand.scheduler.ports.processes import ProcessMember
from hourhand.scheduler.wiring import build_telemetry, observe, open_clock
from tests.builders import a_stored_task, an_attempt
from tests.unit.fakes import FakeRunner
from tests.waiting import until

PATIENCE_S = 60.0


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
    mine = {span.context.trace_id for each in found.values() for span in each if span.context}
    assert mine == {request.get_span_context().trace_id}
    (scheduled,) = found["hourhand schedule"]
    assert scheduled.context is not None
    below = [*found["hourhand store"], *found["hourhand attempt"], *found["hourhand complete"]]
    assert len(below) == 4
    assert {span.parent.span_id for span in below if span.parent} == {scheduled.context.span_id}
    attempts = [span.attributes or {} for span in found["hourhand attempt"]]
    assert [each["hourhand.attempt"] for each in attempts] == [1, 2]
    assert attempts[0]["error.type"] == "ValueError"
    assert {each["hourhand.key"] for each in attempts} == {str(receipt.key)}
    (user,) = found["mailing"]
    second = found["hourhand attempt"][1].context
    assert user.parent is not None
    assert second is not None
    assert user.parent.span_id == second.span_id
    assert "4111" not in "".join(span.to_json() for each in found.values() for span in each)


def test_a_process_has_the_span_of_its_attempt_and_a_killed_one_too(
    spans: InMemorySpanExporter,
) -> None:
    """By the times that it told, once it has ended; what never began has none."""
    runner, made, told = FakeRunner(), Spans(), list[AttemptEnded]()
    traced = TracedRunner(runner, made.attempt, made.note_end)
    context = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    endings = {
        "well": (Ending.DONE, None),
        "dropped": (Ending.DROPPED, None),
        "killed": (Ending.FAILED, "ProcessDied"),
        "never": (Ending.NOT_STARTED, None),
        "untraced": (Ending.DONE, None),
    }
    member = ProcessMember(RetryPolicy(), None)
    bodies = {of: b"{}" if of == "untraced" else with_context(b"{}", context) for of in endings}
    rows = [a_stored_task(ordering_id=of, data=body) for of, body in bodies.items()]
    traced.start([(an_attempt(task=row), member) for row in rows], told.append)
    assert {type(each.executor) for each in runner.started} == {ProcessMember}, "not wrapped"

    for each in runner.started:
        ending, error = endings[each.attempt.task.key.ordering_id]
        each.listener(AttemptEnded(each.attempt, ending, 1_000, 3_000, error_class=error))

    assert [each.ending for each in told] == [ending for ending, _ in endings.values()]
    found = finished(spans, ())["hourhand attempt"]
    assert {span.context.trace_id for span in found if span.context} == {int(context[3:35], 16)}
    assert [(span.start_time, span.end_time) for span in found] == 3 * [(10**9, 3 * 10**9)]
    well, dropped, killed = (dict(span.attributes or {}) for span in found)
    assert (well["hourhand.outcome"], dropped["hourhand.outcome"]) == ("done", "drop")
    assert (killed["error.type"], killed["hourhand.ordering_id"]) == ("ProcessDied", "killed")
    assert made.take_end(runner.started[0].attempt.task.key) == context


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
