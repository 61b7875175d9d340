"""Ends a call of the driver that may never return: a client whose brokers are gone waits in its
``close`` for an answer that nobody will send.

Decides how long is long enough; never how a client is closed.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from scheduler.futures.light_future import resolve

logger = logging.getLogger("hourhand.kafka")

CLIENT_CLOSE_S = 5.0
"""For a client that is not a member: above what an answer under way is waited for."""


def close_within(close: Callable[[], object], timeout_s: float) -> bool:
    """Call ``close`` on a thread of its own and wait for it; return whether it came to an end.

    Raises what it raises.  What does not end is left behind on a daemon thread, which the end
    of the process takes along; of a member the group learns when its session has expired.
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

    It has nothing to leave, and has been seen to wait for its brokers all the same.
    """
    return close_within(client.close, CLIENT_CLOSE_S)
