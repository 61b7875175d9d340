"""``ScheduleStore`` in memory."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from itertools import accumulate

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.budget import PAGE_BYTES_MAX
from hourhand.actors.ports.store import KeysPage, TaskPage
from hourhand.scheduler.adapters.memory.tables import MemoryStores, View, check_hours


class MemorySchedule:
    """Rows of ``task_schedule``."""

    def __init__(self, data: MemoryStores, view: View) -> None:
        self._data = data
        self._tasks = data.tasks
        self._ask = view.ask

    def insert_tasks(
        self, partition: int, tasks: Sequence[StoredTask], write_time: int
    ) -> "Future[None]":
        """Write rows; of a task only the columns of a row."""
        written = {task.key: StoredTask(task.key, task.body, task.offset) for task in tasks}

        def effect() -> None:
            for task in written.values():
                self._tasks.insert(partition, task.key, task, write_time)

        return self._ask("insert_tasks", partition, effect)

    def load_tasks(
        self,
        partition: int,
        after: TaskKey,
        before_ms: int,
        limit: int,
        page_bytes: int = PAGE_BYTES_MAX,
    ) -> "Future[TaskPage]":
        """Read a page of a range."""
        return self._ask(
            "load_tasks",
            partition,
            lambda: self._page(self._tasks.before(partition, after, before_ms), limit, page_bytes),
        )

    def find_tasks(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Mapping[TaskKey, StoredTask]]":
        """Read single rows."""
        asked = tuple(keys)
        return self._ask(
            "find_tasks",
            partition,
            lambda: {key: row for key in asked for row in self._tasks.of_key(partition, key)},
        )

    def load_ordering(
        self,
        partition: int,
        ordering_id: str,
        after: TaskKey,
        up_to: TaskKey,
        limit: int,
        page_bytes: int = PAGE_BYTES_MAX,
    ) -> "Future[TaskPage]":
        """Read a page of one ordering id."""

        def effect() -> TaskPage:
            rows = self._tasks.between(partition, after, up_to)
            own = [row for row in rows if row.key.ordering_id == ordering_id]
            return self._page(own, limit, page_bytes)

        return self._ask("load_ordering", partition, effect)

    def find_keys(
        self, partition: int, after: TaskKey, before_ms: int, limit: int
    ) -> "Future[KeysPage]":
        """Read the keys of a page of a range."""

        def effect() -> KeysPage:
            rows = self._tasks.before(partition, after, before_ms)
            page = self._page(rows, limit, PAGE_BYTES_MAX)
            return KeysPage([row.key for row in page.tasks], page.complete)

        return self._ask("find_keys", partition, effect)

    def delete_tasks(
        self, partition: int, first_hour_ms: int, end_hour_ms: int, write_time: int
    ) -> "Future[int]":
        """Remove whole hours."""
        check_hours(first_hour_ms, end_hour_ms)

        def effect() -> int:
            held = self._tasks.hours(partition, first_hour_ms, end_hour_ms)
            self._tasks.delete(partition, first_hour_ms, end_hour_ms, write_time, held)
            return end_hour_ms

        return self._ask("delete_tasks", partition, effect)

    def _page(self, rows: Sequence[StoredTask], limit: int, page_bytes: int) -> TaskPage:
        limit = self._data.page_limit(limit)
        ends = accumulate(row.data_bytes for row in rows[:limit])
        limit = next((n for n, end in enumerate(ends, 1) if end >= page_bytes), limit)
        return TaskPage(rows[:limit], len(rows) <= limit)
