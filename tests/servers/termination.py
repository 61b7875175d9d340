"""What SIGTERM does to a program that has servers: it tidies up as Ctrl-C does, once.

Decides nothing about what is tidied up: that is for the blocks which the exception leaves.
"""

import signal
from types import FrameType


def terminate_as_interrupt() -> None:
    """Make SIGTERM raise KeyboardInterrupt from here on, and nothing where another follows.

    ``timeout`` sends two, to the program and to its group; the second one must not interrupt what
    the first has begun: servers would stay behind.
    """
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Not SIG_IGN, which a program that is started meanwhile would inherit.
    signal.signal(signal.SIGTERM, _ignore)
    signal.default_int_handler(number, frame)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    pass
