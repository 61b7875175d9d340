"""A failure that nobody asks for is logged once, when nobody can ask any more."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import wait
from datetime import timedelta

import pytest

from hourhand.actors.model.values.errors import LogUnavailable, TaskInThePast
from hourhand.scheduler.runtime.light_future import LightFuture
from hourhand.scheduler.tasks.receipt import Receipt
from tests.builders import a_task
from tests.garbage import cyclic_garbage
from tests.unit.scheduler.client.client_world import HeldWriter, World

LATE = a_task(due_in_ms=-60_000)


def test_a_refusal_that_nobody_asks_for_is_logged_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With the line of the call, what was wrong, and what to do; without the cyclic collector."""
    world = World(HeldWriter())

    with cyclic_garbage() as found:
        world.client.schedule_task(LATE)
        world.client.pause_recurring("")
        world.client.send_later(None, None, "", timedelta(0))

    texts = [record.getMessage() for record in caplog.records]
    assert ["[task-in-the-past]" in text or "[invalid-task]" in text for text in texts] == [
        True
    ] * 3
    assert all(f"its outcome ({__file__}:" in text for text in texts)
    assert all("call result()" in text for text in texts)
    assert {record.levelno for record in caplog.records} == {logging.ERROR}
    assert not found


def test_a_record_that_the_log_did_not_take_is_logged_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It fails later, and is lost just as much."""
    world = World(HeldWriter())
    world.client.schedule_task(a_task())

    world.writer.futures.pop().set_exception(LogUnavailable("no broker"))

    assert "no broker [log-unavailable]" in caplog.text


def test_nothing_is_said_while_somebody_may_ask(caplog: pytest.LogCaptureFixture) -> None:
    """Only the end of the future tells that nobody will."""
    future = World(HeldWriter()).client.schedule_task(LATE)
    wait([future])

    assert caplog.text == ""
    del future
    assert "task-in-the-past" in caplog.text


async def _awaited(future: LightFuture[Receipt]) -> None:
    await future


async def _wrapped(future: LightFuture[Receipt]) -> None:
    await asyncio.wrap_future(future)


@pytest.mark.parametrize(
    "ask",
    [
        lambda future: future.result(),
        lambda future: future.exception(),
        lambda future: future.add_done_callback(lambda done: done.exception()),
        lambda future: asyncio.run(_awaited(future)),
        lambda future: asyncio.run(_wrapped(future)),
    ],
    ids=["result", "exception", "callback", "await", "wrap_future"],
)
def test_who_asks_is_told_and_the_log_is_not(
    ask: Callable[[LightFuture[Receipt]], object], caplog: pytest.LogCaptureFixture
) -> None:
    """In every way there is to ask."""
    future = World(HeldWriter()).client.schedule_task(LATE)

    with contextlib.suppress(TaskInThePast):
        ask(future)
    del future

    assert caplog.text == ""


def test_what_a_request_is_made_of_is_not_watched(caplog: pytest.LogCaptureFixture) -> None:
    """Only what a user is handed: of the others somebody is told."""
    future = LightFuture[int]()
    future.set_exception(LogUnavailable("no broker"))
    del future

    assert caplog.text == ""
