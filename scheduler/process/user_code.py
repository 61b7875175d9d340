"""What holds wherever user code is called on a thread of ours: nothing it raises ends that.

Decides which errors are nobody's fault, and how an executor is asked what it is.
"""

import inspect
import threading
from functools import lru_cache

from actors.ports.runner import Executable


def is_interrupt(error: BaseException) -> bool:
    """Whether an error is the user's Ctrl-C, which Python raises wherever the main thread is."""
    in_main = threading.current_thread() is threading.main_thread()
    return in_main and isinstance(error, KeyboardInterrupt)


def runs_async(executor: Executable) -> bool:
    """Whether ``execute`` is a coroutine function."""
    try:
        return _is_async(type(executor))
    except BaseException:  # noqa: BLE001 - a descriptor; called, it raises again, in an attempt
        return False


def is_coroutine_method(of: type | None, name: str) -> bool:
    """Whether a class has a coroutine function of this name; no code of the class is called."""
    found = None if of is None else inspect.getattr_static(of, name, None)
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    return inspect.iscoroutinefunction(found)


@lru_cache(maxsize=256)
def _is_async(executor: type[Executable]) -> bool:
    """Asked anew it would cost more than a task."""
    return inspect.iscoroutinefunction(executor.execute)
