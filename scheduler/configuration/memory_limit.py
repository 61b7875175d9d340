"""The memory limit of the machine, or of the container of this process.

Decides the default of ``tree.window.memory_bytes_max``: a quarter of the lowest limit that is
found. Never fails: an unreadable limit does not count.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from hourhand.actors.model.values.settings import TreeSettings
from hourhand.actors.model.window.budget import NodeBudget
from hourhand.scheduler.configuration.cgroup import CGROUP, MOUNT, cgroup_texts
from hourhand.scheduler.configuration.settings import Settings

_SHARE = 4
"""The other three parts are for the interpreter and its libraries (about 50 MB), for user code, and
for copies on the way to servers."""
_LEAST_BYTES = 16 * 2**20


def tree_within_memory(settings: Settings) -> TreeSettings:
    """Return the tree's settings, with a quarter of the limit if no budget is set."""
    window = settings.tree.window
    if window.memory_bytes_max is not None:
        return settings.tree
    window = window.model_copy(update={"memory_bytes_max": budget_bytes(1)})
    return settings.tree.model_copy(update={"window": window})


def budget_bytes(nodes: int) -> int:
    """Return the budget of each of ``nodes`` nodes that share this machine or container."""
    return max(_LEAST_BYTES, allowed_bytes() // _SHARE // nodes)


def measures_of(memory: NodeBudget) -> dict[str, Callable[[], Mapping[str, float]]]:
    """Return the gauges of a budget."""
    return {
        "memory_held_bytes": lambda: {"": float(memory.used_bytes)},
        "memory_limit_bytes": lambda: {"": float(memory.limit_bytes)},
    }


def allowed_bytes(cgroup: Path = CGROUP, mount: Path = MOUNT) -> int:
    """Return the lowest of the machine's memory and the limits of the process's cgroups."""
    machine_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    names = ("memory.max", "memory.limit_in_bytes")
    texts = cgroup_texts("memory", names, cgroup, mount)
    limits = [int(text) for text in texts if text.isascii() and text.isdecimal()]
    return min([machine_bytes, *limits])
