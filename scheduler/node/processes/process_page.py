"""A page of memory that a node, its guardian and its processes share.

Each word has one writer: the node writes the lease and the work that must end, a process its
current work, the guardian the memory of processes.  A word is eight bytes at a multiple of eight,
so one write is atomic; the lease is there twice anyway, and the earlier of both counts.
Decides nothing.
"""

import math
import mmap
import os
import tempfile
from pathlib import Path

_WORD_BYTES = 8
_HEAD_WORDS = 16
_PLACE_WORDS = 24
_SEQ, _BEGUN_MS, _DEADLINE_MS, _WALL_MS, _EXECUTES, _BEGUN_SEQ = 0, 1, 2, 3, 4, 5
_ASKED_SEQ, _MEMORY_BYTES = 8, 16
"""Words of a place; process, node and guardian write to different cache lines."""


class ProcessPage:
    """The page, for each of the three."""

    def __init__(self, descriptor: int, places: int) -> None:
        size_bytes = _WORD_BYTES * (_HEAD_WORDS + places * _PLACE_WORDS)
        self._memory = mmap.mmap(descriptor, size_bytes)
        view = memoryview(self._memory)
        self._numbers, self._times = view.cast("q"), view.cast("d")

    @staticmethod
    def made(places: int) -> "tuple[ProcessPage, int]":
        """Return a new page, and the descriptor with which the others map it."""
        if hasattr(os, "memfd_create"):
            # A container may have no writable folder.
            descriptor = os.memfd_create("hourhand")
        else:
            descriptor, path = tempfile.mkstemp(prefix="hourhand-")
            Path(path).unlink()
        os.ftruncate(descriptor, _WORD_BYTES * (_HEAD_WORDS + places * _PLACE_WORDS))
        return ProcessPage(descriptor, places), descriptor

    @property
    def lease_ends_ms(self) -> float:
        """Monotonic time from which on nothing may run."""
        return min(self._times[0], self._times[1])

    def lease_until(self, ends_ms: float) -> None:
        """Set the monotonic time from which on nothing may run; by the node."""
        self._times[0] = ends_ms
        self._times[1] = ends_ms

    def place(self, number: int) -> "PagePlace":
        """Return the words of one process."""
        return PagePlace(self._numbers, self._times, _HEAD_WORDS + number * _PLACE_WORDS)


class PagePlace:
    """The words of one process."""

    __slots__ = ("_at", "_numbers", "_times")

    def __init__(self, numbers: "memoryview[int]", times: "memoryview[float]", at: int) -> None:
        self._numbers, self._times, self._at = numbers, times, at

    def clear(self) -> None:
        """Reset the words; by the node, before it starts a process."""
        for word in range(_PLACE_WORDS):
            self._numbers[self._at + word] = 0

    # Written by the process.

    def begin(self, seq: int, now_ms: float) -> None:
        """Set the work that begins now."""
        numbers, times, at = self._numbers, self._times, self._at
        numbers[at + _EXECUTES] = 0
        times[at + _DEADLINE_MS] = math.inf
        times[at + _BEGUN_MS] = now_ms
        # Last: a reader that finds the number reads the other words.
        numbers[at + _SEQ] = seq
        numbers[at + _BEGUN_SEQ] = seq

    def execute(self, wall_ms: int) -> None:
        """Note that user code is called for it now."""
        self._numbers[self._at + _WALL_MS] = wall_ms
        self._numbers[self._at + _EXECUTES] = 1

    def limit(self, deadline_ms: float) -> None:
        """Set the monotonic time until which it may run."""
        self._times[self._at + _DEADLINE_MS] = deadline_ms

    def end(self) -> None:
        """Note that the work has ended."""
        self._numbers[self._at + _SEQ] = 0

    @property
    def seq(self) -> int:
        """The number of the current work; 0 for none."""
        return int(self._numbers[self._at + _SEQ])

    @property
    def begun_seq(self) -> int:
        """The number of the last work that began; 0 for none."""
        # It is written after the other one.
        return max(int(self._numbers[self._at + _BEGUN_SEQ]), self.seq)

    @property
    def begun_ms(self) -> float:
        """Monotonic time at which it began."""
        return float(self._times[self._at + _BEGUN_MS])

    @property
    def deadline_ms(self) -> float:
        """Monotonic time until which it may run."""
        return float(self._times[self._at + _DEADLINE_MS])

    @property
    def executes_since_ms(self) -> int | None:
        """Wall time at which user code was called; None before."""
        at = self._at
        return int(self._numbers[at + _WALL_MS]) if self._numbers[at + _EXECUTES] else None

    # Written by the node.

    def ask(self, seq: int) -> None:
        """Ask user code of this work to end."""
        self._numbers[self._at + _ASKED_SEQ] = seq

    @property
    def asked_seq(self) -> int:
        """The number of the work that was asked to end last."""
        return int(self._numbers[self._at + _ASKED_SEQ])

    # Written by the guardian.

    @property
    def memory_bytes(self) -> int:
        """Resident memory at the guardian's last look."""
        return int(self._numbers[self._at + _MEMORY_BYTES])

    def measure(self, memory_bytes: int) -> None:
        """Set the resident memory."""
        self._numbers[self._at + _MEMORY_BYTES] = memory_bytes
