"""Bounds the closing of a client of the driver, which may never return: a client without brokers
waits in its ``close`` for an answer that will not come.

Decides only the time limit.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from hourhand.scheduler.runtime.light_future import resolve

logger = logging.getLogger("hourhand.kafka")

CLIENT_CLOSE_S = 5.0
"""Seconds for a client that is not a member: more than the wait for an answer under way."""


def close_within(close: Callable[[], object], timeout_s: float) -> bool:
    """Call ``close`` on a thread of its own and wait for it; return True if it ended in time.

    Raises the errors of ``close``. A call that does not end stays on a daemon thread, which ends
    with the process; the group notices a member's end when its session expires.
    """
    closed: Future[object] = Future()
    threading.Thread(
        target=resolve, args=(closed, close), name="hourhand-closing", daemon=True
    ).start()
    try:
        closed.result(timeout_s)
    except FutureTimeoutError:
        logger.warning(
            "a client of the Kafka driver did not close within %g s and is left behind: are the"
            " brokers gone?",
            timeout_s,
        )
        return False
    return True


def close_client(client: Any) -> bool:
    """Close a client that is not a member of a group within ``CLIENT_CLOSE_S``.

    It has no group to leave, but has been seen to wait for its brokers.
    """
    return close_within(client.close, CLIENT_CLOSE_S)
