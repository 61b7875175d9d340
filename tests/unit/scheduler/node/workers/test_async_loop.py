"""The event loop of async attempts: what it leaves open when it ends."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import CancelledError, Future
from contextvars import ContextVar
from functools import partial

import pytest

from hourhand.scheduler.node.workers.async_loop import LoopThread

WAIT_S = 60.0


def test_a_generator_that_is_left_is_closed_with_the_loop() -> None:
    """Connections that are kept between attempts are held by one."""
    opened, closed = Future[None](), Future[None]()

    async def kept() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            closed.set_result(None)

    left = kept()

    async def job() -> None:
        await anext(left)
        opened.set_result(None)

    loop = LoopThread(1)
    loop.submit(job, lambda: None)
    opened.result(WAIT_S)
    loop.close()

    assert closed.result(WAIT_S) is None


def test_a_loop_is_closed_whatever_user_code_has_left_on_it() -> None:
    """What raises out of the loop while it ends is one step of its end, not all of it."""
    found, is_closing = Future[asyncio.AbstractEventLoop](), threading.Event()

    async def left(error: type[BaseException]) -> None:
        try:
            await asyncio.Future()
        finally:
            asyncio.get_running_loop().stop()
            raise error

    def cancel_in_the_end(task: "asyncio.Task[None]", rounds: int) -> None:
        if rounds:
            again = asyncio.get_running_loop().call_soon
            again(cancel_in_the_end, task, rounds - is_closing.is_set())
        else:
            task.cancel()

    async def job() -> None:
        loop = asyncio.get_running_loop()
        for error in (SystemExit, KeyboardInterrupt):
            # Each is cancelled in a round of the loop's end.
            loop.call_soon(cancel_in_the_end, loop.create_task(left(error)), 4)
        found.set_result(loop)

    loop = LoopThread(1)
    loop.submit(job, lambda: None)
    found.result(WAIT_S)
    thread = loop._thread
    assert thread is not None
    is_closing.set()
    loop.close()
    thread.join(WAIT_S)

    assert found.result().is_closed()


@pytest.mark.parametrize("swallows", [False, True])
def test_a_thread_waits_for_no_awaitable_of_a_loop_that_has_ended(*, swallows: bool) -> None:
    """What is awaited is cancelled with all else, whether it obeys or not."""
    loop, begun = LoopThread(1), Future[None]()

    async def awaited() -> None:
        begun.set_result(None)
        try:
            await asyncio.Future()
        except asyncio.CancelledError:
            if swallows:
                await asyncio.Future()

    outcome = loop.begin(awaited(), None)
    begun.result(WAIT_S)
    loop.close()

    if swallows:
        with pytest.raises(CancelledError):
            outcome.result(WAIT_S)
    else:
        assert outcome.result(WAIT_S) is None


def test_a_job_that_is_cancelled_before_its_first_step_is_told_of() -> None:
    """User code cancels all tasks of the loop, as a common snippet does to clean up."""
    loop, begun, go = LoopThread(2), Future[None](), Future[None]()
    lost = [Future[None]() for _ in range(4)]

    async def cancelling() -> None:
        begun.set_result(None)
        # On purpose it blocks the loop: what is submitted meanwhile has not begun.
        go.result(WAIT_S)
        await one_turn()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def never() -> None:
        raise AssertionError("it was cancelled")

    loop.submit(cancelling, lambda: None)
    begun.result(WAIT_S)
    loop.submit(_forever, lambda: None)
    for each in lost:
        loop.submit(never, partial(each.set_result, None))
    go.set_result(None)

    # The first of them had a slot before the others were cancelled, or was cancelled itself.
    assert [each.result(WAIT_S) for each in lost[1:]] == [None] * 3
    loop.close()


def test_a_job_without_a_slot_that_is_cancelled_is_told_of_too() -> None:
    """A system task that waits for others takes none."""
    loop, begun, go, lost = LoopThread(1), Future[None](), Future[None](), Future[None]()

    async def cancelling() -> None:
        begun.set_result(None)
        go.result(WAIT_S)
        # What is posted meanwhile becomes a task in the next turn, and begins in the one after.
        asyncio.get_running_loop().call_soon(
            lambda: [each.cancel() for each in asyncio.all_tasks()]
        )

    loop.submit(cancelling, lambda: None)
    begun.result(WAIT_S)
    loop.submit(_forever, partial(lost.set_result, None), slotted=False)
    go.set_result(None)

    lost.result(WAIT_S)
    loop.close()


@pytest.mark.parametrize("refused", [2, 4])
def test_a_loop_that_found_no_thread_begins_once_there_is_one(
    monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    """What was submitted meanwhile runs, and timers go off, without anything new."""
    starts = iter([*[True] * refused, *[False] * 10])
    start = threading.Thread.start

    def short(thread: threading.Thread) -> None:
        if thread.name == "hourhand-async" and next(starts):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", short)
    loop, ran, rang = LoopThread(1), Future[None](), Future[None]()

    async def job() -> None:
        ran.set_result(None)

    loop.submit(job, lambda: None)
    loop.call_later(0, partial(rang.set_result, None))
    assert not ran.done() and not rang.done()
    for _ in range(refused):
        loop.nudge()

    assert ran.result(WAIT_S) is None and rang.result(WAIT_S) is None
    loop.close()


def test_a_job_has_a_context_of_its_own() -> None:
    """Whoever's context it was submitted or begun from."""
    mark: ContextVar[str] = ContextVar("mark", default="none")
    loop, seen = LoopThread(1), [Future[str]() for _ in range(2)]

    async def inner() -> None:
        seen[1].set_result(mark.get())

    async def outer() -> None:
        seen[0].set_result(mark.get())
        mark.set("of the first job")
        loop.submit(inner, lambda: None)

    mark.set("of the thread that submits")
    loop.submit(outer, lambda: None)

    assert [each.result(WAIT_S) for each in seen] == ["none", "none"]
    loop.close()


def test_no_more_wait_for_a_slot_than_find_none() -> None:
    """What a blocked loop has not looked at waits for the loop."""
    loop, begun, go = LoopThread(2), Future[None](), Future[None]()

    async def blocking() -> None:
        begun.set_result(None)
        go.result(WAIT_S)

    loop.submit(blocking, lambda: None)
    begun.result(WAIT_S)
    for _ in range(5):
        loop.submit(_forever, lambda: None)

    assert loop.load() == (6, 0)
    go.set_result(None)
    loop.close()


async def one_turn() -> None:
    """Let the loop do what else is ready."""
    turned = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(turned.set_result, None)
    await turned


async def _forever() -> None:
    await asyncio.get_running_loop().create_future()
