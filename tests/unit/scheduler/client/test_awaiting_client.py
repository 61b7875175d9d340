"""What a client returns can be awaited, whatever was asked."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta

import pytest

from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.actors.ports.log import Position
from hourhand.scheduler.client.client import Receipt, SchedulerClient
from hourhand.scheduler.runtime.light_future import LightFuture
from tests.builders import NOW, a_key, a_task
from tests.unit.scheduler.client.client_world import HeldWriter, World

_RULE = timedelta(hours=1)


def with_schedule(client: SchedulerClient) -> SchedulerClient:
    """Set the schedule that is changed."""
    client.schedule_recurring("each-hour", every=_RULE)
    return client


Ask = Callable[[SchedulerClient], LightFuture[Receipt]]

CALLS: dict[str, Ask] = {
    "schedule_task": lambda client: client.schedule_task(a_task()),
    "cancel_task": lambda client: client.cancel_task(a_key()),
    "reschedule_task": lambda client: client.reschedule_task(a_key(), NOW + _RULE),
    "run_task_now": lambda client: client.run_task_now(a_key()),
    "drop_task": lambda client: client.drop_task(a_key()),
    "retry_task": lambda client: client.retry_task(a_key()),
    "send_later": lambda client: client.send_later(b"k", b"v", "topic-of-others", _RULE),
    "schedule_recurring": lambda client: client.schedule_recurring("each-hour", every=_RULE),
    "pause_recurring": lambda client: with_schedule(client).pause_recurring("each-hour"),
    "resume_recurring": lambda client: with_schedule(client).resume_recurring("each-hour"),
    "trigger_recurring": lambda client: with_schedule(client).trigger_recurring("each-hour"),
    "delete_recurring": lambda client: with_schedule(client).delete_recurring("each-hour"),
}


def acknowledge_from_another_thread(index: int, future: "Future[Position]") -> None:
    """Settle a record as a driver's thread does."""
    threading.Thread(target=future.set_result, args=(Position(0, index),)).start()


@pytest.mark.parametrize("name", CALLS)
def test_a_receipt_is_awaited_in_a_coroutine(name: str) -> None:
    """Without a wrapper, and without blocking the event loop."""
    world = World(HeldWriter(acknowledge_from_another_thread))

    async def main() -> Receipt:
        return await CALLS[name](world.client)

    receipt = asyncio.run(main())

    assert (receipt.partition, receipt.offset) == (0, len(world.writer.records) - 1)


def test_what_the_log_refuses_is_raised_where_it_is_awaited() -> None:
    """As ``result()`` does."""

    def fail(_index: int, future: "Future[Position]") -> None:
        future.set_exception(LogUnavailable("no broker"))

    world = World(HeldWriter(fail))

    async def main() -> None:
        with pytest.raises(LogUnavailable):
            await world.client.schedule_task(a_task())

    asyncio.run(main())


def test_who_stops_waiting_recalls_nothing() -> None:
    """The record is on its way, and whoever asks the same future again hears of it."""
    world = World(HeldWriter())

    async def main() -> Receipt:
        future = world.client.schedule_task(a_task())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await future
        world.writer.futures[0].set_result(Position(2, 40))
        return await future

    assert asyncio.run(main()) == Receipt(a_task().key, 2, 40)
