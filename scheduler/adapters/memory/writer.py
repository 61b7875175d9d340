"""``LogWriter`` on a ``MemoryBroker``, and ``MessageWriter``."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from hourhand.actors.model.task.codec import Headers, LogRecord
from hourhand.actors.model.values.errors import HourhandError, NodeStopped, TaskTooLarge
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import Position
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.delivery import Deliver, Request
from hourhand.scheduler.ports.dead_letters import LEFT_OUT, letter_headers
from hourhand.scheduler.runtime.future_group import FutureWriter

RECORD_BYTES_MAX = 1_000_000

_TOPIC = "memory"


class MemoryWriter(FutureWriter):
    """Appends to a broker's partitions."""

    def __init__(
        self,
        broker: MemoryBroker,
        deliver: Deliver | None = None,
        record_bytes_max: int = RECORD_BYTES_MAX,
    ) -> None:
        """``deliver`` carries requests where that is not the broker's own matter;
        ``record_bytes_max`` is what ``client.record_bytes_max`` is to other writers.
        """
        self._broker = broker
        self._deliver = deliver
        self._record_bytes_max = record_bytes_max
        self._unacknowledged = 0
        self._closed = False

    def partition_count(self) -> int:
        """Return the broker's number of partitions."""
        return len(self._broker.partitions)

    def append(
        self, partition: int, key: bytes, value: bytes, headers: Headers = ()
    ) -> "Future[Position]":
        """Append a record; TaskTooLarge above this writer's limit and above the broker's."""
        if not 0 <= partition < self.partition_count():
            raise ValueError(f"partition {partition} is not one of {self.partition_count()}")
        timestamp_ms = self._broker.clock.now_ms()
        size_bytes, limit_bytes = len(key) + len(value), self._record_bytes_max

        def effect() -> Position:
            self._broker.check_leader(partition)
            if size_bytes > limit_bytes:
                raise TaskTooLarge(f"the record has {size_bytes} bytes, {limit_bytes} are allowed")
            self._broker.check_size(key, value, headers)
            # Only now: the topic may have been recreated meanwhile.
            stored = self._broker.partitions[partition]
            return Position(partition, stored.append(timestamp_ms, key, value, headers))

        return self._ask("append", partition, effect)

    def dead_letter(self, record: LogRecord, reason: str) -> "Future[Position]":
        """Append a record, the reason and its place to the broker's dead letters.

        If the record is too large for them, a letter without it is appended.
        """
        noted = letter_headers(_TOPIC, record, reason)
        timestamp_ms = self._broker.clock.now_ms()
        letters = self._broker.dead_letters

        def effect() -> Position:
            whole = (record.key, record.value, [*record.headers, *noted])
            try:
                self._broker.check_size(*whole)
            except TaskTooLarge:
                short = [*noted, *LEFT_OUT]
                self._broker.check_size(None, None, short)
                return Position(0, letters.append(timestamp_ms, None, None, short))
            return Position(0, letters.append(timestamp_ms, *whole))

        return self._ask("dead_letter", record.partition, effect)

    def flush(self, timeout_ms: int) -> int:
        """Return how many records are still unacknowledged; never waits."""
        return self._unacknowledged

    def close(self) -> None:
        """Take nothing more."""
        self._closed = True

    def _ask(self, kind: str, partition: int, effect: Callable[[], Position]) -> "Future[Position]":
        request = Request(kind, partition, effect)
        if self._closed:
            request.fail(NodeStopped("the log was closed; open a new client to schedule tasks"))
            return request.future
        self._unacknowledged += 1
        request.future.add_done_callback(self._acknowledge)
        (self._deliver or self._broker.deliver)(request)
        return request.future

    def _acknowledge(self, _done: "Future[Position]") -> None:
        self._unacknowledged -= 1


class MemoryMessage(NamedTuple):
    """A message as it was produced."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    produced_ms: int


class MemoryMessages:
    """Keeps what was produced, in order."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.messages: list[MemoryMessage] = []
        self.failures: dict[str, HourhandError] = {}
        """By topic: what producing to it fails with."""

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "Future[None]":
        """Keep a message, or fail as the test asked for."""
        future: Future[None] = Future()
        if topic in self.failures:
            future.set_exception(self.failures[topic])
            return future
        kept = MemoryMessage(topic, key, value, tuple(headers), self._clock.now_ms())
        self.messages.append(kept)
        future.set_result(None)
        return future

    def close(self) -> None:
        """Keep everything."""
