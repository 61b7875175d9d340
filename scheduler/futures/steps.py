"""What takes several answers of store or log, one after another, as one future.

Decides who goes on with it: whichever thread resolves what it waits for.  So nobody is blocked
meanwhile, a thread as little as an event loop.  It never asks for anything itself.
"""

from collections.abc import Generator
from concurrent.futures import Future
from typing import Any, TypeAlias, TypeVar

from scheduler.futures.light_future import LightFuture

T = TypeVar("T")

Steps: TypeAlias = Generator[Future[Any], Any, T]
"""Yields a future, and is resumed with its result, or with what it failed with."""


def begun(steps: Steps[T]) -> LightFuture[T]:
    """Begin, and return a future of what the steps return in the end."""
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
            # In a loop: a store in memory answers at once, and each answer would go deeper.
            done = asked

    go_on(None)
    return whole


def _resumed(steps: Steps[Any], done: Future[Any]) -> Future[Any]:
    error = done.exception()
    return steps.send(done.result()) if error is None else steps.throw(error)
