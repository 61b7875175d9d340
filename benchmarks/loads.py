"""The scheduled tasks, by number: every process knows each of them without asking.

A record of the log is about 240 bytes long; the rivals are given the same data.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.instant import from_millis

NOTE = "n" * 100
"""Pads the data of a task, and of a rival's job."""
COMPUTING_KIND = "computing"
"""The kind of those tasks that compute in processes beside plain ones."""
CALL_S = 0.020
"""Time of a call of a service, in seconds."""
IN_PROCESSES = "process_work."
"""Begins the name of work that a class of ``benchmarks.programs.process_work`` does."""
OCCURRING = "occurring"
"""Name of the work whose tasks are occurrences of schedules."""
SCHEDULES = 500
"""Number of those schedules."""
ASYNC_KIND = "async"
"""The kind of those tasks of a mixed load whose executor is async."""
LIMIT_PER_S, LIMIT_BURST = 200, 20
"""Rate and burst of all nodes together for a limited load."""
TICK_S = 0.05
"""Seconds between two chunks of a load that comes at a pace."""
_MIXED = 10
"""In each run of this many tasks one fails once, and one is of the async kind."""


@dataclass(frozen=True, slots=True)
class Load:
    """``count`` tasks over ``ids`` ordering ids, due at once or at a steady rate."""

    count: int
    ids: int
    due_s: float = 0.0
    """Wall time at which the first is due; 0 means: when they are scheduled."""
    rate: float = 0.0
    """Tasks due in a second; 0 means: all at the same moment."""
    first: int = 0
    """Number of the first task."""
    name: str = "customer"
    """Prefix of the ordering ids."""
    note_bytes: int = len(NOTE)
    """Padding of the data."""
    mixed: bool = False
    """True if a tenth is of the async kind, and the data of another tenth says ``fails``."""
    tenants: int = 0
    """Number of tenants, in turn, whose names the data says; 0 means that it says none."""
    priority: int | None = None
    """Priority of each task; None means that of its kind."""
    kind: str | None = None
    """Kind of each task; None is that of the default executor."""
    pace: float = 0.0
    """Tasks scheduled in a second; 0 means: as fast as they can be."""

    def due_ms(self, number: int) -> int:
        """Return when a task is due, in UTC milliseconds."""
        later_s = (number - self.first) / self.rate if self.rate else 0.0
        return int((self.due_s + later_s) * 1000)

    def ordering_id(self, number: int) -> str:
        """Return the ordering id of a task."""
        return f"{self.name}-{number % self.ids}"

    def key(self, number: int) -> TaskKey:
        """Return the key of a task."""
        return TaskKey(self.due_ms(number), self.ordering_id(number), str(number))

    def data(self, number: int) -> dict[str, Any]:
        """Return the data of a task, except for what a mixed load adds."""
        data: dict[str, Any] = {"number": number, "note": "n" * self.note_bytes}
        if self.tenants:
            data["tenant"] = f"{self.name}-tenant-{number % self.tenants}"
        return data

    def numbers(self) -> range:
        """Return the numbers of all tasks."""
        return range(self.first, self.first + self.count)

    def chunks(self, largest: int) -> Iterator[range]:
        """Yield the numbers, up to so many together, as it is time for them.

        At a pace they come each ``TICK_S``; a client that is late does not wait.
        """
        size = largest
        if self.pace:
            size = max(1, min(largest, int(self.pace * TICK_S)))
        began_s = time.monotonic()
        for start in range(0, self.count, size):
            if self.pace:
                time.sleep(max(0.0, began_s + start / self.pace - time.monotonic()))
            yield self.numbers()[start : start + size]

    def tasks(self) -> Iterator[Task]:
        """Yield the tasks as a user would build them."""
        for number in self.numbers():
            data = self.data(number)
            # Not by the number alone: then all tasks of an ordering id would be alike.
            turn = (number + number // self.ids) % _MIXED if self.mixed else None
            yield Task(
                ordering_id=self.ordering_id(number),
                scheduled_time=from_millis(self.due_ms(number)),
                uniqueness_key=str(number),
                data={**data, "fails": True} if turn == 0 else data,
                kind=ASYNC_KIND if turn == 1 else self.kind,
                priority=self.priority,
            )

    @property
    def last_due_ms(self) -> int:
        """Time at which the last task is due."""
        return self.due_ms(self.first + self.count - 1)


def data_of(number: int) -> dict[str, Any]:
    """Return the data of a task or of a rival's job."""
    return {"number": number, "note": NOTE}
