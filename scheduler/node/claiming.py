"""What the store is asked for each partition a node was assigned: to claim it, or, for a tree that
was rebuilt, to read its watermark again.

Decides what is asked and when; never acts on an answer.
"""

from collections.abc import Callable, Iterable

from actors.ports.clock import Clock
from actors.ports.store import OwnershipStore
from scheduler.node.holdings import Holding, Stage

_ASKED_POLL_MS = 10
"""Longest poll while an answer is awaited, which wakes nobody: a partition waits for it."""


class Claiming:
    """Used under the node's lock."""

    def __init__(
        self,
        ownership: OwnershipStore,
        clock: Clock,
        lease_ends_ms: Callable[[], float],
        lease_ms: int,
    ) -> None:
        """``lease_ends_ms`` says when the lease ends, by monotonic time; it lasts ``lease_ms``."""
        self._ownership = ownership
        self._clock = clock
        self._lease_ends_ms = lease_ends_ms
        self._lease_ms = lease_ms

    def advance(self, holding: Holding) -> bool:
        """Ask the store what is needed next; return whether its answer has come."""
        match holding.stage:
            case Stage.WAITING if self._clock.monotonic_ms() < holding.retry_at_ms:
                pass
            case Stage.WAITING if holding.ownership is not None:
                holding.reading = self._ownership.read_watermark(holding.partition)
                holding.stage = Stage.RESUMING
            case Stage.WAITING if self._may_claim(holding):
                holding.claiming = self._ownership.claim(holding.partition, self._clock.now_ms())
                holding.stage = Stage.CLAIMING
            case Stage.CLAIMING:
                return holding.claiming is not None and holding.claiming.done()
            case Stage.RESUMING:
                return holding.reading is not None and holding.reading.done()
            case Stage.WAITING | Stage.RUNNING:
                pass
        return False

    def _may_claim(self, holding: Holding) -> bool:
        """Whether a commit sent after a newer owner was seen has been accepted since."""
        if holding.claim_after_ms is None:
            return True
        return self._lease_ends_ms() > holding.claim_after_ms + self._lease_ms


def poll_ms(holdings: Iterable[Holding], timeout_ms: int) -> int:
    """Return how long the next poll may wait."""
    asked = any(each.stage in (Stage.CLAIMING, Stage.RESUMING) for each in holdings)
    return min(timeout_ms, _ASKED_POLL_MS) if asked else timeout_ms
