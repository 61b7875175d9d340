"""Limits under the virtual clock: hours of a rate are a test of milliseconds."""

from bisect import bisect_left
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from hourhand import Hourhand, Limit, RetryPolicy, Task, TaskExecutor, TaskKey
from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.operations.events import AttemptStarted
from hourhand.actors.model.operations.oversight import LATENESS_MS
from hourhand.actors.model.task.status import AttemptResult
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.scheduler.observe.node_telemetry import NodeTelemetry
from hourhand.scheduler.testing import VirtualScheduler

TIMEOUT_S = 60


def schedule(
    scheduler: VirtualScheduler, count: int, kind: str | None = "mail", **data: Any
) -> list[TaskKey]:
    """Schedule tasks that are due a minute from now, each of an ordering id of its own."""
    due = scheduler.now + timedelta(minutes=1)
    tasks = [
        Task(
            ordering_id=f"{kind}-{data}-{number}",
            scheduled_time=due,
            uniqueness_key="once",
            data=data,
            kind=kind,
        )
        for number in range(count)
    ]
    for task in tasks:
        scheduler.schedule_task(task).result(TIMEOUT_S)
    return [task.key for task in tasks]


def test_a_rate_of_fifty_an_hour_is_kept_over_hours() -> None:
    """Exactly: the burst, and then one each 72 seconds."""
    app = Hourhand()

    @app.task("mail", limits=Limit(rate=50, per=timedelta(hours=1)))
    def mail(payload: dict[str, Any]) -> None: ...

    with VirtualScheduler(executors=app) as scheduler:
        schedule(scheduler, 201)
        scheduler.advance(minutes=1)
        ran = [len(scheduler.executions)]
        ran += [len(scheduler.advance(hours=1)) for _ in range(4)]

        assert ran == [1, 50, 50, 50, 50]
        assert not scheduler.all_scheduled()


def test_fifty_a_second_over_ten_seconds_and_others_go_by() -> None:
    """Another kind is not held up, nor is another tenant."""
    app = Hourhand()

    @app.task("mail", limits=Limit(rate=50, burst=1, key="tenant"))
    def mail(payload: dict[str, Any]) -> None: ...

    @app.task("call")
    def call(payload: dict[str, Any]) -> None: ...

    with VirtualScheduler(executors=app) as scheduler:
        schedule(scheduler, 300, tenant="big")
        schedule(scheduler, 3, tenant="small")
        schedule(scheduler, 20, "call")
        scheduler.advance(minutes=1)
        scheduler.advance(milliseconds=40)
        ran = Counter(each.key.ordering_id[:20] for each in scheduler.executions)
        assert ran == {"mail-{'tenant': 'big": 3, "mail-{'tenant': 'sma": 3, "call-{}-0": 1} | {
            f"call-{{}}-{number}": 1 for number in range(20)
        }
        scheduler.advance(seconds=3)

        assert len(scheduler.executions) == 23 + 3 + 150


@pytest.mark.parametrize("concurrency_per_id", [1, None])
def test_what_falls_due_and_what_comes_due_wait_for_one_limit(
    concurrency_per_id: int | None,
) -> None:
    """In the order in which they came to it: what comes due overtakes nothing that waits; with
    and without an order of its ids.
    """
    app, began = Hourhand(), list[str]()

    @app.task(
        "mail",
        limits=Limit(rate=1, per=timedelta(minutes=1), burst=1),
        concurrency_per_id=concurrency_per_id,
    )
    def mail(payload: dict[str, Any]) -> None:
        began.append(payload["came"])

    with VirtualScheduler(executors=app) as scheduler:
        schedule(scheduler, 3, came="ahead")
        scheduler.advance(minutes=1)
        for number in range(2):
            task = Task(
                ordering_id=f"now-{number}",
                scheduled_time=scheduler.now,
                uniqueness_key="once",
                data={"came": "due"},
                kind="mail",
            )
            scheduler.schedule_task(task).result(TIMEOUT_S)
        scheduler.run_due()
        assert began == ["ahead"]
        scheduler.advance(minutes=4)

    assert began == ["ahead"] * 3 + ["due"] * 2


def test_what_waits_for_a_limit_goes_by_priority() -> None:
    """A later, more urgent task goes first, and a cancelled one never goes."""
    app, began = Hourhand(), list[int]()

    @app.task("mail", limits=Limit(rate=1, burst=1), priority=0)
    def mail(payload: dict[str, Any]) -> None:
        began.append(payload["n"])

    with VirtualScheduler(executors=app) as scheduler:
        made = [
            mail.make_task(
                {"n": number}, ordering_id=f"{number}", at=scheduler.now, priority=priority
            )
            for number, priority in enumerate((None, None, None, -9, 50, 9, 50, 50))
        ]
        for task in made:
            scheduler.schedule_task(task).result(TIMEOUT_S)
            scheduler.run_due()
        scheduler.client.cancel_task(made[6].key).result(TIMEOUT_S)
        scheduler.advance(minutes=1)

    assert began == [4, 7, 5, 0, 1, 2, 3]


def test_what_hourhand_does_itself_waits_for_no_limit() -> None:
    """The occurrences of a schedule do, as they are tasks of its kind; what makes them does not."""

    class Mail(TaskExecutor):
        limits = Limit(rate=1, per=timedelta(hours=1), burst=1)

        def execute(self, task: Task) -> None: ...

    with VirtualScheduler(Mail) as scheduler:
        schedule(scheduler, 2, None)
        scheduler.advance(minutes=1)
        every = timedelta(minutes=1)
        scheduler.client.schedule_recurring("r", every=every).result(TIMEOUT_S)
        scheduler.run_due()

        found = scheduler.client.find_recurring("r")
        ran = [each.key.ordering_id for each in scheduler.executions]
        assert found is not None
        assert sum(not each.startswith("hourhand:") for each in ran) == 1


def test_a_retry_takes_an_allowance_again() -> None:
    """An attempt is what a limit counts."""

    class Failing(TaskExecutor):
        limits = Limit(rate=1, per=timedelta(minutes=1), burst=1)
        retry = RetryPolicy(attempts_max=3, wait=lambda _: 1)  # type: ignore[arg-type]

        def execute(self, task: Task) -> None:
            raise ValueError(task.ordering_id)

    with VirtualScheduler(Failing) as scheduler:
        schedule(scheduler, 2, None)
        for minutes in range(1, 8):
            scheduler.advance(minutes=1)
            assert len(scheduler.executions) == min(minutes, 6)

        assert {each.result for each in scheduler.executions} == {AttemptResult.FAILURE}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_batch_takes_an_allowance_for_each_task(asynchronous: bool) -> None:
    """A batch has no more tasks than the limit lets through together."""
    app, sizes = Hourhand(), list[int]()
    limit = Limit(rate=10, burst=5)
    if asynchronous:

        @app.batch("mail", limits=limit)
        async def rows(payloads: list[dict[str, Any]]) -> None:
            sizes.append(len(payloads))

    else:

        @app.batch("mail", limits=limit)
        def others(payloads: list[dict[str, Any]]) -> None:
            sizes.append(len(payloads))

    with VirtualScheduler(executors=app) as scheduler:
        schedule(scheduler, 20)
        scheduler.advance(minutes=1)
        scheduler.advance(seconds=1)

        assert sizes[0] == 5 and sum(sizes) == 15


def test_what_waits_can_be_cancelled_and_what_is_left_survives_a_restart() -> None:
    """It is in the store; a new process begins with a second's pause, as it knows no past."""
    app = Hourhand()

    @app.task("mail", limits=Limit(rate=1, per=timedelta(minutes=1), burst=1))
    def mail(payload: dict[str, Any]) -> None: ...

    with VirtualScheduler(executors=app) as scheduler:
        keys = schedule(scheduler, 6)
        scheduler.advance(minutes=1)
        ran = {each.key for each in scheduler.executions}
        left = [key for key in keys if key not in ran]
        scheduler.client.cancel_task(left[0]).result(TIMEOUT_S)
        scheduler.run_due()
        assert len(scheduler.executions) == 1
        scheduler.crash()
        scheduler.advance(seconds=2)
        assert len(scheduler.executions) == 2
        scheduler.advance(minutes=1)
        assert len(scheduler.executions) == 3
        scheduler.restart()
        scheduler.drain()

        done = {each.key for each in scheduler.executions}
        assert done == {*keys} - {left[0]}


@pytest.mark.parametrize(
    ("tasks", "ids"),
    [(500, 500), (500, 20), (300, 1), pytest.param(6_000, 6_000, marks=pytest.mark.long)],
)
def test_a_backlog_that_a_limit_makes_is_not_late(tasks: int, ids: int) -> None:
    """Behind its own ordering id, or in the store as memory is full: no alert of lateness."""
    app = Hourhand()

    @app.task("mail", limits=Limit(rate=50))
    def mail(payload: dict[str, Any]) -> None: ...

    with VirtualScheduler(executors=app) as scheduler:
        due = scheduler.now + timedelta(minutes=1)
        for number in range(tasks):
            task = Task(
                ordering_id=f"id-{number % ids}",
                scheduled_time=due,
                uniqueness_key=str(number),
                data={},
                kind="mail",
            )
            scheduler.schedule_task(task).result(TIMEOUT_S)
        scheduler.advance(minutes=5)
        started = [each for each in scheduler.telemetry.events if isinstance(each, AttemptStarted)]
        counted = NodeTelemetry(VirtualClock(0))
        for each in started:
            counted.emit(each)

    late = [counted.lateness_of(each) for each in {each.partition for each in started}]
    assert sum(map(sum, late)) == len(started) == tasks
    assert sum(sum(each[bisect_left(LATENESS_MS, 1_000) :]) for each in late) == 0
    assert max(each.delay_ms for each in started) > 5_000


def test_what_is_late_for_another_reason_is_late_beside_a_limit() -> None:
    """A node that was away for an hour is late, whatever a limit adds."""
    app = Hourhand()

    @app.task("mail", limits=Limit(rate=50))
    def mail(payload: dict[str, Any]) -> None: ...

    with VirtualScheduler(executors=app) as scheduler:
        schedule(scheduler, 100)
        scheduler.crash()
        scheduler.clock.advance(3_600_000)
        scheduler.advance(minutes=1)
        started = [each for each in scheduler.telemetry.events if isinstance(each, AttemptStarted)]

    late_ms = [each.delay_ms - each.limited_ms for each in started]
    assert len(started) == 100 and min(late_ms) >= 3_500_000


def mails(scheduler: VirtualScheduler, seconds: float) -> int:
    """Let time pass; return how many began meanwhile."""
    return len(scheduler.advance(seconds=seconds))


def test_a_limit_is_changed_and_reset_at_run_time() -> None:
    """By its name, as an operator does; the change outlives a crash and a deployment."""
    app = Hourhand()

    @app.task("mail", limits=Limit(rate=50, burst=1))
    def mail(payload: dict[str, Any]) -> None: ...

    with VirtualScheduler(executors=app) as scheduler:
        schedule(scheduler, 1_000)
        scheduler.advance(minutes=1)
        assert mails(scheduler, 2) == 100
        scheduler.set_limit("mail#1", rate=20, reason="the provider is slow")
        assert mails(scheduler, 5) == 100
        scheduler.set_limit("mail#1", per=timedelta(seconds=2))
        assert mails(scheduler, 10) == 100

        scheduler.crash()
        assert 99 <= mails(scheduler, 10) <= 101
        scheduler.restart()
        assert 99 <= mails(scheduler, 10) <= 101
        scheduler.reset_limit("mail#1")
        assert mails(scheduler, 2) == 100


def test_a_rate_by_the_value_of_a_key_is_kept_and_changed() -> None:
    """A limit's other numbers hold for all values; an unknown value has the rest's rate."""
    app = Hourhand()

    @app.task("mail", limits=Limit(rate={"gold": 50, "*": 5}, burst=1, key="plan"))
    def mail(payload: dict[str, Any]) -> None: ...

    def begun(seconds: float) -> Counter[object]:
        return Counter(
            each.task.data["plan"] for each in scheduler.advance(seconds=seconds) if each.task
        )

    with VirtualScheduler(executors=app) as scheduler:
        for number in range(600):
            for plan in ("gold", "tin", "?"):
                task = mail.make_task(
                    {"plan": plan}, ordering_id=f"{plan}{number}", at=scheduler.now
                )
                scheduler.schedule_task(task)
        scheduler.advance(seconds=1)
        assert begun(2) == {"gold": 100, "tin": 10, "?": 10}
        scheduler.set_limit("mail#1", rates={"gold": 100, "tin": 50})
        assert begun(2) == {"gold": 200, "tin": 100, "?": 10}
        scheduler.reset_limit("mail#1")
        assert begun(2) == {"gold": 100, "tin": 10, "?": 10}


def test_a_concurrency_of_a_node_is_changed_too() -> None:
    """The older ``concurrency=`` of a kind, by the name that the command line has for it."""
    app = Hourhand()

    @app.task("mail", concurrency=1)
    def mail(payload: dict[str, Any]) -> None: ...

    with VirtualScheduler(executors=app) as scheduler:
        scheduler.set_limit("mail@node", concurrency=5)
        schedule(scheduler, 3)
        assert mails(scheduler, 60) == 3


@pytest.mark.parametrize(
    ("limit", "numbers", "told"),
    [
        ("call#1", {"rate": 1}, "declared are: mail#1"),
        ("mail#1", {}, "say what to change"),
        ("mail#1", {"rate": 0}, "pause"),
        ("mail#1", {"concurrency": 2}, "declares no concurrency"),
    ],
)
def test_what_the_command_refuses_is_refused(
    limit: str, numbers: dict[str, Any], told: str
) -> None:
    """And changes nothing."""
    app = Hourhand()

    @app.task("mail", limits=Limit(rate=1, burst=1))
    def mail(payload: dict[str, Any]) -> None: ...

    with VirtualScheduler(executors=app) as scheduler:
        with pytest.raises(InvalidTask, match=told):
            scheduler.set_limit(limit, **numbers)
        with pytest.raises(InvalidTask, match="declared are: mail#1"):
            scheduler.reset_limit("call#1")
        schedule(scheduler, 20)
        scheduler.advance(minutes=1)
        assert mails(scheduler, 10) == 10
