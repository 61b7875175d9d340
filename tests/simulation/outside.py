"""A writer beside the log, as the pipeline is: rows straight into the store, then the log.

It keeps the rule such writers have: first its rows are durable, then it looks how far the
partition's owner has loaded, and sends every row below that through the log.  How long it
sleeps in between is the run's random numbers' matter.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from itertools import count
from typing import Any

from hourhand.actors.model.operations.ownership import Claim
from hourhand.actors.model.task.codec import encode_data, encode_task
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.row_text import row_text
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.ports.log import LogWriter
from hourhand.actors.ports.store import Stores
from tests.simulation.task_maker import TaskMaker

RETRY_MS = 150.0

After = Callable[[float, Callable[[], None]], None]
"""Does something later, in so many milliseconds."""


class OutsideWriter:
    """Writes batches of rows, each all the way, whatever fails meanwhile."""

    def __init__(
        self,
        *,
        maker: TaskMaker,
        stores: Stores,
        writer: LogWriter,
        after: After,
        note_written: Callable[[int, TaskKey], None],
        note_left: Callable[[TaskKey], None],
        pause_ms: int,
        rng: random.Random,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._maker = maker
        self._stores = stores
        self._writer = writer
        self._after = after
        self._note_written = note_written
        self._note_left = note_left
        self._pause_ms = pause_ms
        self._rng = rng
        self._write_times = count(1)
        """Below those of every owner."""

    def write_batch(self) -> None:
        """Begin with a few rows of one partition."""
        ordering_id = self._maker.healthy_id()
        partition = partition_of(ordering_id, self._writer.partition_count())
        tasks = [self._make(ordering_id) for _ in range(self._rng.randrange(1, 4))]
        rows = tuple(StoredTask(task.key, _row_data(task), -1) for task in tasks)
        write_time = next(self._write_times)
        self._insist(
            lambda: self._stores.schedule.insert_tasks(partition, rows, write_time),
            lambda _: self._pause(partition, tasks),
        )

    def _make(self, ordering_id: str) -> Task:
        key = TaskKey(self._maker.time_ms(), ordering_id, self._maker.next_name())
        return self._maker.task(key, self._maker.data(ordering_id))

    def _pause(self, partition: int, tasks: Iterable[Task]) -> None:
        """The rows are durable: look at the mark now, or after any time."""
        longest_ms = self._rng.choice((1, 500, self._pause_ms))
        delay_ms = self._rng.uniform(0.0, self._maker.paced(longest_ms))
        self.counts["outside writer paused"] += longest_ms > 1
        for task in tasks:
            self._note_written(partition, task.key)
        self._after(delay_ms, lambda: self._look(partition, tasks))

    def _look(self, partition: int, tasks: Iterable[Task]) -> None:
        self._insist(
            lambda: self._stores.ownership.read_watermark(partition),
            lambda claim: self._tell(partition, tasks, claim),
        )

    def _tell(self, partition: int, tasks: Iterable[Task], claim: Claim | None) -> None:
        """Send through the log what the owner may not have seen; all, where there is none."""
        for task in tasks:
            if claim is None or task.key.scheduled_ms < claim.watermark.loaded_until_ms:
                self.counts["outside row told through the log"] += 1
                ordering_id, value = task.ordering_id.encode(), encode_task(task)
                append = partial(self._writer.append, partition, ordering_id, value)
                self._insist(append, lambda _: None)
            else:
                self.counts["outside row left to be loaded"] += 1
                self._note_left(task.key)

    def _insist(self, ask: Callable[[], "Future[Any]"], then: Callable[[Any], None]) -> None:
        """Ask until it is answered."""

        def answered(done: "Future[Any]") -> None:
            if done.exception() is None:
                then(done.result())
            else:
                self._after(RETRY_MS, lambda: self._insist(ask, then))

        ask().add_done_callback(answered)


def _row_data(task: Task) -> bytes:
    return row_text(encode_data(task), task.kind, task.priority, expiry=task.expiry)
