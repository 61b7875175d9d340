"""The machine's clocks: the only module that reads them.

Code that compares times gets a ``Clock``, so that every decision can be tested under a clock that
stands still.
"""

import time

# Linux stops CLOCK_MONOTONIC while the machine is suspended, and a lease must not outlive a closed
# lid. On systems without CLOCK_BOOTTIME the monotonic clock is the best one.
_COUNTING = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The wall clock, and a clock that only measures; implements ``Clock``."""

    def now_ms(self) -> int:
        """Return UTC milliseconds since 1970, cut, not rounded."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        """Return milliseconds since an arbitrary moment, suspended time included."""
        return time.clock_gettime(_COUNTING) * 1000


def thread_ms(clock: int) -> float | None:
    """Return a thread's processor time in milliseconds; None if its clock cannot be read."""
    try:
        return time.clock_gettime(clock) * 1000
    except (OSError, OverflowError):
        # The thread has ended, or this system has no such clocks.
        return None


def driver_ms() -> float:
    """Return the clock of Kafka's driver for its statistics, which stops during suspension."""
    # Tests that freeze time stop time.monotonic_ns.
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1_000_000
