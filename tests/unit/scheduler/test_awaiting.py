"""Awaiting what other threads resolve."""

import asyncio
import threading
from concurrent.futures import Future

import pytest

from scheduler.awaiting import settled


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
            async with asyncio.timeout(0.001):
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
            async with asyncio.timeout(0.001):
                await settled(future)

    asyncio.run(main())
    future.set_result(1)
    assert future.result() == 1
