"""Recurring schedules that applications declare in their code, as a whole, when a node starts."""

import logging
import random
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any

import pytest

from hourhand import Hourhand, Settings, Task, TaskExecutor
from hourhand.actors.model.task.definition import DefinitionKind
from hourhand.actors.model.values.errors import (
    HourhandError,
    InvalidExecutor,
    InvalidTask,
    LogUnavailable,
    StoreUnavailable,
    TaskTooLarge,
)
from hourhand.actors.model.values.instant import to_millis
from hourhand.actors.ports.log import Position
from hourhand.payloads import AesGcm, PayloadCodecs
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.client.client import ClientPorts, SchedulerClient
from hourhand.scheduler.client.declaring import Declaring, sets_of
from hourhand.scheduler.services.recurring.declared import LEASE_MS, RENEW_MS, Declaration
from hourhand.scheduler.services.recurring.state import (
    Change,
    ChangeRequest,
    Recurring,
    change_task,
)
from hourhand.scheduler.tasks.appending import TaskAppender
from hourhand.scheduler.tasks.receipt import refused
from hourhand.scheduler.testing import RecordingTelemetry, VirtualScheduler

NOW = datetime(2026, 3, 1, tzinfo=UTC)
HOURLY: dict[str, Any] = {"every": timedelta(hours=1)}


def an_app(name: str | None = "billing", /, **schedules: Any) -> Hourhand:
    """Return an application that declares schedules."""
    app = Hourhand(name=name)
    for each, given in schedules.items():
        app.recurring(each, **given)(_nothing)
    return app


def _nothing() -> None:
    """Do nothing."""


class World:
    """An installation whose one node runs everything, and nodes of several versions beside it."""

    def __init__(self, app: Hourhand | None = None) -> None:
        self.kit = VirtualScheduler(executors=app or Hourhand(), now=NOW)

    def node(self, app: Hourhand) -> Declaring:
        """Return what a node with this registry does about its schedules."""
        ports = ClientPorts(
            MemoryWriter(self.kit.broker),
            lambda: self.kit.stores,
            self.kit.clock,
            RecordingTelemetry(),
        )
        return SchedulerClient(Settings(), ports, executors=app).declaring(sets_of(app))

    def start(self, app: Hourhand) -> Declaring:
        """Start a node, and let the installation follow."""
        node = self.node(app)
        node.declare()
        self.kit.run_due()
        return node

    def schedules(self) -> dict[str, Recurring]:
        """Return the schedules that are there."""
        return {each.name: each for each in self.kit.client.list_recurring()}

    def names(self) -> set[str]:
        """Return the names of the schedules that are there."""
        return set(self.schedules())


class Pauses(Event):
    """Notes how long a node would wait each time; it is set at the last of them."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.taken: list[float] = []
        self._looks = looks

    def wait(self, timeout: float | None = None) -> bool:
        """Return at once."""
        self.taken.append(timeout or 0.0)
        return len(self.taken) >= self._looks


def test_the_schedules_of_an_application_are_made_changed_and_removed_at_its_start() -> None:
    """Each start of a node declares all of them; those of others stay."""
    world = World()
    world.kit.client.schedule_recurring("by-hand", **HOURLY).result()
    world.start(an_app(kept=HOURLY, changed=HOURLY, removed=HOURLY))
    world.start(an_app("shop", other=HOURLY))
    world.kit.advance(minutes=30)
    before = world.schedules()
    world.start(an_app(kept=HOURLY, changed={"cron": "@daily"}, made=HOURLY))
    after = world.schedules()

    assert set(before) == {"by-hand", "kept", "changed", "removed", "other"}
    assert set(after) == {"by-hand", "kept", "changed", "made", "other"}
    assert after["changed"].rule.cron == "0 0 * * *"
    assert after["kept"].next_ms == before["kept"].next_ms
    assert {name: each.state.owner for name, each in after.items()} == {
        "by-hand": None,
        "kept": "app:billing",
        "changed": "app:billing",
        "made": "app:billing",
        "other": "app:shop",
    }


def test_an_equal_set_resets_nothing_and_leaves_a_pause() -> None:
    """Interval, count, jitter and pause stay, however often nodes start, and whatever changes
    beside them.
    """
    rule = {**HOURLY, "count_max": 5, "jitter": timedelta(minutes=3)}
    world = World(an_app(paused=rule, runs=rule))
    world.start(an_app(paused=rule, runs=rule))
    world.kit.client.pause_recurring("paused").result()
    for count in range(9):
        world.kit.advance(minutes=50)
        more = {f"other-{count}": HOURLY} if count % 2 else {}
        world.start(an_app(paused=rule, runs=rule, **more))
    found = world.schedules()

    assert found["paused"].state.paused
    assert "runs" not in found, "it has ended by its count"
    ran = [each.key for each in world.kit.executions if each.key.ordering_id == "runs"]
    assert len({each.uniqueness_key for each in ran}) == len(ran) == 5


def test_a_changed_rule_leaves_a_pause_too() -> None:
    """Only a resume ends it, and from then on the new rule holds."""
    world = World(an_app(report=HOURLY))
    world.kit.client.pause_recurring("report").result()
    world.start(an_app(report={"cron": "30 * * * *"}))
    world.kit.advance(hours=3)
    still = world.schedules()["report"]
    world.kit.client.resume_recurring("report").result()
    world.kit.advance(hours=1)

    assert still.state.paused
    assert still.rule.cron == "30 * * * *"
    ran = [each.key.uniqueness_key for each in world.kit.executions if each.kind == "report"]
    assert ran == ["report@2026-03-01T03:30:00.000Z"]


def test_a_node_of_the_old_version_neither_changes_nor_removes_what_a_new_one_made() -> None:
    """Also if it starts again, as often as it likes, while the new one runs; it says so."""
    old, new = an_app(a=HOURLY, b=HOURLY), an_app(a={"cron": "@daily"}, c=HOURLY)
    world = World()
    world.start(old)
    renewing = world.start(new)
    for _ in range(12):
        world.kit.advance(timedelta(milliseconds=RENEW_MS))
        renewing.look()
        world.start(old).look()
        world.kit.run_due()
        assert world.names() == {"a", "c"}
        assert world.schedules()["a"].rule.cron == "0 0 * * *"


def test_after_a_rollback_the_old_set_comes_back_by_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Once no node of the new version has declared its own for some time."""
    old, new = an_app(a=HOURLY), an_app(b=HOURLY)
    world = World()
    world.start(old)
    world.start(new)
    with caplog.at_level(logging.WARNING, "hourhand.recurring"):
        node = world.start(old)
        node.look()
    assert "app:billing" in caplog.text
    assert world.names() == {"b"}
    world.kit.advance(timedelta(milliseconds=LEASE_MS))
    node.look()
    world.kit.run_due()

    assert world.names() == {"a"}


def test_an_application_without_schedules_removes_its_last_one() -> None:
    """It still has its name."""
    world = World()
    world.start(an_app(a=HOURLY))
    world.start(an_app())

    assert world.names() == set()


def test_a_schedule_of_another_application_is_left_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log of the node that decides says whose it is, and the rest is declared."""
    world = World()
    world.start(an_app("shop", report=HOURLY))
    with caplog.at_level(logging.WARNING, "hourhand.recurring"):
        world.start(an_app(report={"cron": "@daily"}, mine=HOURLY))
    world.start(an_app())

    assert "report" in caplog.text
    assert world.schedules()["report"].state.owner == "app:shop"
    assert world.names() == {"report"}


def test_what_was_set_by_hand_is_adopted_and_a_change_by_hand_ends_at_the_next_start() -> None:
    """An equal rule goes on; the code says what holds."""
    world = World()
    world.kit.client.schedule_recurring("a", kind="a", **HOURLY).result()
    world.kit.advance(minutes=40)
    before = world.schedules()["a"]
    world.start(an_app(a=HOURLY))
    adopted = world.schedules()["a"]
    world.kit.client.schedule_recurring("a", kind="a", every=timedelta(hours=7)).result()
    world.kit.run_due()
    by_hand = world.schedules()["a"]
    world.start(an_app(a=HOURLY))

    assert (adopted.next_ms, adopted.state.owner) == (before.next_ms, "app:billing")
    assert (by_hand.rule.every_ms, by_hand.state.owner) == (7 * 3_600_000, None)
    assert world.schedules()["a"].rule.every_ms == 3_600_000


def test_what_was_deleted_by_hand_begins_anew_at_the_next_start() -> None:
    """To have it no more it leaves the code, or is paused."""
    world = World()
    world.start(an_app(a=HOURLY))
    world.kit.client.delete_recurring("a").result()
    world.kit.run_due()
    gone = world.names()
    world.start(an_app(a=HOURLY))

    assert gone == set()
    assert world.names() == {"a"}


def test_sealed_data_is_the_same_rule_on_every_node() -> None:
    """Each envelope has a nonce of its own."""
    codecs = PayloadCodecs(AesGcm({"k": b"k" * 32}))

    def sealing() -> Hourhand:
        app = Hourhand(name="billing", payloads=codecs)

        @app.recurring("report", **HOURLY, data={"secret": "x"})
        def report(task: Task) -> None:
            ran.append(task.data)

        return app

    ran: list[dict[str, Any]] = []
    world = World(sealing())
    for _ in range(4):
        world.kit.advance(minutes=50)
        world.start(sealing())
    page = world.kit.stores.definitions.page
    rows = [page(each, DefinitionKind.RECURRING, None, 9).result() for each in range(4)]

    assert ran == [{"secret": "x"}] * 3
    assert b'"secret":"x"' not in b"".join(each.rule for page in rows for each in page.definitions)


def test_data_that_is_sealed_with_another_key_is_another_rule() -> None:
    """So the key of before may go."""
    keys = {"new": b"n" * 32, "old": b"o" * 32}
    world = World()
    for order in (["old"], ["new", "old"]):
        app = an_app(a={**HOURLY, "data": {"n": 1}})
        app.payloads = PayloadCodecs(AesGcm({each: keys[each] for each in order}))
        world.start(app)
        assert order[0] in str(world.schedules()["a"].rule.envelope)


def test_a_store_that_does_not_answer_delays_only_the_declaration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log has it, and the node decides once the store is there."""
    world = World()
    node = world.node(an_app(a=HOURLY))
    find = world.kit.stores.definitions.find
    failures = iter([StoreUnavailable("away")] * 3)

    def failing(*asked: Any) -> Any:
        for error in failures:
            raise error
        return find(*asked)

    monkeypatch.setattr(world.kit.stores.definitions, "find", failing)
    node.declare()
    world.kit.run_due()
    world.kit.advance(minutes=1)

    assert world.names() == {"a"}


@pytest.mark.parametrize("seed", range(5))
def test_nodes_of_two_versions_that_start_and_die_at_any_time_reach_one_result(seed: int) -> None:
    """A version that was replaced never comes back while the new one is declared, and each crash
    in the middle of a declaration is made good.
    """
    dice, world = random.Random(seed), World()
    versions: dict[str, list[Hourhand]] = {
        name: [
            an_app(
                name,
                **{
                    f"{name}-{each}": {"every": timedelta(hours=number + 1)}
                    for each in dice.sample(range(6), 3)
                },
            )
            for number in range(3)
        ]
        for name in ("billing", "shop")
    }
    newest = dict.fromkeys(versions, 0)
    for each in versions.values():
        world.node(each[0]).declare()
    for _ in range(16):
        name = dice.choice(list(versions))
        version = dice.randint(0, min(2, newest[name] + 1))
        newest[name] = max(newest[name], version)
        world.node(versions[name][version]).declare()
        act: Callable[[], object] = dice.choice(
            [world.kit.run_due, _crash_after(world, dice.randint(1, 12)), lambda: None]
        )
        act()
    for name, version in newest.items():
        world.node(versions[name][version]).declare()
    world.kit.advance(minutes=2)

    wanted = {
        name: (each.owner, rule)
        for application, version in newest.items()
        for each in sets_of(versions[application][version])
        for name, rule in each.rules.items()
    }
    found = world.schedules()
    assert {name: (each.state.owner, each.rule) for name, each in found.items()} == wanted


def _crash_after(world: World, writes: int) -> Callable[[], None]:
    """Return an act that loses the node's process after so many writes of its own."""

    def act() -> None:
        store = world.kit.stores.definitions
        save, left = store.save, [writes]

        def failing(*asked: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise StoreUnavailable("the process is about to die")
            return save(*asked)

        store.save = failing  # type: ignore[method-assign, assignment]
        world.kit.run_due()
        store.save = save  # type: ignore[method-assign]
        world.kit.crash()

    return act


def test_a_node_tries_until_the_log_takes_its_declaration_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Then it looks from time to time; what can never be declared is an error, and the end."""
    world, pauses = World(), Pauses(6)
    failures: list[HourhandError] = [LogUnavailable("away"), StoreUnavailable("away too")]
    client = world.kit.client
    declare = client._systems.declare_recurring

    def failing(*asked: Any) -> Any:
        return refused(failures.pop(0)) if failures else declare(*asked)

    monkeypatch.setattr(client._systems, "declare_recurring", failing)
    node = Declaring(sets_of(an_app(a=HOURLY)), client._systems, world.kit.clock, pauses)
    node._run()
    world.kit.run_due()
    failures.append(TaskTooLarge("all of them together"))
    pauses.taken.clear()
    node._run()

    warned = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert len(warned) == 1
    assert "away; it tries again each 15 s" in warned[0]
    assert "cannot be declared: all of them together" in caplog.text
    assert pauses.taken == [0]
    assert world.names() == {"a"}


def test_an_application_that_cannot_be_declared_keeps_no_other_one_from_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It may never be declared, or its codec may raise SystemExit."""
    world, pauses = World(), Pauses(4)
    systems = world.kit.client._systems
    declare = systems.declare_recurring
    failures: dict[str, BaseException] = {
        "app:large": TaskTooLarge("all of them together"),
        "app:odd": SystemExit(),
    }
    asked: list[str] = []

    def failing(owner: str, declaration: Declaration) -> Any:
        asked.append(owner)
        if owner in failures:
            raise failures[owner]
        return declare(owner, declaration)

    monkeypatch.setattr(systems, "declare_recurring", failing)
    names = ("large", "odd", "billing")
    sets = [each for name in names for each in sets_of(an_app(name, **{name: HOURLY}))]
    Declaring(sets, systems, world.kit.clock, pauses)._run()
    world.kit.run_due()

    # Nothing is in force yet, so what could be declared is declared again at each look.
    assert asked == ["app:large", *["app:odd", "app:billing"] * 3]
    assert pauses.taken == [0, 15, 15, 15]
    assert "of app:odd cannot be declared yet: SystemExit; it tries" in caplog.text
    assert world.names() == {"billing"}


@pytest.mark.parametrize("dates", [7, "2026-12-25"])
def test_a_declared_list_of_dates_that_is_none_is_refused_whole(dates: Any) -> None:
    """By its argument, when a node opens: a text is not read character by character."""
    app = an_app(a={**HOURLY, "except_dates": dates})

    with pytest.raises(InvalidTask, match="except_dates: a list of dates is needed"):
        World().node(app)


@pytest.mark.parametrize("data", [{"a": float("nan")}, {"a": "\ud800"}, {"a": 10**5000}])
def test_data_that_no_record_can_hold_is_refused_before_a_node_opens(data: Any) -> None:
    """The error names the schedule; the others could not be declared beside it."""
    with pytest.raises(InvalidTask, match=r"the recurring schedule 'bad': .*not JSON"):
        sets_of(an_app(good=HOURLY, bad={**HOURLY, "data": data}))


def test_a_decorator_without_a_name_says_how_it_is_written() -> None:
    """A function in place of the name is the usual mistake."""
    with pytest.raises(InvalidExecutor, match=r"write @app.recurring\('name', …\)"):
        Hourhand(name="billing").recurring(_nothing)  # type: ignore[arg-type]


def test_a_process_that_dies_between_the_row_and_its_changes_is_followed_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The set is in force already, and what follows from it is asked for by the next attempt."""
    world = World()
    node, append = world.node(an_app(a=HOURLY, b=HOURLY)), TaskAppender.append
    dying = [True]

    def appended(self: TaskAppender, task: Task) -> Any:
        if dying[0]:
            raise LogUnavailable("the process is about to die")
        return append(self, task)

    monkeypatch.setattr(TaskAppender, "append", appended)
    node.declare()
    world.kit.run_due()
    before = world.names()
    world.kit.crash()
    dying[0] = False
    world.kit.advance(minutes=1)

    assert before == set()
    assert world.names() == {"a", "b"}


@pytest.mark.parametrize("change", [Change.SET, Change.DELETE])
@pytest.mark.parametrize(("owner", "revision"), [("app:billing", 1), ("app:shop", 9)])
def test_a_late_change_of_an_earlier_set_or_another_owner_does_nothing(
    change: Change, owner: str, revision: int
) -> None:
    """Whatever the owner's row knew when it was asked for."""
    world = World()
    world.start(an_app())
    world.start(an_app(a=HOURLY))
    before = world.schedules()["a"]
    world.kit.advance(seconds=1)
    rule = {"every_ms": 60_000, "ordering_id": "a"} if change is Change.SET else None
    _ask(world, ChangeRequest(change, rule, owner, revision))

    found = world.schedules()["a"]
    assert (found.rule, found.state) == (before.rule, before.state)


def test_the_same_declaration_is_followed_once_however_its_data_is_sealed() -> None:
    """Two nodes seal it twice, and the second envelope is not another rule."""
    world = World()
    world.start(an_app(a=HOURLY))
    before = world.schedules()["a"]
    world.kit.advance(minutes=10)
    sealed_again = {"every_ms": 3_600_000, "ordering_id": "a", "kind": "a", "data": {"n": 2}}
    _ask(world, ChangeRequest(Change.SET, sealed_again, "app:billing", before.state.revision))

    found = world.schedules()["a"]
    assert (found.rule, found.next_ms) == (before.rule, before.next_ms)


def test_a_schedule_whose_removal_was_lost_is_removed_by_a_later_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an operator may drop its task."""
    world = World()
    world.start(an_app(a=HOURLY))
    with monkeypatch.context() as lost:
        lost.setattr(TaskAppender, "append", _lost)
        world.start(an_app())
    before = world.names()
    world.start(an_app())

    assert before == {"a"}
    assert world.names() == set()


def _lost(_appender: TaskAppender, _task: Task) -> "Future[Position]":
    appended: Future[Position] = Future()
    appended.set_result(Position(0, 0))
    return appended


def _ask(world: World, request: ChangeRequest) -> None:
    """Ask for a change of the schedule ``a``."""
    now_ms = to_millis(world.kit.now)
    world.kit.client._append_own(change_task("a", now_ms, "late", request)).result()
    world.kit.run_due()


def test_an_application_needs_a_name_and_each_schedule_one_place() -> None:
    """The error says what to write."""
    with pytest.raises(InvalidExecutor, match="Hourhand\\(name='billing'\\)"):
        VirtualScheduler(executors=an_app(None, a=HOURLY))
    both = Hourhand()
    both.include(an_app(a=HOURLY))
    other = Hourhand(name="shop")
    other.recurring("a", **HOURLY)(other.task("another")(_nothing))
    both.include(other)
    with pytest.raises(InvalidExecutor, match="two applications declare the schedules a"):
        VirtualScheduler(executors=both)
    app = an_app(a=HOURLY)
    with pytest.raises(InvalidExecutor, match="declared already"):
        app.recurring("a", **HOURLY)(app.task("another")(_nothing))
    with pytest.raises(InvalidTask, match="give cron or every"):
        VirtualScheduler(executors=an_app(a={}))


def test_included_registries_without_a_name_belong_to_the_application_above() -> None:
    """Those with a name are applications of their own."""
    above = Hourhand(name="billing")
    above.include(an_app(None, a=HOURLY))
    above.include(an_app("shop", b=HOURLY))

    assert {each.owner: set(each.rules) for each in sets_of(above)} == {
        "app:billing": {"a"},
        "app:shop": {"b"},
    }


def test_what_is_repeated_is_a_function_a_class_or_a_batch_of_the_registry() -> None:
    """A plain function becomes a task; data that does not fit is refused at the start."""
    app, ran = Hourhand(name="billing"), []

    @app.recurring("classes", **HOURLY)
    @app.executor("class")
    class Report(TaskExecutor):
        def execute(self, task: Task) -> None:
            ran.append(task.uniqueness_key)

    @app.recurring("twice", **HOURLY, data={"n": 1})
    @app.recurring("once", **HOURLY, data={"n": 2})
    @app.task("function")
    def report(payload: dict[str, int]) -> None:
        ran.append(str(payload))

    world = World(app)
    world.kit.advance(hours=1)
    assert sorted(ran) == ["classes@2026-03-01T01:00:00.000Z", "{'n': 1}", "{'n': 2}"]

    with pytest.raises(InvalidExecutor, match=r"above @app\.task"):
        Hourhand(name="other").recurring("x", **HOURLY)(Report)
    wrong = Hourhand(name="wrong")

    @dataclass
    class Invoice:
        number: int

    @wrong.recurring("invoices", **HOURLY)
    def invoice(payload: Invoice) -> None:
        del payload

    with pytest.raises(InvalidExecutor, match=r"invoices.*number"):
        VirtualScheduler(executors=wrong)
