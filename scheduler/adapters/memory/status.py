"""``StatusStore`` in memory: completions and attempts."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import AttemptRecord, Completion
from hourhand.scheduler.adapters.memory.tables import MemoryTables, check_hours, request


class MemoryStatus(MemoryTables):
    """Rows of ``task_status`` and ``attempt_history``."""

    @request
    def insert_completions(
        self, partition: int, completions: Sequence[Completion], write_time: int
    ) -> None:
        """Write completions; of two of one key in one call the last stands."""
        for each in {each.key: each for each in completions}.values():
            self._data.completions.insert(partition, each.key, each, write_time)

    @request
    def load_completions(
        self, partition: int, after: TaskKey, up_to: TaskKey, failed_max: int | None = None
    ) -> Sequence[Completion]:
        found = self._data.completions.between(partition, after, up_to)
        if failed_max is None:
            return found
        return [each for each in found if each.result.is_failed][:failed_max]

    @request
    def find_completions(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> Mapping[TaskKey, Completion]:
        return {each.key: each for each in self._data.completions.of_keys(partition, keys)}

    @request
    def insert_attempts(
        self, partition: int, attempts: Sequence[AttemptRecord], write_time: int
    ) -> None:
        """Write attempts; of two of one key and number in one call the last stands."""
        for each in {(each.key, each.attempt): each for each in attempts}.values():
            self._data.attempts.insert(partition, each.key, each, write_time, number=each.attempt)

    @request
    def load_attempts(
        self, partition: int, after: TaskKey, up_to: TaskKey
    ) -> Sequence[AttemptRecord]:
        return self._data.attempts.between(partition, after, up_to)

    @request
    def find_attempts(self, partition: int, keys: Sequence[TaskKey]) -> Sequence[AttemptRecord]:
        return self._data.attempts.of_keys(partition, sorted(set(keys)))

    def delete_statuses(
        self, partition: int, first_hour_ms: int, end_hour_ms: int, write_time: int
    ) -> "Future[int]":
        """Remove whole hours, and the outcomes of commands on keys of these hours."""
        check_hours(first_hour_ms, end_hour_ms)

        def effect() -> int:
            data = self._data
            tables = (data.completions, data.attempts, data.checkpoints, data.results)
            span = (partition, first_hour_ms, end_hour_ms)
            held = set().union(*(rows.hours(*span) for rows in tables))
            for rows in tables:
                rows.delete(*span, write_time, held)
            for place, (written, outcome) in list(self._data.outcomes.items()):
                in_hours = first_hour_ms <= outcome.key.scheduled_ms < end_hour_ms
                if place[0] == partition and in_hours and written <= write_time:
                    del self._data.outcomes[place]
            return end_hour_ms

        return self.ask("delete_statuses", partition, effect)
