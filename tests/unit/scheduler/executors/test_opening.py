"""Sealed data on a node: user code gets it plain, and what cannot be opened is not lost."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, cast

import pytest

from hourhand import AttemptContext, Hourhand, Middleware, TaskExecutor, TaskKind
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.flow.flow import FairShare, Limit
from hourhand.actors.model.operations.events import TaskHeld
from hourhand.actors.model.task.codec import encode_task
from hourhand.actors.model.task.key import first_key_at
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.sealed import MEMBER
from hourhand.actors.model.task.status import AttemptResult, CompletionResult
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.values.errors import InvalidExecutor, TaskInThePast
from hourhand.actors.model.values.instant import INSTANT_MAX_MS, INSTANT_MIN_MS
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.client.client import ClientPorts, SchedulerClient
from hourhand.scheduler.payloads.aes_gcm import AesGcm
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.payloads.deflate import Deflate
from hourhand.scheduler.testing import VirtualScheduler

TIMEOUT_S = 60
KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
SECRET = "4111-1111"


class Heard(Middleware):
    """What user code and middleware were given."""

    def __init__(self) -> None:
        self.data: list[Any] = []
        self.around: list[Any] = []

    @contextmanager
    def around_attempt(self, attempt: AttemptContext) -> Iterator[None]:
        self.around.append(attempt.task.data)
        yield


class Pay(TaskExecutor):
    """Runs tasks without a kind."""

    retry = RetryPolicy(attempts_max=3)
    ran: list[Any] = []  # noqa: RUF012 - emptied by each test

    def execute(self, task: Task) -> None:
        self.ran.append(task.data)


def _payloads(*, plain: Sequence[str] = (), **keys: bytes) -> PayloadCodecs:
    return PayloadCodecs(Deflate(), AesGcm(keys or {"k1": KEY}), plain=plain)


def _task(scheduler: VirtualScheduler, number: int = 0, kind: str | None = None) -> Task:
    return Task(
        ordering_id=f"customer-{number}",
        scheduled_time=scheduler.now + timedelta(minutes=1),
        uniqueness_key=f"pay-{number}",
        data={"card": SECRET, "number": number},
        kind=kind,
    )


def _rows(scheduler: VirtualScheduler) -> list[StoredTask]:
    first = first_key_at(INSTANT_MIN_MS)
    return [
        row
        for partition in range(4)
        for row in scheduler.stores.schedule.load_tasks(partition, first, INSTANT_MAX_MS + 1, 1_000)
        .result()
        .tasks
    ]


def _app(heard: Heard, payloads: PayloadCodecs | None) -> Hourhand:
    app = Hourhand(payloads=payloads, middleware=[heard])

    @app.task("blocking")
    def blocking(data: dict[str, Any]) -> None:
        heard.data.append(data)

    @app.task("async")
    async def awaited(data: dict[str, Any]) -> None:
        heard.data.append(data)

    @app.batch("batch")
    def batch(rows: list[dict[str, Any]]) -> None:
        heard.data.extend(rows)

    @app.batch("async-batch")
    async def async_batch(rows: list[dict[str, Any]]) -> None:
        heard.data.extend(rows)

    return app


@pytest.mark.parametrize("kind", ["blocking", "async", "batch", "async-batch"])
def test_user_code_gets_plain_data_and_the_store_holds_it_sealed(kind: str) -> None:
    """However it runs, and middleware sees what user code does."""
    heard = Heard()
    with VirtualScheduler(executors=_app(heard, _payloads())) as scheduler:
        tasks = [_task(scheduler, number, kind) for number in range(3)]
        scheduler.client.schedule_tasks(tasks).raise_if_rejected()
        scheduler.run_due()
        rows = _rows(scheduler)
        scheduler.drain()

    assert len(rows) == 3 and not any(SECRET.encode() in row.body for row in rows)
    assert all(row.kind == kind for row in rows)
    assert sorted(heard.data, key=str) == sorted(heard.around, key=str)
    assert sorted(heard.data, key=str) == [task.data for task in tasks]
    assert all(scheduler.result_of(task.key) is CompletionResult.SUCCESS for task in tasks)


def test_unique_and_debounced_tasks_are_sealed_too() -> None:
    """Their requests carry the data through tasks of Hourhand's own."""
    Pay.ran = []
    with VirtualScheduler(Pay, payloads=_payloads()) as scheduler:
        window = timedelta(seconds=5)
        scheduler.schedule_task(_task(scheduler, 1), unique_for=window).result(TIMEOUT_S)
        scheduler.schedule_task(_task(scheduler, 2), debounce=window).result(TIMEOUT_S)
        scheduler.run_due()
        rows = _rows(scheduler)
        scheduler.advance(minutes=5)

    assert rows and not any(SECRET.encode() in row.body for row in rows)
    assert [data["number"] for data in Pay.ran] == [1, 2]


def test_a_recurring_schedules_data_is_sealed_too() -> None:
    """Every occurrence gets it plain, and the client that reads the schedule as well."""
    Pay.ran = []
    with VirtualScheduler(Pay, payloads=_payloads()) as scheduler:
        scheduler.client.schedule_recurring(
            "nightly", every=timedelta(hours=1), data={"card": SECRET}
        ).result(TIMEOUT_S)
        scheduler.run_due()
        rows = _rows(scheduler)
        found = scheduler.client.find_recurring("nightly")
        scheduler.advance(hours=3)

    assert rows and not any(SECRET.encode() in row.body for row in rows)
    assert found is not None and found.rule.data == {"card": SECRET}
    assert Pay.ran == [{"card": SECRET}] * 3


def test_a_task_of_an_unknown_key_is_held_until_a_node_has_the_key() -> None:
    """It uses up no attempt, what is behind it waits, and the message names the key."""
    Pay.ran = []
    scheduler = VirtualScheduler(Pay, payloads=_payloads(k1=KEY))
    task = _task(scheduler)
    scheduler.schedule_task(task).result(TIMEOUT_S)
    scheduler.restart(Pay, payloads=_payloads(k2=OTHER))
    scheduler.advance(days=1)
    held = scheduler.telemetry.of(TaskHeld)
    ran_before = list(Pay.ran)
    info = scheduler.client.find_task(task.key)
    scheduler.restart(Pay, payloads=_payloads(k2=OTHER, k1=KEY))
    scheduler.run_due()

    assert [each.error_class for each in held] == ["PayloadSealed"]
    assert "key id 'k1'" in held[0].message
    assert ran_before == [] and info.state == "blocked"
    assert [each.attempt for each in info.attempts] == [0]
    assert Pay.ran == [task.data] and scheduler.result_of(task.key) is CompletionResult.SUCCESS


def test_a_node_without_codecs_never_shows_an_envelope_to_user_code() -> None:
    """It holds the task, as it would one of an unknown kind."""
    Pay.ran = []
    sealing = VirtualScheduler(Pay, payloads=_payloads())
    sealed = _payloads().sealed(_task(sealing))
    with VirtualScheduler(Pay) as plain:
        plain.schedule_task(sealed).result(TIMEOUT_S)
        plain.advance(days=1)
        held = plain.telemetry.of(TaskHeld)
        info = plain.client.find_task(sealed.key)

    assert len(held) == 1 and "no payload codecs" in held[0].message
    assert Pay.ran == [] and info.data is None
    assert info.sealed is not None and "aes-gcm (key id 'k1')" in info.sealed


def _scheduled_by_another(scheduler: VirtualScheduler, sealed: Task) -> None:
    """Append a task as it is, as another producer would."""
    ports = ClientPorts(
        MemoryWriter(scheduler.broker),
        lambda: scheduler.stores,
        scheduler.clock,
        scheduler.telemetry,
    )
    with SchedulerClient(scheduler.settings, ports) as client:
        client.schedule_task(sealed).result(TIMEOUT_S)


def test_damaged_data_fails_at_once() -> None:
    """Another attempt would find the same data: what follows is as when all are used up."""
    Pay.ran = []
    with VirtualScheduler(Pay, payloads=_payloads(k1=OTHER)) as scheduler:
        sealed = _payloads(k1=KEY).sealed(_task(scheduler))
        _scheduled_by_another(scheduler, sealed)
        executions = scheduler.drain()

    assert [each.error_class for each in executions] == ["PayloadDamaged"]
    assert executions[0].result is AttemptResult.FAILURE and Pay.ran == []
    assert scheduler.result_of(sealed.key) is CompletionResult.FAILURE


def test_damaged_data_in_a_batch_fails_alone() -> None:
    """Its neighbours run, each with its own data."""
    heard = Heard()
    with VirtualScheduler(executors=_app(heard, _payloads())) as scheduler:
        tasks = [_task(scheduler, number, "batch") for number in range(3)]
        damaged = _payloads().sealed(tasks[1]).model_copy(update={"uniqueness_key": "other"})
        _scheduled_by_another(scheduler, damaged)
        scheduler.client.schedule_tasks([tasks[0], tasks[2]]).raise_if_rejected()
        scheduler.drain()

    assert sorted(data["number"] for data in heard.data) == [0, 2]
    assert scheduler.result_of(damaged.key) is CompletionResult.FAILURE
    assert scheduler.result_of(tasks[2].key) is CompletionResult.SUCCESS


class Away(Deflate):
    """A codec whose store does not answer for a while."""

    name = "away"
    failures = 0

    def decode(self, data: bytes, key_id: str | None, bound_to: bytes) -> bytes:
        if self.failures:
            self.failures -= 1
            raise OSError("no route to the store")
        return super().decode(data, key_id, bound_to)


def test_a_codec_that_fails_for_a_while_is_tried_again() -> None:
    """By the executor's own retry policy."""
    Pay.ran = []
    codec = Away()
    with VirtualScheduler(Pay, payloads=PayloadCodecs(codec)) as scheduler:
        task = _task(scheduler).model_copy(update={"data": {"note": "x" * 500}})
        scheduler.schedule_task(task).result(TIMEOUT_S)
        codec.failures = 2
        results = [each.result for each in scheduler.advance(hours=1)]

    assert results == [AttemptResult.FAILURE, AttemptResult.FAILURE, AttemptResult.SUCCESS]
    assert Pay.ran == [task.data]


def test_a_task_that_is_moved_is_opened_as_before() -> None:
    """Reschedule and run-now write the row again, and the node needs no key for it."""
    Pay.ran = []
    with VirtualScheduler(Pay, payloads=_payloads()) as scheduler:
        task, other = _task(scheduler, 1), _task(scheduler, 2)
        for each in (task, other):
            scheduler.schedule_task(each).result(TIMEOUT_S)
        scheduler.client.run_task_now(task.key).result(TIMEOUT_S)
        to = scheduler.now + timedelta(hours=2)
        scheduler.client.reschedule_task(other.key, to).result(TIMEOUT_S)
        scheduler.drain()

    assert Pay.ran == [task.data, other.data]


def test_a_client_with_the_key_reads_plain_data() -> None:
    """One task, a list, and the tasks of the test kit."""
    with VirtualScheduler(Pay, payloads=_payloads()) as scheduler:
        task = _task(scheduler)
        scheduler.schedule_task(task).result(TIMEOUT_S)
        scheduler.run_due()
        found = scheduler.client.find_task(task.key)
        listed = list(scheduler.client.list_tasks())

        assert found.data == task.data and found.sealed is None
        assert [each.data for each in listed] == [task.data]
        assert scheduler.assert_scheduled(data={"card": SECRET}) == task


@pytest.mark.parametrize(
    "flow", [{"limits": Limit(rate=1, key="customer.id")}, {"fair": FairShare(key="customer")}]
)
def test_a_limit_within_sealed_data_is_refused_when_a_node_starts(flow: dict[str, Any]) -> None:
    """All tasks would share one allowance, which nobody asked for."""
    kinds = {"pay": TaskKind(Pay, **flow)}

    with pytest.raises(InvalidExecutor, match=r"plain=\['customer'\]"):
        VirtualScheduler(executors=kinds, payloads=_payloads())
    VirtualScheduler(executors=kinds, payloads=_payloads(plain=["customer"]))
    VirtualScheduler(executors=kinds, payloads=PayloadCodecs(reads=[AesGcm({"k1": KEY})]))


def test_a_limit_reads_a_member_that_is_left_in_the_clear() -> None:
    """The flow of each value is its own, as without codecs."""
    Pay.ran = []
    kinds = {"pay": TaskKind(Pay, limits=Limit(rate=1, per=timedelta(hours=1), key="tenant"))}
    with VirtualScheduler(executors=kinds, payloads=_payloads(plain=["tenant"])) as scheduler:
        for number, tenant in enumerate("aabb"):
            task = _task(scheduler, number, "pay")
            data = {**task.data, "tenant": tenant}
            scheduler.schedule_task(task.model_copy(update={"data": data})).result(TIMEOUT_S)
        scheduler.advance(minutes=2)

    assert sorted(data["tenant"] for data in Pay.ran) == ["a", "b"]
    assert all(MEMBER not in data for data in Pay.ran)


def test_registries_share_one_set_of_codecs() -> None:
    """Two of them would leave open which one seals."""
    payloads = _payloads()
    app, shared, other = Hourhand(), Hourhand(payloads=payloads), Hourhand(payloads=_payloads())
    app.include(shared)

    assert app.payloads is payloads
    with pytest.raises(InvalidExecutor, match="different payload codecs"):
        app.include(other)
    wrong: Any = [AesGcm({"k1": KEY})]
    with pytest.raises(InvalidExecutor, match=r"PayloadCodecs\(…\)"):
        Hourhand(payloads=wrong)


def test_what_is_refused_is_not_sealed_first() -> None:
    """A codec may write elsewhere, and nobody would remove that."""
    sealed: list[Task] = []

    class Noting(PayloadCodecs):
        def sealed(self, task: Task) -> Task:
            sealed.append(task)
            return super().sealed(task)

    with VirtualScheduler(Pay, payloads=Noting(AesGcm({"k1": KEY}))) as scheduler:
        late = _task(scheduler).model_copy(
            update={"scheduled_time": scheduler.now - timedelta(minutes=1)}
        )
        for unique_for in (None, timedelta(minutes=1)):
            with pytest.raises(TaskInThePast):
                scheduler.schedule_task(late, unique_for=unique_for).result(TIMEOUT_S)

    assert sealed == [] and len(scheduler.refusals) == 2


@pytest.mark.parametrize("required", [True, ["blocking", "async", "batch", "async-batch"]])
@pytest.mark.parametrize("kind", ["blocking", "async", "batch", "async-batch"])
def test_plain_data_is_refused_where_sealed_data_is_required(kind: str, required: Any) -> None:
    """At once, and user code never gets it; what is sealed runs beside it."""
    heard = Heard()
    payloads = PayloadCodecs(AesGcm({"k1": KEY}), required=required)
    with VirtualScheduler(executors=_app(heard, payloads)) as scheduler:
        plain, sealed = _task(scheduler, 1, kind), _task(scheduler, 2, kind)
        MemoryWriter(scheduler.broker).append(
            partition_of(plain.ordering_id, 4), plain.ordering_id.encode(), encode_task(plain)
        ).result(TIMEOUT_S)
        scheduler.schedule_task(sealed).result(TIMEOUT_S)
        scheduler.advance(days=1)
        info = scheduler.client.find_task(plain.key)

    assert heard.data == [sealed.data]
    assert [each.error_class for each in info.attempts] == ["PayloadUnsealed"]
    assert scheduler.result_of(plain.key) is CompletionResult.FAILURE


def test_plain_data_of_other_kinds_runs() -> None:
    """Only those named are required to be sealed."""
    heard = Heard()
    payloads = PayloadCodecs(AesGcm({"k1": KEY}), required=["async"])
    with VirtualScheduler(executors=_app(heard, payloads)) as scheduler:
        task = _task(scheduler, 1, "blocking")
        MemoryWriter(scheduler.broker).append(
            partition_of(task.ordering_id, 4), task.ordering_id.encode(), encode_task(task)
        ).result(TIMEOUT_S)
        scheduler.advance(days=1)

    assert heard.data == [task.data]


@pytest.mark.parametrize("kind", ["batch", "async-batch"])
def test_a_batch_without_room_for_all_runs_the_rest_later(kind: str) -> None:
    """In their order, and no attempt is used up."""
    ran: list[list[int]] = []
    app = Hourhand(payloads=PayloadCodecs(AesGcm({"k1": KEY}), open_bytes_max=700_000))

    def note(tasks: list[Task]) -> None:
        ran.append([cast("int", task.data["number"]) for task in tasks])

    async def note_async(tasks: list[Task]) -> None:
        note(tasks)

    app.batch("batch")(note)
    app.batch("async-batch")(note_async)
    with VirtualScheduler(executors=app) as scheduler:
        tasks = [
            _task(scheduler, number, kind).model_copy(
                update={"data": {"number": number, "text": "x" * 300_000}}
            )
            for number in range(5)
        ]
        scheduler.client.schedule_tasks(tasks).raise_if_rejected()
        scheduler.advance(minutes=10)
        infos = [scheduler.client.find_task(task.key) for task in tasks]

    assert (
        sorted(each for batch in ran for each in batch) == list(range(5))
        and max(map(len, ran)) <= 2
    )
    assert all(info.state == "success" and len(info.attempts) <= 1 for info in infos)


@pytest.mark.parametrize("payloads", [None, PayloadCodecs(AesGcm({"k1": KEY}))])
@pytest.mark.parametrize("awaits", [False, True])
def test_a_second_call_of_a_batch_gets_data_of_its_own(
    payloads: PayloadCodecs | None, awaits: bool
) -> None:
    """What the first call made of it before it failed is not given again."""
    seen: list[list[Any]] = []
    app = Hourhand(payloads=payloads)

    def pay(tasks: list[Task]) -> None:
        seen.append([dict(task.data) for task in tasks])
        for task in tasks:
            task.data["card"] = "changed"
        if len(tasks) > 1:
            raise ValueError("one of them")

    async def pay_async(tasks: list[Task]) -> None:
        pay(tasks)

    app.batch("pay", retries_alone=True)(pay_async if awaits else pay)
    with VirtualScheduler(executors=app) as scheduler:
        tasks = [_task(scheduler, number, "pay") for number in range(3)]
        scheduler.client.schedule_tasks(tasks).raise_if_rejected()
        scheduler.advance(minutes=10)

    assert len(seen[0]) == 3 and len(seen) == 4
    assert [each for call in seen[1:] for each in call] == seen[0]
    assert all(each["card"] == SECRET for each in seen[0])
