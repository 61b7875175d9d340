"""What a doomed process writes down, and how it is read afterwards.

One line is one event, written with one ``write`` into a pipe, so a kill never tears it and the
order of lines is the order of events.  It knows nothing of the engine.
"""

import os
import time
from dataclasses import dataclass
from typing import NamedTuple


class Key(NamedTuple):
    """A task of the load: its number, and when it was due."""

    scheduled_ms: int
    number: int


class Place(NamedTuple):
    """Where the log holds a command."""

    partition: int
    offset: int


NO_KEY = Key(0, 0)
NO_PLACE = Place(0, 0)


@dataclass(frozen=True, slots=True)
class Event:
    """One line; what a kind does not have is 0 or empty."""

    kind: str
    """``offered``, ``acknowledged``, ``started``, ``failed``, ``ended`` of a task; ``committed`` or
    ``withdrawn`` of a task in a transaction of an outbox; ``intended``, ``told`` and ``outcome`` of
    a command; ``stopping``."""
    run: int
    """Number of the process, counted from the first one of the folder."""
    key: Key = NO_KEY
    time_ms: int = 0
    """The wall clock, or the new time of what a command moved."""
    place: Place = NO_PLACE
    word: str = "-"
    """Which command, or what it achieved."""
    at_us: int = 0
    """Time at which it was written, of a clock that nobody sets."""

    def line(self) -> bytes:
        """Return the event as it travels."""
        numbers = (*self.key, self.time_ms, *self.place, self.at_us)
        return f"{self.kind} {self.run} {' '.join(map(str, numbers))} {self.word}\n".encode()

    @classmethod
    def parse(cls, line: bytes) -> "Event":
        """Read what ``line`` returned."""
        kind, run, *numbers, word = line.decode().split()
        scheduled_ms, number, time_ms, partition, offset, at_us = map(int, numbers)
        place = Place(partition, offset)
        return cls(kind, int(run), Key(scheduled_ms, number), time_ms, place, word, at_us)


class Pen:
    """The writing end, in the process that will be killed."""

    def __init__(self, descriptor: int, run: int) -> None:
        self._descriptor = descriptor
        self._run = run

    def note(
        self,
        kind: str,
        key: Key = NO_KEY,
        time_ms: int = 0,
        place: Place = NO_PLACE,
        word: str = "-",
    ) -> None:
        """Write one event; it outlives this process from the moment this returns."""
        at_us = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000
        self.take(Event(kind, self._run, key, time_ms, place, word, at_us))

    def take(self, event: Event) -> None:
        """Write an event that was made already."""
        os.write(self._descriptor, event.line())
