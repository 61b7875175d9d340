"""Requests that go together: while one batch is under way, further ones wait for the next.

So a slow server gets larger requests, not more of them. Decides only grouping and order; it does
not know the requests, and never repeats one.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar

from hourhand.scheduler.runtime.light_future import LightFuture, failed

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class Answered(Protocol):
    """Gets the answer to a request, or to each of several: once a request, in their order."""

    def set_result(self, result: Any) -> None:
        """Handle an answer."""

    def set_exception(self, exception: BaseException) -> None:
        """Handle the error of a request."""


class Batcher(Generic[Asked, Answer]):
    """Requests of one kind, in the order in which they came; used from any thread."""

    def __init__(
        self, send: "Callable[[Sequence[Asked]], Future[Sequence[Answer]]]", requests_max: int
    ) -> None:
        """``send`` sends up to ``requests_max`` of them, and returns one answer for each."""
        self._send = send
        self._requests_max = requests_max
        self._lock = threading.Lock()
        self._waiting: list[tuple[Asked, Answered]] = []
        self._sent = 0
        """Number of requests in the batch under way."""

    @property
    def unanswered(self) -> int:
        """Number of requests that wait or are under way."""
        with self._lock:
            return len(self._waiting) + self._sent

    def ask(self, asked: Asked) -> "Future[Answer]":
        """Send the request now, or with the next batch."""
        # Running from the start: it cannot be cancelled, because others wait for it too.
        future = LightFuture[Answer]()
        self.ask_for(asked, future)
        return future

    def ask_for(self, asked: Asked, answered: Answered) -> None:
        """Send the request now, or with the next batch, and call ``answered``."""
        with self._lock:
            self._waiting.append((asked, answered))
            if self._sent:
                return
            batch = self._taken()
        self._settle_later(batch, self._begun(batch))

    def _taken(self) -> list[tuple[Asked, Answered]]:
        """Return the next requests; called with the lock held."""
        batch = self._waiting[: self._requests_max]
        self._waiting = self._waiting[self._requests_max :]
        self._sent = len(batch)
        return batch

    def _begun(self, batch: list[tuple[Asked, Answered]]) -> "Future[Sequence[Answer]]":
        try:
            return self._send([asked for asked, _ in batch])
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever asked
            return failed(error)

    def _settle_later(
        self, batch: list[tuple[Asked, Answered]], sent: "Future[Sequence[Answer]]"
    ) -> None:
        sent.add_done_callback(lambda done: self._settle(batch, done))

    def _settle(
        self, batch: list[tuple[Asked, Answered]], done: "Future[Sequence[Answer]]"
    ) -> None:
        # The next batch is sent before these answers are settled, because their callbacks may take
        # a while; answers are settled in the order of their requests.
        with self._lock:
            following = self._taken()
        sent = self._begun(following) if following else None
        try:
            _tell(batch, done)
        finally:
            if sent is not None:
                self._settle_later(following, sent)


def _tell(batch: Sequence[tuple[object, Answered]], done: "Future[Sequence[Any]]") -> None:
    error = done.exception()
    if error is not None:
        for _, answered in batch:
            answered.set_exception(error)
        return
    for (_, answered), answer in zip(batch, done.result(), strict=True):
        answered.set_result(answer)
