"""What the machine, or the container a process runs in, allows it of memory.

Decides the default of ``tree.window.memory_bytes_max``: a quarter of the lowest limit that is
found.  Never fails: what cannot be read limits nothing.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from actors.model.memory import NodeMemory
from actors.model.settings import TreeSettings
from scheduler.configuration.settings import Settings

_SHARE = 4
"""The other three parts: the interpreter and its libraries (about 50 MB), what user code makes of
the tasks that run, and copies on the way to servers."""
_LEAST_BYTES = 16 * 2**20
_CGROUP = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")


def tree_within_memory(settings: Settings) -> TreeSettings:
    """Return the tree's settings, with a quarter of what is allowed where no budget is set."""
    window = settings.tree.window
    if window.memory_bytes_max is not None:
        return settings.tree
    bytes_max = max(_LEAST_BYTES, allowed_bytes() // _SHARE)
    window = window.model_copy(update={"memory_bytes_max": bytes_max})
    return settings.tree.model_copy(update={"window": window})


def measures_of(memory: NodeMemory) -> dict[str, Callable[[], Mapping[str, float]]]:
    """Return the gauges of a budget."""
    return {
        "memory_held_bytes": lambda: {"": float(memory.held_bytes)},
        "memory_limit_bytes": lambda: {"": float(memory.limit_bytes)},
    }


def allowed_bytes(cgroup: Path = _CGROUP, mount: Path = _MOUNT) -> int:
    """Return the lowest of the machine's memory and the limits of the process's cgroups."""
    machine_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine_bytes, *_limits(cgroup, mount)])


def _limits(cgroup: Path, mount: Path) -> list[int]:
    """Return the limits of version 2 and of version 1, of each cgroup up to the root."""
    folders = [mount, mount / "memory"]
    for line in _text(cgroup).splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        root = mount / "memory" if "memory" in controllers.split(",") else mount
        place = root / path.strip("/")
        folders += [place, *(each for each in place.parents if root in each.parents)]
    names = ("memory.max", "memory.limit_in_bytes")
    texts = [_text(folder / name).strip() for folder in folders for name in names]
    return [int(text) for text in texts if text.isascii() and text.isdecimal()]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
