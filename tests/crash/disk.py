"""Disks that can be full: a small one of its own where the machine allows, a limit elsewhere."""

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

DISK_BYTES = 8_388_608
_CHUNK_BYTES = 65_536


class Disk(Protocol):
    """Somewhere to keep a folder."""

    place: Path

    def fill(self) -> None:
        """Leave no room."""

    def free(self) -> None:
        """Give room again."""


class MountedDisk:
    """A file system of a few MiB; full is full, to the last byte."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._ballast = place / "ballast"

    def fill(self) -> None:
        """Write until nothing more goes in, in ever smaller pieces."""
        descriptor = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        piece_bytes = _CHUNK_BYTES
        while piece_bytes:
            try:
                os.write(descriptor, b"\0" * piece_bytes)
            except OSError:
                piece_bytes //= 2
        os.close(descriptor)

    def free(self) -> None:
        """Take the ballast away."""
        self._ballast.unlink(missing_ok=True)


class LimitedDisk:
    """Any folder, in a process whose files may not grow: every user may ask for that."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        """Let no file grow beyond what the largest one has."""
        sizes = [each.stat().st_size for each in self.place.rglob("*") if each.is_file()]
        resource.setrlimit(resource.RLIMIT_FSIZE, (max(sizes, default=0) or 1_024, self._limits[1]))

    def free(self) -> None:
        """Let files grow again."""
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)


@contextlib.contextmanager
def mounted(place: Path) -> Iterator[MountedDisk]:
    """Mount a disk; raises PermissionError, saying why, where the machine does not allow it."""
    place.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "hourhand-test", str(place))
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise PermissionError("this machine has no mount command") from error
    if done.returncode:
        raise PermissionError(done.stderr.strip() or "mount failed")
    try:
        yield MountedDisk(place)
    finally:
        subprocess.run(("umount", "--lazy", str(place)), check=True)
