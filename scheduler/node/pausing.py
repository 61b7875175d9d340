"""What a node knows of what is paused: looked up now and then, kept while the store is silent.

Decides when to look, and that nothing may start before the first answer.  What a pause means
is the tree's and the lease's matter.
"""

import logging
from concurrent.futures import Future

from actors.model.errors import HourhandError
from actors.model.pauses import PauseSheet
from actors.ports.clock import Clock
from actors.ports.oversight import OversightStore
from scheduler.node.lease import Lease

logger = logging.getLogger("hourhand.node")

LOOK_MS = 400.0
"""So often that, with the answer's way, a pause is known everywhere within a second."""


class PauseWatch:
    """Asks the store, one question at a time; used by the polling thread."""

    def __init__(self, store: OversightStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._asked: Future[PauseSheet] | None = None
        self._due_ms = -1e18
        self.sheet = PauseSheet()
        self.is_known = False
        """Whether the store has answered once: until then anything may be paused."""

    def look(self, lease: Lease) -> bool:
        """Take an answer that has come, and ask again in time; return whether the sheet changed.

        The lease is told first: what waits for a worker may not start any more either.
        """
        changed = self._take()
        now_ms = self._clock.monotonic_ms()
        if self._asked is None and now_ms >= self._due_ms:
            self._due_ms = now_ms + LOOK_MS
            self._asked = self._store.read_pauses(self.sheet)
            changed = self._take() or changed
        if changed:
            lease.pause(self.sheet)
        return changed

    def _take(self) -> bool:
        if self._asked is None or not self._asked.done():
            return False
        asked, self._asked = self._asked, None
        try:
            sheet = asked.result()
        except HourhandError as error:
            # What was paused stays so, and nothing else is.
            logger.debug("pauses could not be read: %s", error)
            return False
        self.is_known = True
        known, self.sheet = self.sheet, sheet
        return sheet is not known
