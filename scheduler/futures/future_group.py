"""``AppendGroup`` on a writer that has nothing better than a future for each record.

Decides nothing: it asks the futures, the last one first.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future

from actors.model.errors import HourhandError
from actors.model.partition import partition_of
from actors.ports.log import Position


class FutureGroup:
    """Appends through ``append(partition, key, value)``; used by one thread."""

    def __init__(
        self, append: Callable[[int, bytes, bytes], "Future[Position]"], partition_count: int
    ) -> None:
        self._append = append
        self._partition_count = partition_count
        self._futures: list[Future[Position]] = []

    def append(self, ordering_id: str, value: bytes) -> None:
        """Append a record to the partition of its ordering id."""
        partition = partition_of(ordering_id, self._partition_count)
        self._futures.append(self._append(partition, ordering_id.encode(), value))

    def settle(self) -> Mapping[int, HourhandError]:
        """Wait for every future; what is not a HourhandError is raised."""
        if self._futures:
            # The last of them first: usually the one wait for all, as a log answers in order.
            self._futures[-1].exception()
        failures: dict[int, HourhandError] = {}
        for number, future in enumerate(self._futures):
            error = future.exception()
            if isinstance(error, HourhandError):
                failures[number] = error
            elif error is not None:
                raise error
        return failures
