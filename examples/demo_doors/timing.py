"""The wall clock of the doors' demonstrations, and how late something was."""

from collections.abc import Sequence

from examples.demo_cluster.executor import now_us


def wall_s() -> float:
    """Return the wall clock in seconds."""
    return now_us() / 1_000_000


def quantiles(values: Sequence[float]) -> str:
    """Return the middle and the ends of lateness in milliseconds, as text."""
    ordered = sorted(values)
    if not ordered:
        return "nothing came"
    shown = [
        f"{name} {ordered[min(len(ordered) - 1, int(share * len(ordered)))]:.0f}"
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
    ]
    return f"{', '.join(shown)} ms"
