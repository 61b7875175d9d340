"""Waiting for several futures without a thread that waits."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any


def gather(futures: Sequence[Future[Any]]) -> Future[tuple[Any, ...]]:
    """Return a future of all results, in order; it fails with the first failure."""
    gathered: Future[tuple[Any, ...]] = Future()
    if not futures:
        gathered.set_result(())
        return gathered
    lock = threading.Lock()
    waiting = len(futures)
    held = list(futures)

    def finish_one(_done: Future[Any]) -> None:
        nonlocal waiting
        with lock:
            assert waiting > 0, "a future ends once"
            waiting -= 1
            if waiting:
                return
        # Only when all have ended: a retry must not overlap requests that are still under way.
        try:
            results = tuple(future.result() for future in held)
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller
            gathered.set_exception(error)
        else:
            gathered.set_result(results)
        finally:
            # Each future holds this function, which must not hold them: only the cyclic collector
            # could free them then, which stops the process.
            held.clear()

    for future in futures:
        future.add_done_callback(finish_one)
    return gathered
