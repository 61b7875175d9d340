"""Waiting for an answer of the store or the log: bounded, and refused in one way.

Decides how long a thread waits that can do nothing else, and what it is told then.  A limit that
follows from a setting, or from what waits behind it, stays with whoever knows it.
"""

from concurrent.futures import Future
from typing import TypeVar

from actors.model.errors import StoreUnavailable

LOOK_S = 10.0
"""For what changes all the time and is looked at again soon."""
REQUEST_S = 30.0
"""For what a person or a program asked for."""
JOB_S = 120.0
"""For a job over all that is stored, which may keep the store busy itself."""

Answer = TypeVar("Answer")


def answered(
    future: "Future[Answer]", limit_s: float = REQUEST_S, who: str = "store or log"
) -> Answer:
    """Return the answer of ``who``; StoreUnavailable where it takes longer than ``limit_s``."""
    try:
        return future.result(limit_s)
    except TimeoutError:
        raise _unanswered(limit_s, who) from None


async def awaited_answer(future: "Future[Answer]", limit_s: float = REQUEST_S) -> Answer:
    """Return the answer of store or log, awaited; StoreUnavailable as ``answered``."""
    # A program that never awaits need not load asyncio.
    from scheduler.futures.awaiting import settled

    try:
        return await settled(future, limit_s)
    except TimeoutError:
        raise _unanswered(limit_s, "store or log") from None


def _unanswered(limit_s: float, who: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"{who} did not answer within {limit_s:g} s: see whether store and log run, then try"
        " again, which is safe"
    )
