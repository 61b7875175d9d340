"""The handler of interrupts for a command, from before its imports to its last moment.

SIGINT and SIGTERM end a process with exit code 130: at once if nothing has begun or everything is
closed, and otherwise by an exception, after which everything is cleaned up. This module imports
nothing else of ours, because Python's own handler would serve until then.
"""

import _thread
import atexit
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_INTERRUPTED = 130
_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """The command was interrupted.

    It is not KeyboardInterrupt: Python notes when that leaves an ``exec`` or ``eval`` of text, and
    then ends by the signal with another exit code. Imports on the way do such things.
    """


class _Taken:
    """The state of this process's interrupts; a process has one."""

    raises = False
    """True if an interrupt raises an exception; otherwise the process ends at once."""
    held = 0
    """Number of running blocks that no exception may interrupt."""
    waiting = 0
    """The signal that came meanwhile."""


def take_interrupts() -> None:
    """Take SIGINT and SIGTERM from here on; until ``raised_within`` they end the process at once.

    A SIGINT that was ignored at the start of the process stays ignored.
    """
    for number in _NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    sys.unraisablehook = _raise_again
    # Registered first, so called last: after it Python would restore the system's own handlers,
    # while it still takes its modules apart.
    atexit.register(_ignore_interrupts)


@contextmanager
def raised_within() -> Iterator[None]:
    """Let an interrupt raise ``Interrupted`` within the block."""
    before = _Taken.raises
    try:
        _Taken.raises = True
        yield
    finally:
        _Taken.raises = before


@contextmanager
def interruptible() -> Iterator[None]:
    """Let both signals raise within the block, even a SIGINT that a shell had ignored."""
    with signals_taken_by(interrupt), raised_within():
        yield


@contextmanager
def signals_taken_by(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Make a function the handler of both signals within the block, in the main thread."""
    before = {number: signal.signal(number, handler) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, known in before.items():
            signal.signal(number, known)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Delay interrupts to the end of the block, which makes or removes something as a whole."""
    _Taken.held += 1
    try:
        yield
    finally:
        _Taken.held -= 1
        if _Taken.waiting and not _Taken.held:
            number, _Taken.waiting = _Taken.waiting, 0
            raise Interrupted(number)


def interrupt(number: int, frame: FrameType | None = None) -> None:
    """Handle an interrupt by the current state; a handler of signals."""
    del frame
    if _Taken.held:
        _Taken.waiting = number
    elif _Taken.raises:
        raise Interrupted(number)
    else:
        os._exit(EXIT_INTERRUPTED)


def _raise_again(failed: "sys.UnraisableHookArgs") -> None:
    """Raise an interrupt again that hit a callback out of which Python raises nothing.

    Another thread does this, or the interrupt would hit this function.
    """
    if isinstance(failed.exc_value, Interrupted):
        _thread.start_new_thread(_thread.interrupt_main, (failed.exc_value.args[0],))
    else:
        sys.__unraisablehook__(failed)


def _ignore_interrupts() -> None:
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_IGN)
