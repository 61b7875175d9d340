"""A client reads what nodes stored: in virtual time, over the real tree."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hourhand import (
    Absence,
    AttemptResult,
    Drop,
    Receipt,
    RetryPolicy,
    Task,
    TaskExecutor,
    TaskInfo,
    TaskKey,
    TaskState,
)
from hourhand.actors.model.operations.ownership import Watermark
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import CommandOutcome
from hourhand.actors.model.values.errors import (
    InvalidKey,
    InvalidTask,
    NodeStopped,
    SeveralTasks,
    TaskNotFound,
)
from hourhand.actors.model.values.instant import to_millis
from hourhand.scheduler.testing import VirtualScheduler
from tests.fuzz.values import Explosive

MINUTE = timedelta(minutes=1)


class Fragile(TaskExecutor):
    """Does what a task's data says."""

    retry = RetryPolicy(attempts_max=2, on_exhausted="block")

    def execute(self, task: Task) -> Drop | None:
        """Fail, drop, or do nothing."""
        if task.data.get("fails"):
            raise ValueError("no such invoice")
        return Drop("deleted") if task.data.get("drops") else None


class World:
    """A virtual scheduler whose tasks are due a minute from now."""

    def __init__(self) -> None:
        self.scheduler = VirtualScheduler(Fragile)
        self.client = self.scheduler.client

    def task(self, uniqueness_key: str = "a", due_in: timedelta = MINUTE, **data: Any) -> Task:
        return Task(
            ordering_id=data.pop("ordering_id", "customer-7"),
            scheduled_time=self.scheduler.now + due_in,
            uniqueness_key=uniqueness_key,
            data=data,
        )

    def schedule(self, *arguments: Any, **named: Any) -> Receipt:
        return self.client.schedule_task(self.task(*arguments, **named)).result(timeout=1)


@pytest.fixture
def world() -> World:
    """An installation of its own."""
    return World()


def test_a_task_is_told_from_its_receipt_before_any_node_stored_it(world: World) -> None:
    """Accepted is more than unknown, and the receipt is the proof."""
    receipt = world.schedule()

    by_receipt, by_key = world.client.find_task(receipt), world.client.find_task(receipt.key)

    assert (by_receipt.state, by_receipt.absence) == (TaskState.UNKNOWN, Absence.NOT_STORED_YET)
    assert (by_key.state, by_key.absence) == (TaskState.UNKNOWN, Absence.UNSEEN)
    assert not by_receipt.is_open and not by_receipt.is_closed

    world.scheduler.run_due()

    assert world.client.find_task(receipt).state is TaskState.PENDING


def test_a_stored_task_comes_with_its_data(world: World) -> None:
    """As it was scheduled."""
    receipt = world.schedule(invoice=42)
    world.scheduler.run_due()

    assert world.client.find_task(receipt.key) == TaskInfo(
        receipt.key, TaskState.PENDING, data={"invoice": 42}
    )


def test_a_task_that_fails_shows_its_attempts_and_errors(world: World) -> None:
    """When each began and ended, and when the next one comes."""
    receipt = world.schedule(fails=True)
    world.scheduler.advance(MINUTE)

    info = world.client.find_task(receipt)

    assert (info.state, info.error) == (TaskState.RETRYING, "ValueError: no such invoice")
    [attempt] = info.attempts
    assert (attempt.attempt, attempt.result) == (1, AttemptResult.FAILURE)
    assert attempt.started_time == receipt.key.scheduled_time
    assert attempt.next_attempt_time is not None
    assert attempt.next_attempt_time > receipt.key.scheduled_time
    assert "raise ValueError" in (attempt.error_stack or "")

    world.scheduler.advance(minutes=5)

    assert world.client.find_task(receipt).state is TaskState.BLOCKED
    assert [each.attempt for each in world.client.history(receipt)] == [1, 2]
    assert world.client.history(receipt.key) == world.client.find_task(receipt.key).attempts


def test_a_closed_task_says_when_and_why(world: World) -> None:
    """The words of a drop, and the key of a task that was moved."""
    dropped = world.schedule("dropped", drops=True)
    moved = world.schedule("moved", due_in=timedelta(hours=2))
    world.scheduler.advance(MINUTE)
    world.client.run_task_now(moved.key).result(timeout=1)
    world.scheduler.run_due()

    info = world.client.find_task(dropped)
    assert (info.state, info.reason, info.is_closed) == (TaskState.DROPPED, "deleted", True)
    assert info.finished_time == dropped.key.scheduled_time

    info = world.client.find_task(moved)
    assert info.state is TaskState.MOVED
    assert info.moved_to == moved.key._replace(scheduled_ms=dropped.key.scheduled_ms)


def test_what_is_stored_from_before_is_not_taken_for_a_later_record(world: World) -> None:
    """A key that was cancelled is scheduled again: it is not cancelled as far as that goes."""
    first = world.schedule()
    world.scheduler.run_due()
    world.client.cancel_task(first.key).result(timeout=1)
    world.scheduler.run_due()
    again = world.client.schedule_task(world.task()).result(timeout=1)

    assert world.client.find_task(first).state is TaskState.CANCELLED
    assert world.client.find_task(again).absence is Absence.NOT_STORED_YET

    assert world.client.wait_task(again, timeout=2 * MINUTE).state is TaskState.SUCCESS


def test_what_was_deleted_is_gone(world: World) -> None:
    """A node has read the record, and what it stored is kept no longer."""
    receipt = world.schedule()
    world.scheduler.advance(MINUTE)
    ownership = world.scheduler.stores.ownership
    partition = partition_of(receipt.key.ordering_id, 4)
    stores = world.scheduler.stores
    hour = receipt.key.scheduled_ms // 3_600_000 * 3_600_000
    stores.status.delete_statuses(partition, hour, hour + 3_600_000, 1 << 60).result(timeout=1)
    stores.schedule.delete_tasks(partition, hour, hour + 3_600_000, 1 << 60).result(timeout=1)
    claim = ownership.claim(partition, 0).result(timeout=1)
    mark = Watermark(
        hour + 3_600_000,
        hour + 3_600_000,
        next_offset=receipt.offset + 1,
        tasks_swept_until_ms=hour + 3_600_000,
        statuses_swept_until_ms=hour + 3_600_000,
        write_time=1 << 60,
    )
    ownership.save_watermark(partition, claim.epoch, mark).result(timeout=1)

    assert world.client.find_task(receipt).absence is Absence.GONE
    assert world.client.find_task(receipt.key).absence is Absence.GONE
    with pytest.raises(TaskNotFound, match="any more"):
        world.client.wait_task(receipt)


def test_waiting_ends_when_the_task_is_closed(world: World) -> None:
    """In a test, virtual time passes meanwhile."""
    begin = world.scheduler.now
    receipt = world.schedule()

    info = world.client.wait_task(receipt)

    assert info.state is TaskState.SUCCESS
    assert world.scheduler.now - begin < 2 * MINUTE


def test_a_wait_follows_a_task_that_is_moved(world: World) -> None:
    """What was scheduled for tomorrow and run now is done now."""
    receipt = world.schedule(due_in=timedelta(days=1))
    world.client.run_task_now(receipt.key).result(timeout=1)

    info = world.client.wait_task(receipt, timeout=MINUTE)

    assert info.state is TaskState.SUCCESS and info.key < receipt.key


def test_a_wait_that_takes_too_long_says_how_the_task_stands(world: World) -> None:
    """Blocked, and with what."""
    receipt = world.schedule(fails=True)

    with pytest.raises(TimeoutError, match=r"blocked after 600 s.*ValueError: no such invoice"):
        world.client.wait_task(receipt, timeout=600)
    with pytest.raises(TimeoutError, match="unseen after 1 s"):
        world.client.wait_task(TaskKey(receipt.key.scheduled_ms, "nobody", ""), timeout=1)


def test_waiting_for_an_outcome(world: World) -> None:
    """Until a node has decided; the receipt of a task has none."""
    task = world.schedule()
    command = world.client.cancel_task(task.key).result(timeout=1)

    assert world.client.wait_outcome(command, timeout=1).outcome is CommandOutcome.APPLIED
    with pytest.raises(TimeoutError, match="wait_task"):
        world.client.wait_outcome(task, timeout=1)


def test_listings_choose_and_are_in_key_order(world: World) -> None:
    """By id, state, time and number; Hourhand's own tasks are left out."""
    now = world.scheduler.now
    for number in range(6):
        world.schedule(str(number), due_in=(6 - number) * MINUTE, fails=number == 5)
    world.schedule("other", due_in=MINUTE * 3.5, ordering_id="other")
    world.client.schedule_recurring("each-hour", every=timedelta(hours=1)).result(timeout=1)
    world.scheduler.advance(MINUTE)

    def found(**chosen: Any) -> str:
        return "".join(each.key.uniqueness_key[0] for each in world.client.list_tasks(**chosen))

    assert found().startswith("543o210")
    assert found(ordering_id="customer-7") == "543210"
    assert found(ordering_id="other") == "o"
    assert found(ordering_id="customer-7", state=TaskState.RETRYING) == "5"
    assert found(state={TaskState.RETRYING, TaskState.SUCCESS}) == "5"
    assert found(scheduled_from=now + 2 * MINUTE, scheduled_before=now + 4 * MINUTE) == "43o"
    assert found(limit=2) == "54"
    assert found(state=TaskState.CANCELLED) == ""


def test_the_kind_of_a_task_is_read_and_listed() -> None:
    """Where an installation runs several."""
    scheduler = VirtualScheduler(executors={"mail": Fragile, "charge": Fragile})
    client = scheduler.client
    for kind in ("mail", "charge", "mail"):
        client.schedule_task(
            Task(
                ordering_id=kind,
                scheduled_time=scheduler.now + MINUTE,
                uniqueness_key="a",
                kind=kind,
            )
        )
    scheduler.run_due()

    assert [each.kind for each in client.list_tasks()] == ["charge", "mail"]
    assert [each.kind for each in client.list_tasks(kind="mail")] == ["mail"]


def test_a_listing_reads_no_further_than_it_is_asked(world: World) -> None:
    """A page at a time: whoever needs the first task pays for the first page."""
    for number in range(1_100):
        world.client.schedule_task(world.task(f"{number:04d}"))
    world.scheduler.run_due()

    listing = world.client.list_tasks(ordering_id="customer-7")

    assert next(listing).key.uniqueness_key == "0000"
    assert sum(1 for _ in listing) == 1_099


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.list_tasks(limit=0),
        lambda client: client.list_tasks(state="done"),
        lambda client: client.list_tasks(state=7),
        lambda client: client.list_tasks(state=[Explosive()]),
        lambda client: client.list_tasks(ordering_id=7),
        lambda client: client.list_tasks(kind=7),
        lambda client: client.list_tasks(scheduled_from=datetime(2026, 1, 1)),  # noqa: DTZ001
        lambda client: client.list_tasks(
            scheduled_from=datetime(2026, 1, 2, tzinfo=UTC),
            scheduled_before=datetime(2026, 1, 1, tzinfo=UTC),
        ),
        lambda client: client.wait_task(TaskKey(0, "a", "b"), timeout="soon"),
        lambda client: client.wait_task(TaskKey(0, "a", "b"), timeout=float("nan")),
    ],
)
def test_what_cannot_be_asked_is_refused_at_the_call(
    world: World, ask: Callable[[Any], object]
) -> None:
    """And not at the first task that is read."""
    with pytest.raises(InvalidTask):
        ask(world.client)


@pytest.mark.parametrize("task", ["2026-02-09T01:41:12.959Z,a,b", None, ("a", "b", "c"), 7])
def test_only_a_key_a_receipt_or_a_pair_names_a_task(world: World, task: object) -> None:
    """The message says how a text becomes a key."""
    with pytest.raises(InvalidKey, match=r"TaskKey\.parse"):
        world.client.find_task(task)  # type: ignore[arg-type]
    with pytest.raises(InvalidKey):
        world.client.wait_outcome(task)  # type: ignore[arg-type]


def test_a_command_by_pair_needs_no_look_at_the_store(world: World) -> None:
    """It is sent before any node has stored the task, and the outcome has the task's key."""
    done = world.schedule("done", due_in=MINUTE)
    world.scheduler.advance(MINUTE)
    names = ("cancelled", "moved", "run", "dropped")
    keys = {name: world.schedule(name).key for name in names}
    target = world.scheduler.now + timedelta(hours=3)

    sent = {
        "done": world.client.cancel_task(("customer-7", "done")),
        "cancelled": world.client.cancel_task(("customer-7", "cancelled")),
        "moved": world.client.reschedule_task(("customer-7", "moved"), target),
        "run": world.client.run_task_now(("customer-7", "run")),
        "dropped": world.client.drop_task(("customer-7", "dropped")),
    }
    receipts = {name: future.result(timeout=5) for name, future in sent.items()}
    assert {name: receipt.pair for name, receipt in receipts.items()} == {
        name: ("customer-7", name) for name in sent
    }
    assert all(world.client.outcome(each) is None for each in receipts.values())
    found = {name: world.client.wait_outcome(each, 1) for name, each in receipts.items()}

    assert {name: each.outcome.value for name, each in found.items()} == {
        "done": "already_closed",
        **dict.fromkeys(names, "applied"),
    }
    assert {name: each.key for name, each in found.items()} == {"done": done.key, **keys}
    states = {each.key: each.state.value for each in world.client.list_tasks()}
    assert states[keys["moved"]._replace(scheduled_ms=to_millis(target))] == "pending"
    assert states[keys["cancelled"]] == "cancelled"
    assert states[keys["dropped"]] == "dropped"


def test_a_pair_that_names_no_task_or_several_is_told_in_the_outcome(world: World) -> None:
    """With the keys to choose from, as they are when it is asked for."""
    keys = [world.schedule("twice", due_in=number * MINUTE).key for number in (1, 2)]

    none = world.client.retry_task(("customer-7", "never")).result(timeout=5)
    several = world.client.run_task_now(("customer-7", "twice")).result(timeout=5)

    assert world.client.wait_outcome(none, 1).outcome is CommandOutcome.UNKNOWN_PAIR
    found = world.client.wait_outcome(several, 1)
    assert (found.outcome, found.several) == (CommandOutcome.SEVERAL_TASKS, tuple(keys))
    assert world.client.find_task(keys[0]).state is TaskState.PENDING
    world.scheduler.advance(MINUTE)
    left = world.client.outcome(several)
    assert left is not None and left.several == (keys[1],)


@pytest.mark.parametrize("pair", [("a",), ("", "b"), ("a", None), "a,b", ("a", "\ud800")])
def test_what_is_not_a_pair_of_ids_is_refused(world: World, pair: object) -> None:
    """By every command, and nothing is sent."""
    client: Any = world.client
    sent = [
        client.cancel_task(pair),
        client.drop_task(pair),
        client.retry_task(pair),
        client.run_task_now(pair),
        client.reschedule_task(pair, world.scheduler.now),
    ]

    assert all(isinstance(each.exception(timeout=1), InvalidKey) for each in sent)


@pytest.mark.parametrize("pair", [("", "b"), ("a", None), (7, "b")])
def test_a_refused_pair_is_quoted_as_it_was_given(world: World, pair: object) -> None:
    """Not as a key, with a time that nobody wrote."""
    client: Any = world.client
    refused = client.cancel_task(pair)

    with pytest.raises(InvalidKey) as caught:
        refused.result(0)
    assert str(pair) in str(caught.value)
    assert "1970" not in str(caught.value)


def test_a_pair_finds_the_one_open_task_that_has_both_ids(world: World) -> None:
    """None, one or several; a task that has ended is found by its key."""
    done = world.schedule("invoice", due_in=MINUTE)
    world.scheduler.advance(MINUTE)
    pair = ("customer-7", "invoice")

    with pytest.raises(TaskNotFound, match="no open task has ordering id 'customer-7' and uniq"):
        world.client.find_task(pair)

    first = world.schedule("invoice", due_in=MINUTE)
    world.scheduler.run_due()
    found = world.client.find_task(pair)
    assert (found.key, found.state) == (first.key, TaskState.PENDING)
    assert world.client.find_task(done).state is TaskState.SUCCESS

    second = world.schedule("invoice", due_in=2 * MINUTE)
    world.scheduler.run_due()
    with pytest.raises(SeveralTasks, match="2 open tasks have") as several:
        world.client.find_task(pair)
    assert all(str(each.key) in str(several.value) for each in (first, second))


def test_a_closed_client_reads_nothing(world: World) -> None:
    """It says that it is closed."""
    receipt = world.schedule()
    world.client.close()

    with pytest.raises(NodeStopped):
        world.client.find_task(receipt)
    with pytest.raises(NodeStopped):
        list(world.client.list_tasks())


def test_coroutines_read_the_same(world: World) -> None:
    """Under the same names, at ``aio``."""
    world.client.schedule_recurring("each-hour", every=timedelta(hours=1)).result(timeout=1)
    world.scheduler.run_due()
    task = world.schedule()
    command = world.client.cancel_task(task.key).result(timeout=1)

    async def main() -> None:
        aio = world.client.aio
        assert await aio.outcome(command) is None
        assert (await aio.find_task(task)).absence is Absence.NOT_STORED_YET
        pair = (task.key.ordering_id, task.key.uniqueness_key)
        with pytest.raises(TaskNotFound):
            await aio.find_task(pair)
        assert (await aio.wait_outcome(command, 1)).outcome is CommandOutcome.APPLIED
        assert (await aio.wait_task(task, MINUTE)).state is TaskState.CANCELLED
        assert await aio.history(task) == ()
        assert [each.key async for each in aio.list_tasks(ordering_id="customer-7")] == [task.key]
        assert await aio.find_recurring("each-hour") is not None
        assert [each.name for each in await aio.list_recurring()] == ["each-hour"]
        with pytest.raises(TimeoutError):
            await aio.wait_task(task.key._replace(ordering_id="nobody"), 1)
        with pytest.raises(TimeoutError):
            await aio.wait_outcome(task, 1)
        never = await world.client.cancel_task(("customer-7", "never"))
        assert (await aio.wait_outcome(never, 1)).outcome is CommandOutcome.UNKNOWN_PAIR

    asyncio.run(main())
