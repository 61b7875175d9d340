"""The event loop of async attempts: what it leaves open when it ends."""

from collections.abc import AsyncGenerator
from concurrent.futures import Future

from scheduler.node.async_loop import LoopThread

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
    loop.submit(job)
    opened.result(WAIT_S)
    loop.close()

    assert closed.result(WAIT_S) is None
