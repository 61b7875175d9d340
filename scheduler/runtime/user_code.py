"""Rules for calls of user code on threads of ours: none of its errors ends a thread.

Decides which errors are interrupts, and how executors are inspected.
"""

import inspect
import threading
from functools import lru_cache

from hourhand.actors.ports.runner import Executable


def is_interrupt(error: BaseException) -> bool:
    """True if an error is the user's Ctrl-C, which Python raises in the main thread."""
    in_main = threading.current_thread() is threading.main_thread()
    return in_main and isinstance(error, KeyboardInterrupt)


def runs_async(executor: Executable) -> bool:
    """True if ``execute`` is a coroutine function."""
    try:
        return _is_async(type(executor))
    except BaseException:  # noqa: BLE001 - a descriptor; called, it raises again, in an attempt
        return False


def is_coroutine_method(of: type | None, name: str) -> bool:
    """True if a class has a coroutine function of this name; no code of the class is called."""
    found = None if of is None else inspect.getattr_static(of, name, None)
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    return inspect.iscoroutinefunction(found)


@lru_cache(maxsize=256)
def _is_async(executor: type[Executable]) -> bool:
    """Cached: asking again would cost more than a task."""
    return inspect.iscoroutinefunction(executor.execute)
