"""The machine of one program: a wall clock that can be set, a disk that can be slow or fail.

A library is loaded below the program and all that it starts (``machine.c``); a file that both map
says what it does.  Other programs keep the real clock and disk.  Decides nothing about when.
"""

import contextlib
import errno
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.servers.preload import compile_library

_SOURCE = Path(__file__).with_name("machine.c")
_PAGE = struct.Struct("6q")
_CLOCK, _SYNC, _ERROR = 0, 8, 16
FULL, BROKEN = errno.ENOSPC, errno.EIO
"""Errors of a disk that has no room left, and of one that fails."""


@dataclass(frozen=True, slots=True)
class Touched:
    """Counts of what a program met of the faults of its machine."""

    clock_read: int
    syncs_delayed: int
    writes_refused: int


class Machine:
    """A machine for one program, or for any number that share it."""

    def __init__(self, library: Path, file: Path, disk: Path | None = None) -> None:
        """``disk`` is the folder that is on the machine's disk."""
        file.write_bytes(bytes(_PAGE.size))
        with file.open("r+b") as opened:
            self._page = mmap.mmap(opened.fileno(), _PAGE.size)
        self.variables = {"LD_PRELOAD": str(library), "MACHINE_FILE": str(file)}
        """Variables for the environment of a program."""
        if disk is not None:
            self.variables["MACHINE_ROOT"] = str(disk)

    @property
    def touched(self) -> Touched:
        """The counts so far."""
        return Touched(*_PAGE.unpack(self._page)[3:])

    def set_clock(self, ahead_s: float) -> None:
        """Have the wall clock show so much more than the real one; 0 sets it right."""
        struct.pack_into("q", self._page, _CLOCK, round(ahead_s * 1e6))

    @contextlib.contextmanager
    def slow_disk(self, sync_s: float) -> Iterator[None]:
        """Have each sync take so much longer."""
        with self._put(_SYNC, round(sync_s * 1e6)):
            yield

    @contextlib.contextmanager
    def failing_disk(self, error: int) -> Iterator[None]:
        """Have each write fail, as ``FULL`` or ``BROKEN`` says."""
        with self._put(_ERROR, error):
            yield

    @contextlib.contextmanager
    def _put(self, place: int, value: int) -> Iterator[None]:
        struct.pack_into("q", self._page, place, value)
        try:
            yield
        finally:
            struct.pack_into("q", self._page, place, 0)


def compile_machine(folder: Path) -> Path:
    """Compile the library into a folder; raises CannotPreload."""
    return compile_library(_SOURCE, folder)
