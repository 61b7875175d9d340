"""Lateness from counts: quantiles of what happened between two reports.

Counts have the bounds of ``actors.model.oversight``; a quantile is the upper bound of its
bucket, so it is never below the truth.
"""

from collections.abc import Iterable, Sequence

from actors.model.oversight import LATENESS_MS

BUCKETS = len(LATENESS_MS) + 1
QUANTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


def summed(counts: Iterable[Sequence[int]]) -> list[int]:
    """Add counts up, bucket by bucket."""
    total = [0] * BUCKETS
    for each in counts:
        for place, count in enumerate(each[:BUCKETS]):
            total[place] += count
    return total


def difference(later: Sequence[int], earlier: Sequence[int]) -> list[int]:
    """Return what was added between two counts; a process that began anew counts from zero."""
    if any(a < b for a, b in zip(later, earlier, strict=False)):
        return list(later)
    return [a - b for a, b in zip(later, earlier, strict=False)]


def quantiles(counts: Sequence[int]) -> dict[str, int | None]:
    """Return lateness in milliseconds at each quantile; None where nothing ran."""
    return {name: _quantile(counts, share) for name, share in QUANTILES.items()}


def _quantile(counts: Sequence[int], share: float) -> int | None:
    total = sum(counts)
    if not total:
        return None
    seen = 0
    for place, count in enumerate(counts):
        seen += count
        if seen >= total * share:
            # Beyond the last bound there is no upper one; twice the last says so.
            return LATENESS_MS[place] if place < len(LATENESS_MS) else 2 * LATENESS_MS[-1]
    return None
