"""An embedded installation filled by hand: rows as a node would have left them."""

from collections.abc import Iterable
from pathlib import Path

from hourhand.actors.model.operations.ownership import EPOCH_SHIFT
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import AttemptRecord, Completion
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of
from hourhand.actors.ports.store import Stores
from hourhand.scheduler import wiring
from hourhand.scheduler.configuration.settings import Settings
from tests.builders import NOW_MS

PARTITIONS = 4
HOUR = hour_of(NOW_MS)
"""The hour of the tests' now."""


def settings_of(folder: Path) -> Settings:
    """Return the settings of an embedded installation in ``folder``."""
    return Settings(embedded={"folder": folder}, topic={"partitions": PARTITIONS})


def key_at(
    hours: float, ordering_id: str = "customer-7", uniqueness_key: str = "invoice-42"
) -> TaskKey:
    """Return a key due so many hours after the beginning of the tests' hour."""
    return TaskKey(HOUR + round(hours * HOUR_MS), ordering_id, uniqueness_key)


class Installation:
    """Opened once for a test; ``close`` it before a node starts."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        writer = wiring.open_writer(settings)
        self.partitions = writer.partition_count()
        writer.close()
        self.stores: Stores = wiring.open_stores(settings)
        self.stores.ownership.agree_partition_count(self.partitions).result(30)
        self._write_time = 1 << EPOCH_SHIFT

    def partition(self, key: TaskKey) -> int:
        """Return the partition that owns the key."""
        return partition_of(key.ordering_id, self.partitions)

    def add_tasks(self, keys: Iterable[TaskKey], data: bytes = b'{"invoice":42}') -> None:
        """Write schedule rows, as if accepted in this order."""
        for offset, key in enumerate(keys):
            row = StoredTask(key, data, offset)
            self._done(self.stores.schedule.insert_tasks(self.partition(key), [row], self._next()))

    def add_completions(self, completions: Iterable[Completion]) -> None:
        """Write completions."""
        for each in completions:
            owner = self.partition(each.key)
            self._done(self.stores.status.insert_completions(owner, [each], self._next()))

    def add_attempts(self, attempts: Iterable[AttemptRecord]) -> None:
        """Write attempts."""
        for each in attempts:
            owner = self.partition(each.key)
            self._done(self.stores.status.insert_attempts(owner, [each], self._next()))

    def close(self) -> None:
        """Let go of the folder."""
        self.stores.close()

    def _next(self) -> int:
        self._write_time += 1
        return self._write_time

    @staticmethod
    def _done(future: object) -> None:
        result = getattr(future, "result", None)
        assert result is not None, "stores answer with futures"
        result(30)
