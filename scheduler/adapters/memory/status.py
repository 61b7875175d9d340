"""``StatusStore`` in memory: completions and attempts."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import AttemptRecord, Completion
from hourhand.scheduler.adapters.memory.tables import MemoryStores, View, check_hours


class MemoryStatus:
    """Rows of ``task_status`` and ``attempt_history``."""

    def __init__(self, data: MemoryStores, view: View) -> None:
        self._data = data
        self._ask = view.ask

    def insert_completions(
        self, partition: int, completions: Sequence[Completion], write_time: int
    ) -> "Future[None]":
        """Write completions."""
        written = tuple({each.key: each for each in completions}.values())

        def effect() -> None:
            for each in written:
                self._data.completions.insert(partition, each.key, each, write_time)

        return self._ask("insert_completions", partition, effect)

    def load_completions(
        self, partition: int, after: TaskKey, up_to: TaskKey, failed_max: int | None = None
    ) -> "Future[Sequence[Completion]]":
        """Read a range."""

        def effect() -> Sequence[Completion]:
            found = self._data.completions.between(partition, after, up_to)
            if failed_max is None:
                return found
            return [each for each in found if each.result.is_failed][:failed_max]

        return self._ask("load_completions", partition, effect)

    def find_completions(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Mapping[TaskKey, Completion]]":
        """Read single rows."""
        asked = tuple(keys)
        rows = self._data.completions
        return self._ask(
            "find_completions",
            partition,
            lambda: {key: row for key in asked for row in rows.of_key(partition, key)},
        )

    def insert_attempts(
        self, partition: int, attempts: Sequence[AttemptRecord], write_time: int
    ) -> "Future[None]":
        """Write attempts."""
        written = tuple({(each.key, each.attempt): each for each in attempts}.values())

        def effect() -> None:
            for each in written:
                self._data.attempts.insert(
                    partition, each.key, each, write_time, number=each.attempt
                )

        return self._ask("insert_attempts", partition, effect)

    def load_attempts(
        self, partition: int, after: TaskKey, up_to: TaskKey
    ) -> "Future[Sequence[AttemptRecord]]":
        """Read a range."""
        return self._ask(
            "load_attempts",
            partition,
            lambda: self._data.attempts.between(partition, after, up_to),
        )

    def find_attempts(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Sequence[AttemptRecord]]":
        """Read all attempts of single keys."""
        asked = sorted(set(keys))
        rows = self._data.attempts
        return self._ask(
            "find_attempts",
            partition,
            lambda: [row for key in asked for row in rows.of_key(partition, key)],
        )

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

        return self._ask("delete_statuses", partition, effect)
