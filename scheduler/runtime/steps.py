"""Several answers of store or log, one after another, as one future.

The thread that resolves an answer continues the steps, so neither a thread nor an event loop is
blocked meanwhile. It never sends a request itself.
"""

from collections.abc import Generator
from concurrent.futures import Future
from typing import Any, TypeAlias, TypeVar

from hourhand.scheduler.runtime.light_future import LightFuture

T = TypeVar("T")

Steps: TypeAlias = Generator[Future[Any], Any, T]
"""Yields a future, and is resumed with its result or error."""


def begun(steps: Steps[T]) -> LightFuture[T]:
    """Begin, and return a future of the steps' final result."""
    whole = LightFuture[T]()
    whole.note_process()

    def go_on(done: Future[Any] | None) -> None:
        while True:
            try:
                asked = next(steps) if done is None else _resumed(steps, done)
            except StopIteration as end:
                whole.set_result(end.value)
                return
            except BaseException as error:  # noqa: BLE001 - the future hands it on
                whole.set_exception(error)
                return
            if not asked.done():
                asked.add_done_callback(go_on)
                return
            # In a loop: a store in memory answers at once, and recursion would go deeper with each
            # answer.
            done = asked

    go_on(None)
    return whole


def _resumed(steps: Steps[Any], done: Future[Any]) -> Future[Any]:
    error = done.exception()
    return steps.send(done.result()) if error is None else steps.throw(error)
