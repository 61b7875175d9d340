"""The state of the cluster in one sentence: the worst fact, and how bad it is.

Decides which figures are worth a sentence, and which comes first. It reads the status only, and
does not know how old that is.
"""

from hourhand.actors.model.values.display import duration_text
from hourhand.scheduler.admin.picture import ClusterStatus, Headline

LATE_MS = 1_000
"""Lateness that is worth a warning."""
VERY_LATE_MS = 10_000
"""Lateness that is worth waking somebody."""
MANY_FAIL, MOST_FAIL = 0.1, 0.5
"""Shares of the attempts of the last seconds that failed."""
LIMITED_MANY = 100
"""A limit counts as a bottleneck above this number of waiting tasks."""


def failed_share(status: ClusterStatus) -> float | None:
    """Return the share of attempts that failed lately; None if none ran, or it is unknown."""
    started, failed = status.executions_per_s, status.failures_per_s
    # A failed attempt may have started before the measured seconds.
    ended = max(started or 0.0, failed or 0.0)
    return (failed or 0.0) / ended if ended else None


def judged(status: ClusterStatus) -> Headline:
    """Return the sentence, and its tone."""
    return _stopped(status) or _bad(status) or _doubtful(status) or _well(status)


def _stopped(status: ClusterStatus) -> Headline | None:
    if status.nodes.alive == 0:
        return Headline(
            tone="bad",
            words="Nothing runs: no node is alive",
            next_step="hourhand run --executor MODULE:CLASS",
        )
    if status.paused.all:
        return Headline(
            tone="warn", words="Paused: tasks wait in the store", next_step="hourhand resume --all"
        )
    return None


def _bad(status: ClusterStatus) -> Headline | None:
    p99, share = status.lateness_ms.p99, failed_share(status)
    if p99 is not None and p99 >= VERY_LATE_MS:
        words = f"Late: 99 of 100 tasks start up to {duration_text(p99)} after they are due"
        return Headline(tone="bad", words=words)
    if share is not None and share >= MOST_FAIL:
        words = f"Failing: {_percent(share)} of the attempts fail"
        return Headline(tone="bad", words=words)
    if status.partitions.unknown:
        return Headline(tone="bad", words="Part of the cluster does not report")
    return None


def _doubtful(status: ClusterStatus) -> Headline | None:
    p99, share, limited = status.lateness_ms.p99, failed_share(status), status.limited or 0
    if p99 is not None and p99 > LATE_MS:
        words = f"A little late: 99 of 100 tasks start within {duration_text(p99)} of their time"
        return Headline(tone="warn", words=words)
    if limited >= LIMITED_MANY:
        words = f"Limited: {limited:,} tasks are due and wait for a limit"
        if status.limited_for_ms is not None:
            words += f", the first for {duration_text(status.limited_for_ms)}"
        return Headline(tone="warn", words=words)
    if share is not None and share > MANY_FAIL:
        words = f"On time, but {_percent(share)} of the attempts fail"
        return Headline(tone="warn", words=words)
    if status.blocked:
        return Headline(tone="warn", words="On time, but some ordering ids wait for you")
    return None


def _well(status: ClusterStatus) -> Headline:
    p99 = status.lateness_ms.p99
    if p99 is None:
        lately = duration_text(status.window_ms)
        return Headline(tone="good", words=f"Idle: nothing ran in the last {lately}")
    words = f"On time: 99 of 100 tasks start within {duration_text(p99)} of their time"
    return Headline(tone="good", words=words)


def _percent(share: float) -> str:
    return f"{min(99, round(share * 100)) if share < 1 else 100} %"
