"""Single keys of a terminal, for a command that runs until it is stopped.

Decides only how keys are read: at once and unseen, and the terminal is as before afterwards. A
command that is not in the terminal's foreground gets none.
"""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def reads_keys() -> bool:
    """True if standard input is a terminal that this command may read."""
    try:
        number = sys.stdin.fileno()
        # Another process group is stopped by the system when it touches the terminal.
        return os.isatty(number) and os.tcgetpgrp(number) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return False


@contextmanager
def single_keys() -> Iterator[None]:
    """Let the terminal hand over each key at once within the block; Ctrl-C stays a signal."""
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    try:
        tty.setcbreak(number)
        yield
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def call_for_keys(take: Callable[[str], None]) -> None:
    """Call a function for each key on the running loop, until the terminal is closed."""
    loop, number = asyncio.get_running_loop(), sys.stdin.fileno()

    def read() -> None:
        try:
            typed = os.read(number, 100)
        except OSError:
            typed = b""
        if not typed:
            loop.remove_reader(number)
        for key in typed.decode(errors="ignore"):
            take(key)

    loop.add_reader(number, read)
