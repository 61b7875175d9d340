"""A ``LogWriter``'s group and listener for writers that have only a future for each record.

A group waits for its futures, the last one first.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from hourhand.actors.model.task.codec import Headers
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.ports.log import AppendListener, Position


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
        """Wait for every future; errors other than HourhandError are raised."""
        if self._futures:
            # The last of them first: usually that waits for all, because a log answers in order.
            self._futures[-1].exception()
        failures: dict[int, HourhandError] = {}
        for number, future in enumerate(self._futures):
            error = future.exception()
            if isinstance(error, HourhandError):
                failures[number] = error
            elif error is not None:
                raise error
        return failures


class FutureWriter(ABC):
    """The part of a ``LogWriter`` that follows from ``append``."""

    @abstractmethod
    def partition_count(self) -> int:
        """Return the number of partitions."""

    @abstractmethod
    def append(
        self, partition: int, key: bytes, value: bytes, headers: Headers = ()
    ) -> "Future[Position]":
        """Append a record."""

    def append_for(
        self, appended: AppendListener, partition: int, key: bytes, value: bytes
    ) -> None:
        """Append a record, and call ``appended`` with its future's result."""

        def tell(done: "Future[Position]") -> None:
            error = done.exception()
            if error is None:
                appended.set_result(done.result())
            else:
                appended.set_exception(error)

        self.append(partition, key, value).add_done_callback(tell)

    def begin_group(self) -> FutureGroup:
        """Return a group of futures."""
        return FutureGroup(self.append, self.partition_count())
