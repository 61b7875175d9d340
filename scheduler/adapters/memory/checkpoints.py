"""``CheckpointStore`` in memory."""

from collections.abc import Sequence
from concurrent.futures import Future

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.scheduler.adapters.memory.tables import MemoryStores, View


class MemoryCheckpoints:
    """Rows of ``task_checkpoint``."""

    def __init__(self, data: MemoryStores, view: View) -> None:
        self._data = data
        self._ask = view.ask

    def insert_checkpoints(
        self, partition: int, checkpoints: Sequence[TaskCheckpoint], write_time: int
    ) -> "Future[None]":
        """Write checkpoints."""
        written = tuple({each.key: each for each in checkpoints}.values())

        def effect() -> None:
            for each in written:
                self._data.checkpoints.insert(partition, each.key, each, write_time)

        return self._ask("insert_checkpoints", partition, effect)

    def load_checkpoints(
        self, partition: int, after: TaskKey, up_to: TaskKey
    ) -> "Future[Sequence[TaskCheckpoint]]":
        """Read a range."""
        rows = self._data.checkpoints
        return self._ask(
            "load_checkpoints", partition, lambda: rows.between(partition, after, up_to)
        )

    def find_checkpoints(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Sequence[TaskCheckpoint]]":
        """Read single rows."""
        asked = sorted(set(keys))
        rows = self._data.checkpoints
        return self._ask(
            "find_checkpoints",
            partition,
            lambda: [row for key in asked for row in rows.of_key(partition, key)],
        )
