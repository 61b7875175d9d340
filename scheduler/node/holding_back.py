"""Partitions whose tree wants no more for now: the log delivers nothing of them, and of no other.

Decides what the log is told, and when again; never which partitions are held.
"""

import logging
import threading
from collections.abc import Collection, Mapping

from actors.model.errors import HourhandError
from actors.ports.log import TaskLog
from scheduler.node.holdings import Holding, Stage

logger = logging.getLogger("hourhand.node")


def hold_back(
    log: TaskLog,
    holdings: Mapping[int, Holding],
    held: Collection[int],
    lock: "threading.RLock",
) -> None:
    """Tell the log what has changed, on the polling thread and without the lock.

    What it refuses is told again in the next round.
    """
    with lock:
        running = [each for each in holdings.values() if each.stage is Stage.RUNNING]
        changed = [each for each in running if each.held_back != (each.partition in held)]
    for holding in changed:
        begins = not holding.held_back
        try:
            log.seek(holding.partition, None if begins else holding.reached_offset)
        except HourhandError as error:
            logger.warning("partition %d: %s; tried again", holding.partition, error)
        else:
            holding.held_back = begins
