"""Waiting, for a bounded time, for what owners make of what they were asked for.

Decides how often the store is looked at; never whether something was decided.
"""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TypeVar

from actors.ports.clock import Clock

ACKNOWLEDGED_S = 60.0
"""So long the log may take to acknowledge a record, and the store to answer."""
_LOOK_PAUSE_S = 0.05

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


def await_decisions(
    asked: Iterable[Asked],
    look: "Callable[[Asked], Future[Answer]]",
    is_decided: Callable[[Asked, Answer], bool],
    wait_s: float,
    clock: Clock,
) -> None:
    """Look for each until it is decided or ``wait_s`` is over; at least once."""
    deadline_ms = clock.monotonic_ms() + wait_s * 1000
    left = list(asked)
    pause = threading.Event()
    while left:
        looking = [(each, look(each)) for each in left]
        left = [
            each
            for each, future in looking
            if not is_decided(each, future.result(timeout=ACKNOWLEDGED_S))
        ]
        if clock.monotonic_ms() >= deadline_ms:
            return
        if left:
            pause.wait(_LOOK_PAUSE_S)
