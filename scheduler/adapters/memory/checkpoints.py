"""``CheckpointStore`` in memory."""

from collections.abc import Sequence

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.scheduler.adapters.memory.tables import MemoryTables, request


class MemoryCheckpoints(MemoryTables):
    """Rows of ``task_checkpoint``."""

    @request
    def insert_checkpoints(
        self, partition: int, checkpoints: Sequence[TaskCheckpoint], write_time: int
    ) -> None:
        """Write checkpoints; of two of one key in one call the last stands."""
        for each in {each.key: each for each in checkpoints}.values():
            self._data.checkpoints.insert(partition, each.key, each, write_time)

    @request
    def load_checkpoints(
        self, partition: int, after: TaskKey, up_to: TaskKey
    ) -> Sequence[TaskCheckpoint]:
        return self._data.checkpoints.between(partition, after, up_to)

    @request
    def find_checkpoints(self, partition: int, keys: Sequence[TaskKey]) -> Sequence[TaskCheckpoint]:
        return self._data.checkpoints.of_keys(partition, sorted(set(keys)))
