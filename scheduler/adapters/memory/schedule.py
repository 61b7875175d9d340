"""``ScheduleStore`` in memory."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from itertools import accumulate

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.budget import PAGE_BYTES_MAX
from hourhand.actors.ports.store import KeysPage, TaskPage
from hourhand.scheduler.adapters.memory.tables import MemoryTables, check_hours, request


class MemorySchedule(MemoryTables):
    """Rows of ``task_schedule``."""

    @request
    def insert_tasks(self, partition: int, tasks: Sequence[StoredTask], write_time: int) -> None:
        """Write rows; of a task only the columns of a row."""
        for task in {task.key: task for task in tasks}.values():
            row = StoredTask(task.key, task.body, task.offset)
            self._data.tasks.insert(partition, task.key, row, write_time)

    @request
    def load_tasks(
        self,
        partition: int,
        after: TaskKey,
        before_ms: int,
        limit: int,
        page_bytes: int = PAGE_BYTES_MAX,
    ) -> TaskPage:
        return self._page(self._data.tasks.before(partition, after, before_ms), limit, page_bytes)

    @request
    def find_tasks(self, partition: int, keys: Sequence[TaskKey]) -> Mapping[TaskKey, StoredTask]:
        return {row.key: row for row in self._data.tasks.of_keys(partition, keys)}

    @request
    def load_ordering(
        self,
        partition: int,
        ordering_id: str,
        after: TaskKey,
        up_to: TaskKey,
        limit: int,
        page_bytes: int = PAGE_BYTES_MAX,
    ) -> TaskPage:
        rows = self._data.tasks.between(partition, after, up_to)
        own = [row for row in rows if row.key.ordering_id == ordering_id]
        return self._page(own, limit, page_bytes)

    @request
    def find_keys(self, partition: int, after: TaskKey, before_ms: int, limit: int) -> KeysPage:
        rows = self._data.tasks.before(partition, after, before_ms)
        page = self._page(rows, limit, PAGE_BYTES_MAX)
        return KeysPage([row.key for row in page.tasks], page.complete)

    def delete_tasks(
        self, partition: int, first_hour_ms: int, end_hour_ms: int, write_time: int
    ) -> "Future[int]":
        check_hours(first_hour_ms, end_hour_ms)

        def effect() -> int:
            rows = self._data.tasks
            held = rows.hours(partition, first_hour_ms, end_hour_ms)
            rows.delete(partition, first_hour_ms, end_hour_ms, write_time, held)
            return end_hour_ms

        return self.ask("delete_tasks", partition, effect)

    def _page(self, rows: Sequence[StoredTask], limit: int, page_bytes: int) -> TaskPage:
        limit = self._data.page_limit(limit)
        ends = accumulate(row.data_bytes for row in rows[:limit])
        limit = next((n for n, end in enumerate(ends, 1) if end >= page_bytes), limit)
        return TaskPage(rows[:limit], len(rows) <= limit)
