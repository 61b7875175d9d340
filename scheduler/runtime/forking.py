"""Objects of a parent in a forked process, which must not use, close or free them.

Threads do not survive a fork, and connections are the parent's: a record appended here would never
be acknowledged, and even closing or freeing a connection here would break the parent's. Decides
when a process is a child; the objects decide what they refuse then.
"""

import ctypes
import os
import sys
import traceback
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from hourhand.actors.model.values.errors import UsedAfterFork


class _Process:
    """Identifies this process among those from which it was forked."""

    generation = 0
    """Grows by one in each child, so that an object can tell whether it belongs to this process."""


process = _Process()

ADVICE = (
    "open one client in each process, after the fork: in gunicorn's post_fork, uWSGI's @postfork,"
    " Celery's worker_process_init, or the function that multiprocessing calls"
)


class LeftBehind(Protocol):
    """An object that is told in the child that it was left behind."""

    def after_fork(self) -> None:
        """Refuse all calls from now on, without a lock that another thread may have held."""


_of_process: "weakref.WeakSet[LeftBehind]" = weakref.WeakSet()
_renewed: list[Callable[[], None]] = []


def bind(resource: LeftBehind) -> None:
    """Call ``after_fork`` of an object in each child that has a copy of it."""
    _of_process.add(resource)


def in_child(renew: Callable[[], None]) -> None:
    """Call a function first in each child: for a lock that a thread may have held."""
    _renewed.append(renew)


def refusal(what: str) -> UsedAfterFork:
    """Return the error of an object that was opened before the fork."""
    return UsedAfterFork(
        f"{what} was opened before this process, {os.getpid()}, was forked, and its threads and"
        f" connections stayed behind; {ADVICE}"
    )


def end_child(born: int, error: BaseException | None = None) -> None:
    """End this process if it is a child that user code has forked off since ``born``.

    It ends with the call that forked it, as it would in a thread of the user's own: no other part
    of a node may run there. Called before anything that takes a lock.
    """
    if process.generation != born:
        code = 1
        # The child may have closed its streams.
        with suppress(BaseException):
            code = _exit_code(error)
        for stream in (sys.stdout, sys.stderr):
            with suppress(BaseException):
                stream.flush()
        os._exit(code)


def _exit_code(error: BaseException | None) -> int:
    """Return Python's exit code for an error, and print as Python does."""
    if error is None:
        return 0
    if not isinstance(error, SystemExit):
        traceback.print_exception(error)
        return 1
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    print(error.code, file=sys.stderr)  # noqa: T201 - as the interpreter does
    return 1


def _enter_child() -> None:
    process.generation += 1
    for renew in _renewed:
        renew()
    for resource in tuple(_of_process):
        # Never freed: that would close the parent's connections, or wait for threads that do not
        # exist here. Only this keeps an object beyond the end of the interpreter.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(resource))
        resource.after_fork()
    _of_process.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enter_child)
