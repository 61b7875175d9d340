"""Time, as the tree and the node may read it."""

from typing import Protocol


class Clock(Protocol):
    """Two clocks: a wall clock, and one that only measures.

    Due times are compared with ``now_ms``, which may step in either direction. Leases, timeouts and
    pauses use ``monotonic_ms``, which never goes back and goes on counting while the machine is
    suspended, so a lease does not outlive a closed lid.
    """

    def now_ms(self) -> int:
        """Return the wall clock in UTC milliseconds since 1970, cut, not rounded."""

    def monotonic_ms(self) -> float:
        """Return milliseconds since an arbitrary moment, with fractions."""
