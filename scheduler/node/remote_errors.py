"""Errors of another process: known by name and text, as nothing of their class is here.

Decides nothing.
"""

import signal
from functools import lru_cache

NAMES_MAX = 256


class RemoteError(Exception):
    """Base of what stands for an error that was raised in a process."""


@lru_cache(maxsize=NAMES_MAX)
def _class_named(name: str) -> type[RemoteError]:
    return type(name, (RemoteError,), {"__qualname__": name, "__module__": "builtins"})


def remote_error(name: str | None, message: str | None) -> RemoteError:
    """Return what stands for an error of a class that has this name."""
    return _class_named((name or "Exception").replace("\x00", ""))(message or "")


def signal_name(number: int) -> str:
    """Return what a signal is called."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
