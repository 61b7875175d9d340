"""A delivery whose owner lets go waits for nobody's decision any more."""

import asyncio
import math

import pytest

from hourhand.actors.model.execution.outcome import Outcome, Retry
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.ports.messages import MessageWriter
from hourhand.scheduler.services.relay.claim_state import DecidedHere, place_of
from hourhand.scheduler.services.relay.delivery import DeliverMessage
from hourhand.scheduler.services.relay.message import Delivery, Message, delivery_task
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.services.system.system_tasks import SystemDependencies
from hourhand.scheduler.tasks.appending import TaskAppender
from hourhand.scheduler.testing import VirtualScheduler

_ID, _PLACE = "id-1", place_of(0, 8)


def _delivery(scheduler: VirtualScheduler) -> DeliverMessage:
    """Make what delivers a message whose claim this process is about to decide."""
    writer = MemoryWriter(scheduler.broker)
    appender = TaskAppender(writer, writer.partition_count())
    count = appender.partition_count
    book = DefinitionBook(scheduler.stores.definitions, count, scheduler.clock)
    dependencies = SystemDependencies(
        appender, book, scheduler.clock, scheduler.telemetry, lambda: math.inf
    )
    decided, now_ms = DecidedHere(), scheduler.clock.monotonic_ms()
    for partition in range(count):
        decided.note_decided(partition, [place_of(0, 7)], now_ms)

    def nothing() -> MessageWriter:
        raise AssertionError("nothing is produced before the claim is decided")

    return DeliverMessage(dependencies, nothing, writer, lambda *_: True, decided)


@pytest.mark.parametrize("before", [False, True], ids=["while it waits", "before it waits"])
def test_a_delivery_that_is_drained_is_tried_again_by_the_next_owner(before: bool) -> None:
    """At once: the decision it waits for may be one that this node cannot make any more."""
    scheduler = VirtualScheduler(executors={})
    delivery = _delivery(scheduler)
    message = Delivery(Message("out", b"k"), id=_ID, place=_PLACE)
    task = delivery_task(scheduler.clock.now_ms(), _PLACE, b"k", message)

    async def drained() -> Outcome | None:
        attempt = asyncio.create_task(delivery.execute(task))
        if not before:
            await asyncio.wait([attempt], timeout=0.0)
        await asyncio.to_thread(delivery.drain)
        async with asyncio.timeout(4.0):
            return await attempt

    assert isinstance(asyncio.run(drained()), Retry)
