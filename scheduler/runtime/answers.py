"""Waits for an answer of the store or the log: bounded, and with one error.

Decides how long a thread waits that can do nothing else. A limit that follows from a setting is its
caller's.
"""

from concurrent.futures import Future
from typing import TypeVar

from hourhand.actors.model.values.errors import StoreUnavailable

LOOK_S = 10.0
"""Seconds for figures that change all the time and are read again soon."""
REQUEST_S = 30.0
"""Seconds for a request of a person or a program."""
JOB_S = 120.0
"""Seconds for a job over all stored data, which may keep the store busy itself."""

Answer = TypeVar("Answer")


def answered(
    future: "Future[Answer]", limit_s: float = REQUEST_S, who: str = "store or log"
) -> Answer:
    """Return the answer of ``who``; StoreUnavailable after ``limit_s`` seconds."""
    try:
        return future.result(limit_s)
    except TimeoutError:
        raise _unanswered(limit_s, who) from None


async def awaited_answer(future: "Future[Answer]", limit_s: float = REQUEST_S) -> Answer:
    """Return the answer of store or log, awaited; StoreUnavailable as ``answered``."""
    # Imported here: a program that never awaits need not load asyncio.
    from hourhand.scheduler.runtime.awaiting import settled

    try:
        return await settled(future, limit_s)
    except TimeoutError:
        raise _unanswered(limit_s, "store or log") from None


def _unanswered(limit_s: float, who: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"{who} did not answer within {limit_s:g} s: see whether store and log run, then try"
        " again, which is safe"
    )
