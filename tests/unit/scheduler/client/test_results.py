"""A client waits for the value that a task ends with: in virtual time, over the real tree."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from hourhand import Done, Drop, Receipt, RetryPolicy, Task, TaskExecutor, TaskKey, TaskState
from hourhand.actors.model.task.task_result import StoredResult
from hourhand.actors.model.values.errors import (
    InvalidKey,
    NoResult,
    PayloadSealed,
    ResultGone,
    TaskNotFound,
)
from hourhand.scheduler.payloads.aes_gcm import AesGcm
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.testing import VirtualScheduler

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


class Told(TaskExecutor):
    """Does what a task's data says."""

    retry = RetryPolicy(attempts_max=2)

    def execute(self, task: Task) -> Done | Drop | None:
        """Fail at first, fail, drop, or end with a value."""
        data = task.data
        if data.get("fails") or (data.get("fails_once") and self.attempt == 1):
            raise ValueError("no such invoice")
        if data.get("drops"):
            return Drop("deleted")
        return Done(data["value"]) if "value" in data else None


class TellsInProcess(Told):
    """The same in a process."""

    run_in = "process"


class TellsAsync(TaskExecutor):
    """The same, as a coroutine function."""

    async def execute(self, task: Task) -> Done:
        """End with a value."""
        return Done(task.data["value"])


class World:
    """A virtual scheduler whose tasks are due a minute from now."""

    def __init__(self, executor: type[TaskExecutor] = Told, **options: Any) -> None:
        self.scheduler = VirtualScheduler(executor, **options)
        self.client = self.scheduler.client

    def schedule(self, due_in: timedelta = MINUTE, **data: Any) -> Receipt:
        """Schedule a task whose data is given."""
        at = self.scheduler.now + due_in
        task = Task(ordering_id="c-7", scheduled_time=at, uniqueness_key="a", data=data)
        return self.client.schedule_task(task).result(timeout=1)

    def row(self, key: TaskKey) -> StoredResult | None:
        """Return what the store has of a result."""
        rows = (
            self.scheduler.stores.results.find_results(partition, [key]).result()
            for partition in range(4)
        )
        return next((found[0] for found in rows if found), None)


@pytest.mark.parametrize("executor", [Told, TellsAsync, TellsInProcess])
@pytest.mark.parametrize("value", [{"paid": 12.5, "by": ["card"]}, 0, "", [], False])
def test_the_value_of_done_is_what_waiting_returns(
    executor: type[TaskExecutor], value: object
) -> None:
    """By receipt, by key, and from a coroutine."""
    world = World(executor)
    receipt = world.schedule(value=value)

    assert world.client.wait_result(receipt, timeout=2 * MINUTE) == value
    assert world.client.wait_result(receipt.key, timeout=0) == value
    assert asyncio.run(world.client.aio.wait_result(receipt, 1)) == value


def test_a_task_without_a_value_ends_with_none_and_writes_nothing() -> None:
    """Neither does ``Done(None)``."""
    world = World()
    plain, none = world.schedule(), world.schedule(2 * MINUTE, value=None)

    for each in (plain, none):
        assert world.client.wait_result(each) is None
        assert world.row(each.key) is None


def test_the_value_of_the_attempt_that_ended_well_counts() -> None:
    """After one that failed, and after a move."""
    world = World()
    late = world.schedule(value=1, fails_once=True)
    moved = world.schedule(due_in=DAY, value=2)
    world.client.run_task_now(moved.key).result(timeout=1)

    assert world.client.wait_result(late, timeout=timedelta(hours=1)) == 1
    assert world.client.wait_result(moved, timeout=MINUTE) == 2
    row = world.row(late.key)
    assert row is not None and row.attempt == 2


def test_a_task_that_did_not_end_well_has_none_and_says_why() -> None:
    """Failed for good, expired, dropped, or cancelled; the message has the key."""
    world = World()
    failed = world.schedule(fails=True)
    dropped = world.schedule(2 * MINUTE, drops=True)
    cancelled = world.schedule(DAY)
    world.client.cancel_task(cancelled.key).result(timeout=1)

    late = world.client.schedule_task(
        Task(
            ordering_id="c-8",
            scheduled_time=world.scheduler.now + MINUTE,
            uniqueness_key="late",
            expires=MINUTE,
        )
    ).result(timeout=1)
    world.scheduler.down_for(timedelta(hours=1))

    with pytest.raises(NoResult, match=r"expired before it was started; retry_task"):
        world.client.wait_result(late)
    with pytest.raises(NoResult, match=r"failed for good: ValueError: no such invoice; retry_task"):
        world.client.wait_result(failed)
    with pytest.raises(NoResult, match=r"was dropped: deleted$"):
        world.client.wait_result(dropped)
    with pytest.raises(NoResult, match="was cancelled") as raised:
        asyncio.run(world.client.aio.wait_result(cancelled))
    assert str(cancelled.key) in str(raised.value)


def test_a_wait_is_bounded_and_says_how_the_task_stands() -> None:
    """Not due yet, and never known."""
    world = World()
    receipt = world.schedule(DAY, value=1)

    with pytest.raises(TimeoutError, match="pending after 60 s"):
        world.client.wait_result(receipt, timeout=MINUTE)
    with pytest.raises(TimeoutError, match="unseen after 1 s"):
        world.client.wait_result(receipt.key._replace(ordering_id="nobody"), timeout=1)
    with pytest.raises(InvalidKey):
        world.client.wait_result("not a key")  # type: ignore[arg-type]


def test_the_receipt_of_a_request_is_refused() -> None:
    """It would end with None, whatever the task returned."""
    world = World()
    at = world.scheduler.now + MINUTE
    task = Task(ordering_id="c-7", scheduled_time=at, uniqueness_key="a", data={"value": 1})
    receipt = world.client.schedule_task(task, unique_for=MINUTE).result(timeout=1)

    with pytest.raises(InvalidKey, match="unique_for"):
        world.client.wait_result(receipt)
    assert world.client.wait_result(task.key, timeout=2 * MINUTE) == 1


def test_a_result_is_kept_for_its_time_and_then_is_gone_not_none() -> None:
    """The rest of the row remembers that there was one; a plain success stays None."""
    world = World()
    receipt, plain = world.schedule(value=1), world.schedule(2 * MINUTE)
    world.scheduler.advance(DAY)
    assert world.client.wait_result(receipt, timeout=0) == 1

    world.scheduler.advance(MINUTE)

    with pytest.raises(ResultGone, match="result_retention_ms"):
        world.client.wait_result(receipt, timeout=0)
    assert world.client.wait_result(plain, timeout=0) is None
    world.client.wait_result(world.schedule(value=2))
    row = world.row(receipt.key)
    assert row is not None and row.body == b""


def test_what_is_deleted_altogether_is_not_found() -> None:
    """Weeks later."""
    world = World()
    receipt = world.schedule(value=1)
    world.scheduler.advance(timedelta(days=20))

    with pytest.raises(TaskNotFound):
        world.client.wait_result(receipt, timeout=0)


def test_a_value_that_is_no_result_fails_the_attempt() -> None:
    """By the policy, with the reason in its history."""
    world = World()
    receipt = world.schedule(value="x" * 65_536)
    world.scheduler.advance(timedelta(hours=1))

    info = world.client.find_task(receipt)

    assert info.state is TaskState.FAILURE
    assert "InvalidResult: the result has 65538 bytes as JSON" in (info.error or "")
    with pytest.raises(NoResult, match="65538 bytes"):
        world.client.wait_result(receipt)


def test_a_sealed_value_is_opened_where_the_key_is() -> None:
    """In the store it is as secret as the data; without the key the error says so."""
    world = World(payloads=PayloadCodecs(AesGcm({"k1": bytes(32)})))
    receipt = world.schedule(value="4111-1111")

    assert world.client.wait_result(receipt) == "4111-1111"
    assert asyncio.run(world.client.aio.wait_result(receipt)) == "4111-1111"
    row = world.row(receipt.key)
    assert row is not None and b"4111" not in row.body
    keyless = World(payloads=PayloadCodecs(AesGcm({"k2": bytes(32)})))
    queries: Any = keyless.client._reads._queries
    with pytest.raises(PayloadSealed, match="key"):
        queries.value(row)


def test_a_found_task_has_its_result_and_a_listed_one_where_it_is_asked_for() -> None:
    """As long as it is kept."""
    world = World()
    receipt = world.schedule(value={"paid": 1})
    world.scheduler.advance(2 * MINUTE)

    assert world.client.find_task(receipt).result == {"paid": 1}
    assert [each.result for each in world.client.list_tasks()] == [None]
    assert [each.result for each in world.client.list_tasks(results=True)] == [{"paid": 1}]

    async def listed() -> list[object]:
        found = world.client.aio.list_tasks(results=True)
        return [each.result async for each in found]

    assert asyncio.run(listed()) == [{"paid": 1}]
    world.scheduler.advance(DAY)
    assert world.client.find_task(receipt).result is None


def test_of_a_sealed_result_that_cannot_be_opened_a_listing_says_why() -> None:
    """It is not taken for none."""
    world = World(payloads=PayloadCodecs(AesGcm({"k1": bytes(32)})))
    receipt = world.schedule(value=1)
    world.scheduler.advance(2 * MINUTE)
    queries: Any = world.client._reads._queries
    queries._payloads = PayloadCodecs(AesGcm({"k2": bytes(32)}))

    info = world.client.find_task(receipt)

    assert info.result is None and "key" in (info.result_sealed or "")
