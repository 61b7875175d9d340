"""What the cgroups of this process say: where their files are, and nothing of what these mean.

Never fails: what cannot be read is an empty text.
"""

from collections.abc import Sequence
from pathlib import Path

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
