"""When the last completion was durable, asked of the store and not of the node.

It reads through the store's own port, so that it knows every form completions are kept in.
"""

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Self

from benchmarks.loads import Load
from benchmarks.records import Execution, wall_s
from hourhand import Settings
from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.ports.store import Stores
from hourhand.scheduler import wiring

_POLL_S = 0.004
_TIMEOUT_S = 120.0


class Completions:
    """A reader of one installation's completions, on connections of its own.

    Entered before a measure begins: opening connections is not part of it.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stores: Stores = wiring.open_stores(settings)
        self._partitions = settings.topic.partitions

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stores.close()

    def wait_for(
        self, load: Load, executions: Sequence[Execution], *, and_offsets: bool = False
    ) -> float:
        """Return the wall time at which all completions of a load were seen to be durable.

        While it waits it asks for little: the task that each partition ran last, and then, if
        wanted, the embedded log's offsets.  Then it counts all of them; where some are missing it
        goes on counting, and the later time stands.
        """
        ends_s = time.monotonic() + _TIMEOUT_S
        waiting = self._last_of_each_partition(load, executions)
        while waiting:
            for partition, key in tuple(waiting.items()):
                if self._stores.status.find_completions(partition, [key]).result(_TIMEOUT_S):
                    del waiting[partition]
            self._check(ends_s)
        seen_s = self.wait_for_offsets(load.count) if and_offsets else wall_s()
        while (counted := self.count(load)) < load.count:
            seen_s = wall_s()
            self._check(ends_s)
        if counted > load.count:
            raise RuntimeError(f"{counted} completions of {load.count} tasks are stored")
        return seen_s

    def count(self, load: Load) -> int:
        """Count the durable completions of a load that has its hours to itself."""
        after = first_key_at(load.due_ms(load.first))
        up_to = TaskKey(load.last_due_ms + 1, "", "")
        reads = [
            self._stores.status.load_completions(partition, after, up_to)
            for partition in range(self._partitions)
        ]
        wanted = f"{load.name}-"
        found = (each.key for read in reads for each in read.result(_TIMEOUT_S))
        return sum(
            key.ordering_id.startswith(wanted) and int(key.uniqueness_key) in load.numbers()
            for key in found
        )

    def wait_for_offsets(self, count: int) -> float:
        """Return the wall time at which the embedded log's offsets covered ``count`` records."""
        path = self._settings.embedded.folder / "log.db"
        ends_s = time.monotonic() + _TIMEOUT_S
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as log:
            while True:
                (committed,) = log.execute("SELECT sum(next_offset) FROM committed").fetchone()
                if (committed or 0) >= count:
                    return wall_s()
                self._check(ends_s)

    def _last_of_each_partition(
        self, load: Load, executions: Sequence[Execution]
    ) -> dict[int, TaskKey]:
        last: dict[int, TaskKey] = {}
        for execution in sorted(executions, key=lambda each: each.started_s):
            ordering_id = load.ordering_id(execution.number)
            last[partition_of(ordering_id, self._partitions)] = load.key(execution.number)
        return last

    def _check(self, ends_s: float) -> None:
        if time.monotonic() > ends_s:
            raise TimeoutError(f"completions are still missing after {_TIMEOUT_S:.0f} s")
        time.sleep(_POLL_S)
