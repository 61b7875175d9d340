"""Decides when a node may write completion segments: once every node that reported reads them.

It looks at the reports of nodes now and then, and waits for nobody: what it does not know for
certain means rows.  It never decides what is packed, and nothing here keeps an older version from
being started later (ADR 32).
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future

from actors.model.errors import HourhandError

logger = logging.getLogger("hourhand.segments")

LOOK_MS = 5_000.0
"""Between two looks at the reports."""
TRUSTED_MS = 15_000.0
"""What a look found counts for so long: two looks may fail in between."""
SETTLED_MS = 30_000.0
"""A node writes none before: one of another version that begins now has reported by then."""


class SegmentGate:
    """Open while the last look says that all nodes read segments, from some time after the start.

    Called for each write, it answers at once.  ``look`` asks the store; ``monotonic_ms`` tells
    the time.
    """

    def __init__(
        self, look: Callable[[], "Future[bool]"], monotonic_ms: Callable[[], float]
    ) -> None:
        self._look = look
        self._monotonic_ms = monotonic_ms
        self._settled_ms = monotonic_ms() + SETTLED_MS
        self._looking: Future[bool] | None = None
        self._looked_ms = self._agreed_ms = -1e18
        """When the last look began, and the last one that found all nodes to agree."""
        self._said = False

    def __call__(self) -> bool:
        """Return whether what is written now may be a segment."""
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
            logger.info("successes are written as %s from now on", "segments" if may else "rows")
        return may


def _agreed(looking: "Future[bool]") -> bool:
    try:
        return looking.result()
    except HourhandError as error:
        logger.debug("reports could not be read: %s", error)
        return False
