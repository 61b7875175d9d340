"""Appends system tasks and commands to the log.

It makes no decisions about them: a system task follows from an accepted request, so unlike the
client it refuses neither the past nor a size; the node runs everything that reached the log.
"""

from concurrent.futures import Future

from hourhand.actors.model.task.codec import (
    Command,
    CommandKind,
    encode_command,
    encode_json,
    encode_task,
)
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.task import Task
from hourhand.actors.ports.log import LogWriter, Position


class TaskAppender:
    """Appends to the partition of each ordering id; used from any thread."""

    def __init__(self, writer: LogWriter, partition_count: int) -> None:
        self._writer = writer
        self.partition_count = partition_count

    def partition_of(self, ordering_id: str) -> int:
        """Return the partition that an ordering id's tasks and definition belong to."""
        return partition_of(ordering_id, self.partition_count)

    def append(self, task: Task) -> "Future[Position]":
        """Append a task; the future resolves when the log holds it durably."""
        return self._append(task.ordering_id, encode_task(task))

    def append_record(self, ordering_id: str, record: bytes) -> "Future[Position]":
        """Append a whole record."""
        return self._append(ordering_id, record)

    def append_json(self, key: TaskKey, data: bytes) -> "Future[Position]":
        """Append a task whose data is already JSON text."""
        return self._append(key.ordering_id, encode_json(key, data))

    def cancel(self, key: TaskKey) -> "Future[Position]":
        """Append a command that cancels a key."""
        return self._append(key.ordering_id, encode_command(Command(CommandKind.CANCEL, key)))

    def reschedule(self, key: TaskKey, to_ms: int) -> "Future[Position]":
        """Append a command that moves a key to another time."""
        command = Command(CommandKind.RESCHEDULE, key, to_ms=to_ms)
        return self._append(key.ordering_id, encode_command(command))

    def _append(self, ordering_id: str, value: bytes) -> "Future[Position]":
        return self._writer.append(self.partition_of(ordering_id), ordering_id.encode(), value)
