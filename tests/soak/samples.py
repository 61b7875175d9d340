"""The looks of a soak, and the judgement of all of them.

It decides what counts as growth; it never measures.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_MEMORY_ROOM_BYTES = 8 * 1024**2
_MEMORY_ROOM_SHARE = 0.05
"""Memory that may be more in the last quarter than in the second: allocators and caches breathe."""
_LATENESS_ROOM = 2.0
"""How many times the median lateness of the second quarter that of the last one may be."""
_WAITING_ROOM = 1.5
"""The same for tasks that have not ended."""
_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Sample:
    """One look, after a stretch of the soak."""

    hours: float
    """Since the first task."""
    accepted: int
    ended: int
    """Both since the first task."""
    late_p50_ms: float
    late_p99_ms: float
    late_max_ms: float
    """The lateness of this stretch's first attempts."""
    resident_bytes: int
    """Memory of the node's process."""
    disk_bytes: Mapping[str, int]
    """By file of the folder; empty on servers."""


HEAD = f"{'hours':>6} {'accepted':>11} {'ended':>11} {'p50 ms':>8} {'p99 ms':>9} {'max ms':>9}"


def head(sample: Sample) -> str:
    """Return the names of the columns of ``line``."""
    files = "".join(f"{name + ' MiB':>18}" for name in sorted(sample.disk_bytes))
    return f"{HEAD} {'memory MiB':>11}{files}"


def line(sample: Sample) -> str:
    """Return one look as a row."""
    files = "".join(
        f"{sample.disk_bytes[name] / _MIB:>18.1f}" for name in sorted(sample.disk_bytes)
    )
    return (
        f"{sample.hours:>6.2f} {sample.accepted:>11,} {sample.ended:>11,}"
        f" {sample.late_p50_ms:>8.1f} {sample.late_p99_ms:>9.1f} {sample.late_max_ms:>9.1f}"
        f" {sample.resident_bytes / _MIB:>11.1f}{files}"
    )


def growth(samples: Sequence[Sample]) -> list[str]:
    """Return what grew from the second quarter to the last one, in words; the first quarter fills
    what is bounded.  Files may grow with what is kept: so much a task is told, not judged.
    """
    quarter = len(samples) // 4
    if not quarter:
        return ["fewer than four looks say nothing of growth"]
    second, last = samples[quarter : 2 * quarter], samples[-quarter:]
    found = []
    before = statistics.median(each.resident_bytes for each in second)
    after = statistics.median(each.resident_bytes for each in last)
    if after > before * (1 + _MEMORY_ROOM_SHARE) + _MEMORY_ROOM_BYTES:
        found.append(f"memory grew from {before / _MIB:.1f} to {after / _MIB:.1f} MiB")
    early = statistics.median(each.late_p50_ms for each in second)
    late = statistics.median(each.late_p50_ms for each in last)
    if late > _LATENESS_ROOM * max(early, 1.0):
        found.append(f"the median lateness grew from {early:.1f} to {late:.1f} ms")
    waited, waits = (
        statistics.median(each.accepted - each.ended for each in some) for some in (second, last)
    )
    if waits > _WAITING_ROOM * max(waited, 1):
        found.append(f"the tasks that wait grew from {waited:,.0f} to {waits:,.0f}")
    return found


def kept_bytes_a_task(samples: Sequence[Sample]) -> float:
    """Return by how much the files grew a task since the first look."""
    first, last = samples[0], samples[-1]
    more = sum(last.disk_bytes.values()) - sum(first.disk_bytes.values())
    return more / max(1, last.ended - first.ended)
