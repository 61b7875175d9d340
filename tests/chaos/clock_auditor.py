"""Finds tasks that a clock kept waiting which was set, by minutes, hours or days, and set right.

A node takes tasks for due by its own clock: while that is behind they wait, and when it is right
again they begin.  While it is ahead none waits longer than without it.  Reads what executors and
load generator wrote down, and imports nothing of the engine.
"""

from collections.abc import Iterator

from tests.chaos.auditor import Finding, first_attempts, told
from tests.chaos.causes import SECOND_US
from tests.chaos.history import Fault, History

_AFTER_US = 2 * SECOND_US
"""The next fault is longer away: it makes nothing late that falls due by then."""


def audit_clocks(history: History, limit_s: float) -> list[Finding]:
    """Return the plain tasks that waited longer than the limit beside a clock that was set."""
    return [
        finding
        for fault in history.faults
        if fault.ahead_us
        for finding in _kept_waiting(history, fault, limit_s)
    ]


def _kept_waiting(history: History, fault: Fault, limit_s: float) -> Iterator[Finding]:
    firsts = first_attempts(history.attempts)
    for offer in history.offers:
        due_us = offer.due_wall_us - history.wall_minus_boot_us
        if offer.work != "plain" or not fault.from_us <= due_us <= fault.to_us + _AFTER_US:
            continue
        from_us = max(due_us, fault.back_us) if fault.ahead_us < 0 else due_us
        first = firsts.get(offer.task_id)
        # A task that never began is lost: another check says so.
        if first is not None and first.started_us - from_us > limit_s * SECOND_US:
            waited_s = (first.started_us - from_us) / SECOND_US
            yield Finding(f"{told(first)} waited {waited_s:.1f} s: {fault.kind}")
