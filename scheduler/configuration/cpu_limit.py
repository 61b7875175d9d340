"""How many cores the machine, or the container a process runs in, allows it.

Decides what ``--processes auto`` means: a quota is rounded down, and one core is the least.  Never
fails: what cannot be read limits nothing.
"""

import os
from pathlib import Path

from scheduler.configuration.cgroup import CGROUP, MOUNT, cgroup_texts


def allowed_cores(cgroup: Path = CGROUP, mount: Path = MOUNT) -> int:
    """Return the lowest of the cores this process may run on and the quotas of its cgroups."""
    quotas = [_cores(text) for text in cgroup_texts("cpu", ("cpu.max",), cgroup, mount)]
    return max(1, int(min([_cores_to_run_on(), *(each for each in quotas if each)])))


def _cores_to_run_on() -> float:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cores(text: str) -> float | None:
    """Return what ``cpu.max`` allows: microseconds of a period in microseconds, or ``max``."""
    words = text.split()
    if len(words) != 2 or not all(word.isascii() and word.isdecimal() for word in words):
        return None
    quota_us, period_us = map(int, words)
    return quota_us / period_us if period_us else None
