"""Work of a thread of ours that continues after any error of a round.

Decides the log line for a failure, and the pause after it.
"""

import logging
import threading
from collections.abc import Callable

from hourhand.actors.model.values.errors import HourhandError

FAILED_PAUSE_S = 1.0
"""Pause between a failed round and the next one."""


def guarded(
    work: Callable[[], object], what: str, logger: logging.Logger, level: int = logging.WARNING
) -> bool:
    """Do some work; return False if it failed, which is logged as ``what``.

    A failure that an operator can fix is logged at ``level``, everything else as an error of ours.
    """
    try:
        work()
    except HourhandError as error:
        logger.log(level, "%s failed and is tried again: %s", what, error)
    except BaseException:
        # A thread that dies silently is the worst failure of such a system: others, including the
        # group of a log, would go on relying on it.
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
