"""Decides when a node may do what older versions cannot deal with: once every node that reported
can.

It has the nodes' reports looked at from time to time and never blocks: as long as the answer is
unknown, the node does as older versions do. It cannot stop an older version from being started
later (ADR 27).
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future

from hourhand.actors.model.values.errors import HourhandError

logger = logging.getLogger("hourhand.versions")

LOOK_MS = 5_000.0
"""Time between two looks at the reports."""
TRUSTED_MS = 15_000.0
"""Time for which a result is valid: two looks may fail in between."""
SETTLED_MS = 30_000.0
"""Time after the start without it: a node of another version that starts now has reported by
then."""


class EveryNode:
    """Open while the last look found that all nodes can, from some time after the start.

    A call answers at once. ``look`` asks the store; ``monotonic_ms`` returns the time; ``what`` is
    a sentence's end that tells operators what nodes do from then on.
    """

    def __init__(
        self, look: Callable[[], "Future[bool]"], monotonic_ms: Callable[[], float], what: str
    ) -> None:
        self._what = what
        self._look = look
        self._monotonic_ms = monotonic_ms
        self._settled_ms = monotonic_ms() + SETTLED_MS
        self._looking: Future[bool] | None = None
        self._looked_ms = self._agreed_ms = -1e18
        """Begin of the last look, and of the last one with a positive result."""
        self._said = False

    def __call__(self) -> bool:
        """Return True if it may be done now."""
        now_ms = self._monotonic_ms()
        looking = self._looking
        if looking is not None and looking.done():
            self._looking = None
            self._agreed_ms = self._looked_ms if _agreed(looking) else -1e18
        if self._looking is None and now_ms - self._looked_ms >= LOOK_MS:
            self._looked_ms = now_ms
            self._looking = self._look()
        may = now_ms >= self._settled_ms and now_ms - self._agreed_ms < TRUSTED_MS
        if may is not self._said:
            self._said = may
            logger.info("%s %s", self._what, "from now on" if may else "no longer")
        return may


def _agreed(looking: "Future[bool]") -> bool:
    try:
        return looking.result()
    except HourhandError as error:
        logger.debug("reports could not be read: %s", error)
        return False
