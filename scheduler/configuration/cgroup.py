"""The limits in this process's cgroups, and the number of cores that it may use.

Decides ``--processes auto``: a quota is rounded down, and the minimum is one core. Never fails: an
unreadable file counts as empty text and limits nothing.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from hourhand.actors.model.values.settings import ExecutionSettings

CGROUP = Path("/proc/self/cgroup")
MOUNT = Path("/sys/fs/cgroup")


def cgroup_texts(
    controller: str, names: Sequence[str], cgroup: Path = CGROUP, mount: Path = MOUNT
) -> list[str]:
    """Return the files of these names, of versions 1 and 2, of each cgroup up to the root."""
    folders = [mount, mount / controller]
    for line in _text(cgroup).splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        root = mount / controller if controller in controllers.split(",") else mount
        place = root / path.strip("/")
        folders += [place, *(each for each in place.parents if root in each.parents)]
    return [_text(folder / name).strip() for folder in folders for name in names]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def allowed_cores(cgroup: Path = CGROUP, mount: Path = MOUNT) -> int:
    """Return the lowest of the cores this process may run on and the quotas of its cgroups."""
    quotas = [_cores(text) for text in cgroup_texts("cpu", ("cpu.max",), cgroup, mount)]
    return max(1, int(min([_cores_to_run_on(), *(each for each in quotas if each)])))


def process_count(settings: ExecutionSettings) -> int:
    """Return how many processes a node has for user code."""
    return settings.processes or allowed_cores()


def _cores_to_run_on() -> float:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cores(text: str) -> float | None:
    """Return the quota in ``cpu.max``: microseconds in each period of microseconds, or ``max``."""
    words = text.split()
    if len(words) != 2 or not all(word.isascii() and word.isdecimal() for word in words):
        return None
    quota_us, period_us = map(int, words)
    return quota_us / period_us if period_us else None
