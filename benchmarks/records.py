"""Executions as the executors themselves note them: a number and a time, in a mapped file.

A note costs about a microsecond and survives the sudden death of its process, as the
pages belong to the kernel.  It never interprets what was noted.
"""

import bisect
import itertools
import mmap
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

_SLOT_BYTES = 16
_WRITERS_MAX = 1_024
"""Threads that may write into one file."""
_POLL_S, _SIBLINGS_POLL_S = 0.002, 0.02


def wall_s() -> float:
    """Return the wall clock in seconds, the same for every process of the machine."""
    return time.clock_gettime(time.CLOCK_REALTIME)


class Execution(NamedTuple):
    """One start of one task."""

    number: int
    started_s: float


class Records:
    """A file of ``slots`` executions; one process writes, from any thread, others read.

    Several processes write a file each; the process that opened the first one reads all.
    """

    def __init__(self, path: Path, slots: int) -> None:
        self.path = path
        self.slots = slots
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.truncate(slots * _SLOT_BYTES)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), slots * _SLOT_BYTES)
        self._numbers = memoryview(self._map).cast("d")
        # A step of ``count`` is atomic under the interpreter's lock, so no lock is needed.
        self._next = itertools.count()
        self._siblings: dict[Path, Records] = {}

    @classmethod
    def of_process(cls, path: Path, slots: int) -> "Records":
        """Open the file in which this process, one of several, notes executions for a path."""
        return cls(path.with_name(f"{path.name}.{os.getpid()}"), slots)

    def note(self, number: int) -> None:
        """Note that the task ``number`` starts now; what finds no room is not noted."""
        slot = next(self._next)
        if slot < self.slots:
            # The time is written last: a slot without one is not read.
            self._numbers[2 * slot] = number
            self._numbers[2 * slot + 1] = time.clock_gettime(time.CLOCK_REALTIME)

    def __iter__(self) -> Iterator[Execution]:
        yield from self._own()
        for each in self._all_siblings():
            yield from each._own()

    def _all_siblings(self) -> Iterable["Records"]:
        """Return the files of other processes that are there by now."""
        for path in self.path.parent.glob(f"{self.path.name}.*"):
            if path not in self._siblings and path.stat().st_size == self.slots * _SLOT_BYTES:
                self._siblings[path] = Records(path, self.slots)
        return self._siblings.values()

    def _own(self) -> Iterator[Execution]:
        # Threads write side by side: a few slots behind the last of the full ones may have gaps.
        for slot in range(min(self.slots, self._noted() + _WRITERS_MAX)):
            started_s = self._numbers[2 * slot + 1]
            if started_s:
                yield Execution(int(self._numbers[2 * slot]), started_s)

    def has(self, count: int) -> bool:
        """True if ``count`` executions are noted."""
        if count <= self.slots and self._numbers[2 * count - 1]:
            return True
        siblings = self._all_siblings()
        return bool(siblings) and self._noted() + sum(each._noted() for each in siblings) >= count

    def _noted(self) -> int:
        """Return how many are noted here; slots are filled in order."""
        return bisect.bisect_left(
            range(self.slots), 1, key=lambda slot: not self._numbers[2 * slot + 1]
        )

    def wait_for(self, count: int, timeout_s: float) -> None:
        """Wait until ``count`` executions are noted; raises TimeoutError."""
        ends_s = time.monotonic() + timeout_s
        while not self.has(count):
            if time.monotonic() > ends_s:
                noted = sum(1 for _ in self)
                raise TimeoutError(f"{noted} of {count} tasks ran within {timeout_s:.0f} s")
            # To look for files takes longer than to look into one.
            time.sleep(_SIBLINGS_POLL_S if self._siblings else _POLL_S)


def exactly_once(executions: list[Execution], count: int) -> None:
    """Raise RuntimeError where a task is missing or ran twice: a figure would be worthless."""
    distinct = len({each.number for each in executions})
    if distinct != count or len(executions) != count:
        raise RuntimeError(
            f"{count} tasks were expected once each, {len(executions)} executions of"
            f" {distinct} different ones were noted"
        )


def middle_rate_per_s(executions: list[Execution]) -> float:
    """Return starts a second without the first and last tenth: nodes begin and end apart."""
    starts = sorted(each.started_s for each in executions)
    low, high = len(starts) // 10, len(starts) - len(starts) // 10 - 1
    return (high - low) / (starts[high] - starts[low])
