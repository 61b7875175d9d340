"""The registry: functions and classes by kind, with typed payloads, on a virtual node."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pytest
from pydantic import BaseModel
from tenacity import wait_none

from hourhand import FairShare, Limit, RetryPolicy, Scheduler, Settings, Task, TaskExecutor
from hourhand.actors.model.operations.events import TaskHeld
from hourhand.actors.model.task.kind import with_kind
from hourhand.actors.model.task.status import AttemptResult, CompletionResult
from hourhand.actors.model.values.errors import (
    InvalidCheckpoint,
    InvalidExecutor,
    InvalidTask,
    NotConnected,
    PayloadInvalid,
)
from hourhand.scheduler.executors.registry import Hourhand
from hourhand.scheduler.executors.user_executors import TaskKind, UserExecutors
from hourhand.scheduler.testing import VirtualScheduler, execute_task
from tests.builders import a_stored_task

TIMEOUT_S = 60


class Invoice(BaseModel):
    """As pydantic has it."""

    id: int


@dataclass
class Parcel:
    """As the standard library has it."""

    id: int


class Letter(TypedDict):
    """As a dictionary with known names."""

    id: int


class Packet(msgspec.Struct):
    """As msgspec has it."""

    id: int


@pytest.mark.parametrize(
    ("annotation", "payload"),
    [
        (Invoice, Invoice(id=42)),
        (Parcel, Parcel(42)),
        (Letter, {"id": 42}),
        (Packet, Packet(42)),
        (dict[str, Any], {"id": 42}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_function_gets_the_payload_it_was_scheduled_with(
    annotation: Any, payload: object
) -> None:
    """Its type is the annotation, whatever library it comes from."""
    app, seen = Hourhand(), []

    def send(found: object, task: Task) -> None:
        seen.append((found, task.kind, task.data))

    send.__annotations__["found"] = annotation
    scheduled = app.task("send")(send)
    with VirtualScheduler(executors=app) as scheduler:
        scheduled.schedule(payload, ordering_id="customer-7").result(TIMEOUT_S)
        scheduler.run_due()

    assert seen == [(payload, "send", {"id": 42})]


def test_each_kind_runs_its_own_and_the_default_what_has_none() -> None:
    """Functions, coroutine functions and classes, in order per key."""
    app, ran = Hourhand(), []

    @app.task("mail")
    def mail(invoice: Invoice) -> None:
        ran.append(f"mail {invoice.id}")

    @app.task("charge")
    async def charge(invoice: Invoice) -> None:
        ran.append(f"charge {invoice.id}")

    @app.executor("ship")
    class Ship(TaskExecutor):
        def execute(self, task: Task) -> None:
            ran.append(f"ship {task.data['id']}")

    class Other(TaskExecutor):
        def execute(self, task: Task) -> None:
            ran.append(f"other {task.uniqueness_key}")

    with VirtualScheduler(Other, executors=app) as scheduler:
        for each in (mail, charge):
            each.schedule(Invoice(id=1), ordering_id="o").result(TIMEOUT_S)
        due = scheduler.now
        for kind in ("ship", None):
            scheduler.schedule_task(
                Task(
                    ordering_id="p",
                    scheduled_time=due,
                    uniqueness_key=f"{kind}",
                    data={"id": 1},
                    kind=kind,
                )
            ).result(TIMEOUT_S)
        scheduler.run_due()

    assert sorted(ran) == ["charge 1", "mail 1", "other None", "ship 1"]


def test_retry_and_timeout_are_those_of_the_kind() -> None:
    """Two functions of one registry, each with its own."""
    app = Hourhand()

    @app.task("once", retry=RetryPolicy(attempts_max=1))
    def once() -> None:
        raise ValueError("no")

    @app.task("twice", retry=RetryPolicy(attempts_max=2), timeout=timedelta(seconds=3))
    def twice() -> None:
        raise ValueError("no")

    with VirtualScheduler(executors=app) as scheduler:
        for each in (once, twice):
            each.schedule(None, ordering_id=each.kind).result(TIMEOUT_S)
        ran = scheduler.drain()

    assert sorted(each.key.ordering_id for each in ran) == ["once", "twice", "twice"]
    assert app["twice"].executor().timeout == timedelta(seconds=3)


def test_a_payload_that_no_longer_fits_is_a_failed_attempt_that_names_the_field() -> None:
    """The model has changed since; the task is not lost, and its error says which field."""
    app = Hourhand()

    @app.task("mail", retry=RetryPolicy(attempts_max=1))
    def mail(invoice: Invoice) -> None:
        raise AssertionError(f"called with {invoice}")

    with VirtualScheduler(executors=app) as scheduler:
        task = Task(
            ordering_id="o",
            scheduled_time=scheduler.now,
            uniqueness_key="u",
            data={"nr": 1},
            kind="mail",
        )
        scheduler.schedule_task(task).result(TIMEOUT_S)
        (ran,) = scheduler.run_due()

    assert ran.result is AttemptResult.FAILURE and ran.error_class == "PayloadInvalid"


def test_a_payload_that_does_not_fit_is_refused_when_it_is_scheduled() -> None:
    """Nothing is sent; the field is named."""
    app = Hourhand()

    @app.task("mail")
    def mail(invoice: Invoice) -> None:
        raise AssertionError(f"called with {invoice}")

    with VirtualScheduler(executors=app) as scheduler:
        with pytest.raises(PayloadInvalid, match="id: it is missing"):
            mail.schedule({"nr": 1}, ordering_id="o")  # type: ignore[arg-type]
        scheduler.refute_scheduled()


def test_an_unknown_kind_is_held_until_a_node_knows_it() -> None:
    """Nothing is lost, no attempt is used up, and what is behind it waits (P3, P4)."""
    app, ran = Hourhand(), []

    @app.task("mail", retry=RetryPolicy(attempts_max=1))
    def mail() -> None:
        ran.append("mail")

    scheduler = VirtualScheduler(executors={})
    task = mail.make_task(None, ordering_id="o", at=scheduler.now)
    scheduler.schedule_task(task).result(TIMEOUT_S)
    scheduler.advance(timedelta(days=1))
    held = scheduler.telemetry.of(TaskHeld)
    scheduler.restart(executors=app)

    assert len(held) == 1 and "'mail'" in held[0].message
    assert ran == ["mail"] and scheduler.result_of(task.key) is CompletionResult.SUCCESS


def test_a_registered_function_is_still_a_function() -> None:
    """A unit test calls it."""
    app = Hourhand()

    @app.task("double")
    def double(invoice: Invoice) -> None:
        """Twice."""
        invoice.id *= 2

    invoice = Invoice(id=2)
    double(invoice)

    assert invoice.id == 4 and double.__doc__ == "Twice." and double.kind == "double"


@pytest.mark.parametrize("how", ["blocking", "async"])
def test_a_function_makes_checkpoints_and_finds_them(how: str) -> None:
    """As a class does by its ``self``; called by nobody's node it makes none."""
    registry, found = Hourhand(), list[object]()

    def work() -> None:
        found.append(registry.checkpointed)
        registry.checkpoint({"done": len(found)})
        if len(found) < 3:
            raise ValueError("not yet")

    async def work_async() -> None:
        await asyncio.to_thread(work)

    function: Any = work if how == "blocking" else work_async
    task = registry.task("work", retry=RetryPolicy(wait=wait_none()))(function)
    scheduler = VirtualScheduler(executors=registry)
    receipt = task.schedule(None, ordering_id="a").result(TIMEOUT_S)
    scheduler.advance(minutes=1)
    assert found == [None, {"done": 1}, {"done": 2}]
    assert scheduler.client.find_task(receipt.key).checkpoint == {"done": 3}

    made: list[object] = []
    given = Task(ordering_id="a", scheduled_time=scheduler.now, uniqueness_key="2", kind="work")
    execute_task(registry["work"].executor(), given, checkpointed=7, checkpoints=made)
    assert (found.pop(), made) == (7, [{"done": 4}])

    work()
    assert found[-1] is None, "the test's own context is as before"
    with pytest.raises(InvalidCheckpoint):
        registry.checkpoint({1})


def test_a_function_of_a_batch_says_which_task_a_checkpoint_is_of() -> None:
    """It finds one for each."""
    registry, found = Hourhand(), list[object]()

    @registry.batch("rows", retry=RetryPolicy(wait=wait_none()))
    def rows(tasks: list[Task]) -> None:
        found.append(registry.checkpointed)
        with pytest.raises(InvalidCheckpoint, match="say which one"):
            registry.checkpoint("of none")
        for task in tasks:
            registry.checkpoint(task.ordering_id, task)
        if len(found) == 1:
            raise ValueError("not yet")

    scheduler = VirtualScheduler(executors=registry)
    for name in "ab":
        rows.schedule({}, ordering_id=name).result(TIMEOUT_S)
    scheduler.advance(minutes=1)

    assert found == [(None, None), ("a", "b")]


def test_without_an_open_client_nothing_is_scheduled() -> None:
    """The error says what to open."""
    app = Hourhand()

    @app.task("mail")
    def mail() -> None:
        """Do nothing."""

    with pytest.raises(NotConnected, match="executors=app"):
        mail.schedule(None, ordering_id="o")
    with VirtualScheduler(executors=app):
        mail.schedule(None, ordering_id="o").result(TIMEOUT_S)


def test_a_registry_includes_another_one() -> None:
    """Its functions schedule through the same client."""
    app, part = Hourhand(), Hourhand()

    @part.task("mail")
    def mail() -> None:
        """Do nothing."""

    app.include(part)
    with VirtualScheduler(executors=app) as scheduler:
        mail.schedule(None, ordering_id="o").result(TIMEOUT_S)
        scheduler.run_due()
        scheduler.assert_executed(ordering_id="o")


def two_payloads(first: Invoice, second: Parcel) -> None:
    """Take one too many."""


def any_payload(*payloads: Invoice) -> None:
    """Take as many as there are."""


@pytest.mark.parametrize("function", [any_payload])
def test_a_function_that_cannot_be_called_with_a_task_is_refused(
    function: Callable[..., None],
) -> None:
    """When it is registered."""
    with pytest.raises(InvalidExecutor, match="payloads"):
        Hourhand().task("mail")(function)


def test_a_kind_is_registered_once_and_is_a_kind() -> None:
    """Whoever registers a second one is told."""
    app = Hourhand()
    app.task("mail")(lambda: None)

    with pytest.raises(InvalidExecutor, match="registered already"):
        app.task("mail")
    with pytest.raises(InvalidExecutor, match="is not a kind"):
        app.task("a kind")
    other = app.task("other")(lambda: None)
    with VirtualScheduler(executors=app) as scheduler, pytest.raises(InvalidTask, match="not both"):
        other.schedule(None, ordering_id="o", at=scheduler.now, after=timedelta(1))


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ("5s", "after is a timedelta, got '5s'"),
        (5, r"write timedelta\(seconds=…\)"),
        (0, "after is a timedelta"),
        (timedelta.max, "lies outside years 1 to 9999"),
    ],
)
def test_a_delay_that_is_none_is_refused(after: Any, said: str) -> None:
    """The error comes at both places: in the call that makes the task, and in its schedule."""
    app = Hourhand()
    mail = app.task("mail")(lambda: None)
    with VirtualScheduler(executors=app):
        for call in (mail.make_task, mail.schedule):
            with pytest.raises(InvalidTask, match=said):
                call(None, ordering_id="o", after=after)


def test_a_constructor_that_raises_has_the_policy_of_its_class() -> None:
    """Each attempt calls it once more, and the class says how many there are."""
    calls = []

    class Broken(TaskExecutor):
        retry = RetryPolicy(attempts_max=2)

        def __init__(self) -> None:
            calls.append(1)
            raise SystemExit

        def execute(self, task: Task) -> None:
            """Never called."""

    with VirtualScheduler(executors={"mail": Broken}) as scheduler:
        task = Task(ordering_id="o", scheduled_time=scheduler.now, uniqueness_key="u", kind="mail")
        scheduler.schedule_task(task).result(TIMEOUT_S)
        ran = scheduler.drain()

    assert [each.error_class for each in ran] == ["SystemExit", "SystemExit"]
    assert scheduler.result_of(task.key) is CompletionResult.FAILURE and len(calls) == 2


def test_every_way_to_register_a_kind_declares_its_flow() -> None:
    """Functions, batches, classes, a mapping, and the default executor."""
    one_limit, share = Limit(rate=50, key="tenant"), FairShare(key="tenant")
    declared: Any = {"limits": [one_limit], "priority": 2, "fair": share}
    app = Hourhand()

    @app.task("mail", **declared)
    def mail(payload: dict[str, Any]) -> None: ...

    @app.batch("rows", **declared)
    def rows(payloads: list[dict[str, Any]]) -> None: ...

    @app.executor("class", **declared)
    class Plain(TaskExecutor):
        def execute(self, task: Task) -> None: ...

    class Declared(Plain):
        limits, priority, fair = one_limit, 2, share

    def make() -> TaskExecutor:
        return Plain()

    app.add("declared", TaskKind(Declared))
    app.add("made", TaskKind(make, **declared))
    rules = UserExecutors.of(Declared, app).flow_rules

    assert set(rules.limits) == {"#1", "mail#1", "rows#1", "class#1", "declared#1", "made#1"}
    for kind in (None, *app):
        data = b'{"tenant":"a"}'
        found = rules.of_task(a_stored_task(data=data if kind is None else with_kind(data, kind)))
        assert found is not None
        rule = found.rule
        assert (rule.limits, rule.priority, rule.fair) == ((one_limit,), 2, share)


def test_a_declaration_that_means_nothing_is_refused_where_it_stands(tmp_path: Path) -> None:
    """Before a node opens anything."""

    class Odd(TaskExecutor):
        limits = 50  # type: ignore[assignment]

        def execute(self, task: Task) -> None: ...

    app = Hourhand()
    with pytest.raises(InvalidExecutor, match="limits holds 50"):
        app.executor("odd")(Odd)
    with pytest.raises(InvalidExecutor, match="priority is 'high'"):
        app.task("odd", priority="high")  # type: ignore[arg-type]
    with pytest.raises(InvalidExecutor, match="fair is 'tenant'"):
        app.batch("odd", fair="tenant")  # type: ignore[arg-type]
    with pytest.raises(InvalidExecutor, match="limits holds 50"):
        Scheduler(Settings(embedded={"folder": tmp_path / "never"}), executor=Odd)
    assert not (tmp_path / "never").exists()
