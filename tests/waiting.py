"""Waiting, bounded, for what other threads and processes do."""

from collections.abc import Callable
from threading import Event


def until(
    holds: Callable[[], object],
    what: str = "it was never seen",
    *,
    timeout_s: float = 60.0,
    look_s: float = 0.05,
) -> None:
    """Look again and again until something holds; AssertionError where it never does."""
    pause = Event()
    for _ in range(round(timeout_s / look_s)):
        if holds():
            return
        pause.wait(look_s)
    raise AssertionError(what)
