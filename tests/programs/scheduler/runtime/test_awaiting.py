"""Deadlines of an event loop, which pass."""

import asyncio
import threading
from concurrent.futures import Future

import pytest

from hourhand.scheduler.runtime.awaiting import settled


def test_what_is_not_resolved_in_time_is_waited_for_no_longer() -> None:
    """Each by its own beginning; those in time are not disturbed, nor are the futures."""
    slow: list[Future[int]] = [Future() for _ in range(3)]
    fast: Future[int] = Future()

    async def main() -> list[int | BaseException]:
        waiting = [asyncio.ensure_future(settled(each, 0.01)) for each in (*slow[:2], fast)]
        threading.Thread(target=fast.set_result, args=(7,)).start()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        # The first deadlines are over by then, and what comes later has one of its own.
        with pytest.raises(TimeoutError):
            await settled(slow[2], 0.01)
        return found

    first, second, third = asyncio.run(main())

    assert isinstance(first, TimeoutError)
    assert isinstance(second, TimeoutError)
    assert third == 7
    assert not any(each.done() for each in slow)
