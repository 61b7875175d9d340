"""How long this member may rely on owning its partitions.

Only arithmetic on times that are handed in.  Another member can own a partition of ours
once the coordinator gave up on us: because it heard nothing for the session timeout, or
because we did not poll for the poll interval.  An offset commit that was accepted proves
that we were a member when it was sent, hence the earlier moment counts, not the answer's.
"""

import math

from scheduler.configuration.settings import GroupSettings


class Lease:
    """The end of the lease, as monotonic milliseconds; written by the polling thread alone."""

    def __init__(self, group: GroupSettings) -> None:
        self._session_reach_ms = group.session_timeout_ms - group.lease_margin_ms
        self._poll_reach_ms = group.max_poll_interval_ms - group.lease_margin_ms
        self._accepted_sent_ms = -math.inf
        self._polled_ms = -math.inf
        self.ends_ms = -math.inf
        """One float, replaced as a whole, so that other threads need no lock to read it."""

    def polled(self, now_ms: float) -> None:
        """A poll begins."""
        self._polled_ms = now_ms
        self._renew()

    def accepted(self, sent_ms: float) -> None:
        """The coordinator accepted a commit that was sent at ``sent_ms``."""
        self._accepted_sent_ms = max(self._accepted_sent_ms, sent_ms)
        self._renew()

    def end(self) -> None:
        """Membership is gone; only a commit sent from now on brings the lease back."""
        self._accepted_sent_ms = -math.inf
        self._renew()

    def _renew(self) -> None:
        self.ends_ms = min(
            self._accepted_sent_ms + self._session_reach_ms,
            self._polled_ms + self._poll_reach_ms,
        )
