"""Requests that go together: while one batch is under way, those that come wait for the next.

So whoever answers slowly gets larger requests, not more.  Decides what goes together and in which
order; never what a request is, and it sends nothing again.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from scheduler.futures.light_future import LightFuture, failed

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class Batcher(Generic[Asked, Answer]):
    """Requests of one kind, in the order in which they came; used from any thread."""

    def __init__(
        self, send: "Callable[[Sequence[Asked]], Future[Sequence[Answer]]]", requests_max: int
    ) -> None:
        """``send`` sends up to ``requests_max`` of them, and is answered with one answer each."""
        self._send = send
        self._requests_max = requests_max
        self._lock = threading.Lock()
        self._waiting: list[tuple[Asked, LightFuture[Answer]]] = []
        self._sent = 0
        """How many are in the batch under way."""

    @property
    def unanswered(self) -> int:
        """How many requests wait or are under way."""
        with self._lock:
            return len(self._waiting) + self._sent

    def ask(self, asked: Asked) -> "Future[Answer]":
        """Ask now, or with the next batch."""
        # Running from the start: nobody can take back what others wait for too.
        future = LightFuture[Answer]()
        with self._lock:
            self._waiting.append((asked, future))
            if self._sent:
                return future
            batch = self._taken()
        self._begin(batch)
        return future

    def _taken(self) -> "list[tuple[Asked, LightFuture[Answer]]]":
        """Return what goes next; under the lock."""
        batch = self._waiting[: self._requests_max]
        self._waiting = self._waiting[self._requests_max :]
        self._sent = len(batch)
        return batch

    def _begin(self, batch: "list[tuple[Asked, LightFuture[Answer]]]") -> None:
        try:
            sent = self._send([asked for asked, _ in batch])
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever asked
            sent = failed(error)
        sent.add_done_callback(lambda done: self._settle(batch, done))

    def _settle(
        self, batch: "list[tuple[Asked, LightFuture[Answer]]]", done: "Future[Sequence[Answer]]"
    ) -> None:
        # The next batch first: what follows from these answers may take a while.
        with self._lock:
            following = self._taken()
        if following:
            self._begin(following)
        error = done.exception()
        if error is not None:
            for _, future in batch:
                future.set_exception(error)
            return
        for (_, future), answer in zip(batch, done.result(), strict=True):
            future.set_result(answer)
