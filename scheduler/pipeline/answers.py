"""Waiting for a store's or a log's answer, bounded; knows no Spark."""

from concurrent.futures import Future
from typing import TypeVar

from actors.model.errors import StoreUnavailable

ANSWER_TIMEOUT_S = 120.0
_Answer = TypeVar("_Answer")


def wait_for(future: "Future[_Answer]") -> _Answer:
    """Return an answer; StoreUnavailable where it takes too long."""
    try:
        return future.result(ANSWER_TIMEOUT_S)
    except TimeoutError:
        raise StoreUnavailable(
            f"store or log gave no answer within {ANSWER_TIMEOUT_S:.0f} s: see whether they"
            " run, then run the job once more, which is safe"
        ) from None
