"""The machine's clocks: the only module that reads them.

It decides nothing about time; whoever compares is handed a ``Clock``, so that every decision
can be tested under one that stands still.
"""

import time

# Linux stops CLOCK_MONOTONIC while the machine is suspended, and a lease must not outlive a
# closed lid.  Where CLOCK_BOOTTIME is unknown, the monotonic clock is the best there is.
_COUNTING = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The wall clock, and a clock that only measures; implements ``Clock``."""

    def now_ms(self) -> int:
        """Return UTC milliseconds since 1970, cut, not rounded."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        """Return milliseconds since some moment, suspended time included."""
        return time.clock_gettime(_COUNTING) * 1000


def thread_ms(clock: int) -> float | None:
    """Return what a clock of a thread's processor time shows; None where there is none."""
    try:
        return time.clock_gettime(clock) * 1000
    except (OSError, OverflowError):
        # The thread has ended, or this system has no such clocks.
        return None


def driver_ms() -> float:
    """Return the clock that Kafka's driver stamps its statistics with, which suspension stops."""
    # Not time.monotonic_ns: tests that freeze time stop that one.
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1_000_000
