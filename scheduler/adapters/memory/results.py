"""``ResultStore`` in memory."""

from collections.abc import Sequence

from msgspec.structs import replace

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task_result import StoredResult
from hourhand.scheduler.adapters.memory.tables import MemoryTables, request


class MemoryResults(MemoryTables):
    """Rows of ``task_result``."""

    @request
    def insert_results(
        self, partition: int, results: Sequence[StoredResult], write_time: int
    ) -> None:
        """Write results; of two of one key in one call the last stands."""
        data = self._data
        for each in {each.key: each for each in results}.values():
            data.results.insert(partition, each.key, each, write_time)
            data.reached_ms = max(data.reached_ms, each.finished_ms)

    @request
    def find_results(self, partition: int, keys: Sequence[TaskKey]) -> Sequence[StoredResult]:
        """Read single rows; without their bodies those whose time was over at a later write."""
        rows = self._data.results.of_keys(partition, sorted(set(keys)))
        reached_ms = self._data.reached_ms
        return [r if r.kept_until_ms > reached_ms else replace(r, body=b"") for r in rows]
