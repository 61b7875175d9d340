"""Errors of another process: only their names and texts are known here, not their classes.

Decides nothing.
"""

import signal
from functools import lru_cache

NAMES_MAX = 256


class RemoteError(Exception):
    """The base of errors that represent an error of a process."""


@lru_cache(maxsize=NAMES_MAX)
def _class_named(name: str) -> type[RemoteError]:
    return type(name, (RemoteError,), {"__qualname__": name, "__module__": "builtins"})


def remote_error(name: str | None, message: str | None) -> RemoteError:
    """Return an error that represents one of a class with this name."""
    return _class_named((name or "Exception").replace("\x00", ""))(message or "")


def signal_name(number: int) -> str:
    """Return the name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
