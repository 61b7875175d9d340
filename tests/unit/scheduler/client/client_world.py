"""A client over a writer that the test controls: fakes shared by the tests of the client."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future

from hourhand.actors.model.operations.events import Event
from hourhand.actors.model.task.codec import Headers, LogRecord
from hourhand.actors.model.task.task import Task
from hourhand.actors.ports.log import Position
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.client.client import ClientPorts, SchedulerClient
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.runtime.future_group import FutureWriter
from tests.builders import NOW_MS, a_task

PARTITIONS = 4
"""Partitions of the log."""


class StandingClock:
    """Always ``NOW_MS``."""

    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> float:
        return 0.0


class HeldWriter(FutureWriter):
    """Keeps each record's future, for the test to settle; settles at once where told to."""

    def __init__(self, settle: Callable[[int, Future[Position]], None] | None = None) -> None:
        self.records: list[tuple[int, bytes, bytes]] = []
        self.futures: list[Future[Position]] = []
        self.closed = 0
        self._settle = settle

    def partition_count(self) -> int:
        return PARTITIONS

    def append(
        self, partition: int, key: bytes, value: bytes, headers: Headers = ()
    ) -> "Future[Position]":
        future: Future[Position] = Future()
        self.records.append((partition, key, value))
        self.futures.append(future)
        if self._settle is not None:
            self._settle(len(self.records) - 1, future)
        return future

    def dead_letter(self, record: LogRecord, reason: str) -> "Future[Position]":
        raise AssertionError("a client dead-letters nothing")

    def flush(self, timeout_ms: int) -> int:
        return 0

    def close(self) -> None:
        self.closed += 1

    @property
    def unsettled(self) -> int:
        return sum(not future.done() for future in self.futures)


class Noted:
    """Keeps every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


class World:
    """A client over a writer that the test controls."""

    def __init__(self, writer: HeldWriter, **client: int) -> None:
        self.writer = writer
        self.stores = open_memory_stores(MemoryStores())
        self.telemetry = Noted()
        ports = ClientPorts(writer, lambda: self.stores, StandingClock(), self.telemetry)
        self.client = SchedulerClient(Settings.model_validate({"client": client}), ports)


def acknowledge(index: int, future: "Future[Position]") -> None:
    """Settle a record as the log would."""
    future.set_result(Position(0, index))


def a_bulk(count: int) -> Iterator[Task]:
    """Yield tasks of different keys."""
    return (a_task(uniqueness_key=str(number)) for number in range(count))
