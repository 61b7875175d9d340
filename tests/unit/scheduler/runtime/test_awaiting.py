"""Awaiting what other threads resolve."""

import asyncio
import gc
import threading
import weakref
from concurrent.futures import Future

import pytest

from hourhand.scheduler.runtime.awaiting import settled
from hourhand.scheduler.runtime.light_future import LightFuture


def test_results_and_failures_of_other_threads_are_awaited() -> None:
    """However many, in whatever order they are resolved."""
    futures: list[Future[int]] = [Future() for _ in range(1_000)]
    failing: Future[int] = Future()

    def resolve() -> None:
        for number, future in reversed(list(enumerate(futures))):
            future.set_result(number)
        failing.set_exception(LookupError("no"))

    async def main() -> list[int]:
        thread = threading.Thread(target=resolve)
        waiting = asyncio.gather(*(settled(future) for future in futures))
        thread.start()
        found = await waiting
        with pytest.raises(LookupError):
            await settled(failing)
        thread.join()
        return found

    assert asyncio.run(main()) == list(range(1_000))


def test_what_is_resolved_already_is_returned_at_once() -> None:
    """Without a turn of the loop."""
    done: Future[int] = Future()
    done.set_result(7)

    with pytest.raises(StopIteration) as returned:
        settled(done).send(None)

    assert returned.value.value == 7


def test_who_stops_waiting_leaves_the_future_alone() -> None:
    """Others may wait for it too; resolved later, it disturbs nobody."""
    future: Future[int] = Future()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await settled(future)
        assert not future.cancelled()
        threading.Thread(target=future.set_result, args=(1,)).start()
        assert await settled(future) == 1

    asyncio.run(main())


def test_a_loop_that_is_gone_is_told_nothing() -> None:
    """Resolving goes on without a complaint."""
    future: Future[int] = Future()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await settled(future)

    asyncio.run(main())
    future.set_result(1)
    assert future.result() == 1


def test_a_deadline_is_no_reason_to_wait_for_it() -> None:
    """What is resolved long before is returned then."""
    future: Future[int] = Future()

    async def main() -> int:
        threading.Thread(target=future.set_result, args=(7,)).start()
        async with asyncio.timeout(60):
            return await settled(future, 3_600)

    assert asyncio.run(main()) == 7


def test_a_loop_that_is_closed_is_freed() -> None:
    """A web framework may make one for each request."""
    future = LightFuture[int]()
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def main() -> int:
        loop = asyncio.get_running_loop()
        loops.append(weakref.ref(loop))
        # Once the await below has begun.
        loop.call_soon(future.set_result, 1)
        return await settled(future, 60)

    asyncio.run(main())
    gc.collect()

    assert loops[0]() is None
