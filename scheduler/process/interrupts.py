"""What an interrupt does to a command: one handler, from before its imports to its last moment.

Decides that SIGINT and SIGTERM end a process with exit code 130: at once where nothing has
begun or all is let go, and by an exception, behind which everything is tidied up, in between.
It loads nothing, as there is no moment before it that could be left to Python's own handler.
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

    Not KeyboardInterrupt itself: Python notes when that leaves an ``exec`` or ``eval`` of text, and
    then ends by the signal whatever exit code was chosen. Imports made on the way do such things.
    """


class _Taken:
    """What this process does with an interrupt; there is one process."""

    raises = False
    """Something may have to be tidied up; elsewhere the process is left at once."""
    held = 0
    """Blocks under way that no exception may cut in two."""
    waiting = 0
    """The signal that came meanwhile."""


def take_interrupts() -> None:
    """Take SIGINT and SIGTERM from here on; until ``raised_within`` they leave at once.

    A SIGINT that whoever started the process had ignored stays ignored.
    """
    for number in _NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    sys.unraisablehook = _raise_again
    # The first to be registered is the last to be called: behind it Python would put back the
    # system's own handlers, while it still takes its modules apart.
    atexit.register(_ignore_interrupts)


@contextmanager
def raised_within() -> Iterator[None]:
    """Have an interrupt raise ``Interrupted`` within the block."""
    before = _Taken.raises
    try:
        _Taken.raises = True
        yield
    finally:
        _Taken.raises = before


@contextmanager
def interruptible() -> Iterator[None]:
    """Take both signals within the block, also a SIGINT that a shell had ignored, and raise."""
    with signals_taken_by(interrupt), raised_within():
        yield


@contextmanager
def signals_taken_by(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Have a function take both signals within the block, which is the main thread's."""
    before = {number: signal.signal(number, handler) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, known in before.items():
            signal.signal(number, known)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Have an interrupt wait for the end of the block: what makes or removes something whole."""
    _Taken.held += 1
    try:
        yield
    finally:
        _Taken.held -= 1
        if _Taken.waiting and not _Taken.held:
            number, _Taken.waiting = _Taken.waiting, 0
            raise Interrupted(number)


def interrupt(number: int, frame: FrameType | None = None) -> None:
    """Do what an interrupt does now; a handler of signals."""
    del frame
    if _Taken.held:
        _Taken.waiting = number
    elif _Taken.raises:
        raise Interrupted(number)
    else:
        os._exit(EXIT_INTERRUPTED)


def _raise_again(failed: "sys.UnraisableHookArgs") -> None:
    """Give an interrupt back that hit a callback out of which Python raises nothing.

    Another thread does, or it would hit this function.
    """
    if isinstance(failed.exc_value, Interrupted):
        _thread.start_new_thread(_thread.interrupt_main, (failed.exc_value.args[0],))
    else:
        sys.__unraisablehook__(failed)


def _ignore_interrupts() -> None:
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_IGN)
