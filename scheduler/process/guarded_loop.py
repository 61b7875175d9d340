"""Work of a thread of ours that goes on whatever one round of it raises.

Decides what is logged of a failure, and that a pause follows; never what a round does.
"""

import logging
import threading
from collections.abc import Callable

from actors.model.errors import HourhandError

FAILED_PAUSE_S = 1.0
"""Between a round that failed and the next one."""


def guarded(
    work: Callable[[], object], what: str, logger: logging.Logger, level: int = logging.WARNING
) -> bool:
    """Do some work; return False where it failed, which is logged as ``what``.

    What an operator can mend is logged at ``level``, everything else as an error of ours.
    """
    try:
        work()
    except HourhandError as error:
        logger.log(level, "%s failed and is tried again: %s", what, error)
    except BaseException:
        # A thread that dies in silence is the worst failure such a system has: others, the group
        # of a log among them, would go on believing in it.
        logger.exception("%s failed and is tried again; please report this", what)
    else:
        return True
    return False


def run_guarded(
    work: Callable[[], object],
    what: str,
    logger: logging.Logger,
    stopped: threading.Event,
    every_s: float = 0.0,
    level: int = logging.WARNING,
) -> None:
    """Do rounds until ``stopped``, ``every_s`` seconds apart, or after a pause if one failed."""
    while not (stopped.wait(every_s) if every_s else stopped.is_set()):
        if not guarded(work, what, logger, level) and not every_s:
            stopped.wait(FAILED_PAUSE_S)
