"""The recurring schedules that versions of one simulated application declare.

It decides the rules; which process has which version is the workload's matter.
"""

from collections.abc import Mapping
from typing import Any

from hourhand.scheduler.services.recurring.declared import (
    APPLICATIONS,
    Declaration,
    declaration_of,
)
from hourhand.scheduler.services.recurring.rule import RecurringRule

OWNER = f"{APPLICATIONS}simulated"
DECLARED = "app-"
"""Prefix of the names of schedules, and of the ordering ids of occurrences."""
NAMES = tuple(f"{DECLARED}{number}" for number in range(4))
_EACH_MINUTE: Mapping[str, Any] = {"every_ms": 60_000}
_AT_MINUTES: Mapping[str, Any] = {"cron": "* * * * *"}
_AT_HALVES: Mapping[str, Any] = {"cron": "30 * * * * *"}
_VERSIONS: tuple[Mapping[str, Mapping[str, Any]], ...] = (
    {"app-0": _EACH_MINUTE, "app-1": _AT_MINUTES, "app-2": {"cron": "*/2 * * * *"}},
    {"app-0": _EACH_MINUTE, "app-1": _AT_HALVES, "app-3": {"every_ms": 90_000}},
    {"app-0": {"every_ms": 100_000}, "app-1": _AT_HALVES, "app-2": {"cron": "*/2 * * * *"}},
)
VERSIONS = len(_VERSIONS)


def set_of(version: int, ends_ms: int) -> Declaration:
    """Return what a process of a version declares; nothing is due from ``ends_ms`` on."""
    rules = {name: _rule(name, times, ends_ms) for name, times in _VERSIONS[version].items()}
    return declaration_of(rules, rules, forced=False)


def _rule(name: str, times: Mapping[str, Any], ends_ms: int) -> RecurringRule:
    # As occurrences are allowed beside each other, and none is too old, each one is made.
    return RecurringRule(
        ordering_id=name,
        overlap="allow",
        catch_up_ms=86_400_000,
        data={"n": 0, "runs": ["ok:5"], "blocking": False},
        ends_ms=ends_ms,
        **times,
    )
