"""``ResultStore`` in memory."""

from collections.abc import Sequence
from concurrent.futures import Future

from msgspec.structs import replace

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task_result import StoredResult
from hourhand.scheduler.adapters.memory.tables import MemoryStores, View


class MemoryResults:
    """Rows of ``task_result``."""

    def __init__(self, data: MemoryStores, view: View) -> None:
        self._data = data
        self._ask = view.ask

    def insert_results(
        self, partition: int, results: Sequence[StoredResult], write_time: int
    ) -> "Future[None]":
        """Write results."""
        written = tuple({each.key: each for each in results}.values())

        def effect() -> None:
            for each in written:
                self._data.results.insert(partition, each.key, each, write_time)
                self._data.reached_ms = max(self._data.reached_ms, each.finished_ms)

        return self._ask("insert_results", partition, effect)

    def find_results(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Sequence[StoredResult]]":
        """Read single rows; without their bodies those whose time was over at a later write."""
        asked, data = sorted(set(keys)), self._data

        def found() -> list[StoredResult]:
            rows = [row for key in asked for row in data.results.of_key(partition, key)]
            reached_ms = data.reached_ms
            return [r if r.kept_until_ms > reached_ms else replace(r, body=b"") for r in rows]

        return self._ask("find_results", partition, found)
