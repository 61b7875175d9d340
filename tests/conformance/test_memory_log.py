"""Binds the log suite to the memory log, which makes it a verified fake.

The fake is for one thread.  The suite uses several, so this world lets one in at a time.
"""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

import pytest

from hourhand.actors.model.task.codec import Headers, LogRecord
from hourhand.actors.ports.log import (
    AssignmentListener,
    LogWriter,
    Polled,
    Position,
    StartPosition,
    TaskLog,
)
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.log import MemoryLog
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.configuration.settings import GroupSettings, Settings
from hourhand.scheduler.runtime.future_group import FutureWriter
from tests.conformance.log_bench import QUICK
from tests.conformance.task_log import TaskLogContract

RECORD_BYTES_MAX = 1_000_000


class OneAtATimeLog:
    """A log whose every call waits for its turn."""

    def __init__(self, log: TaskLog, turn: threading.RLock) -> None:
        self._log = log
        self._turn = turn

    def subscribe(self, listener: AssignmentListener) -> None:
        """Take a turn."""
        with self._turn:
            self._log.subscribe(listener)

    def start(
        self, partition: int, stored_next_offset: int | None, stored_topic_id: str = ""
    ) -> StartPosition:
        """Take a turn."""
        with self._turn:
            return self._log.start(partition, stored_next_offset, stored_topic_id)

    def seek(self, partition: int, next_offset: int | None) -> None:
        """Take a turn."""
        with self._turn:
            self._log.seek(partition, next_offset)

    def poll(self, records_max: int, timeout_ms: int) -> Polled:
        """Take a turn."""
        with self._turn:
            return self._log.poll(records_max, timeout_ms)

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        """Take a turn."""
        with self._turn:
            self._log.commit(next_offsets)

    def lease_ends_ms(self) -> float:
        """Need no turn: worker threads ask too."""
        return self._log.lease_ends_ms()

    def close(self) -> None:
        """Take a turn."""
        with self._turn:
            self._log.close()


class OneAtATimeWriter(FutureWriter):
    """A writer whose every call waits for its turn."""

    def __init__(self, writer: LogWriter, turn: threading.RLock) -> None:
        self._writer = writer
        self._turn = turn

    def partition_count(self) -> int:
        """Take a turn."""
        with self._turn:
            return self._writer.partition_count()

    def append(
        self, partition: int, key: bytes, value: bytes, headers: Headers = ()
    ) -> "Future[Position]":
        """Take a turn."""
        with self._turn:
            return self._writer.append(partition, key, value, headers)

    def dead_letter(self, record: LogRecord, reason: str) -> "Future[Position]":
        """Take a turn."""
        with self._turn:
            return self._writer.dead_letter(record, reason)

    def flush(self, timeout_ms: int) -> int:
        """Take a turn."""
        with self._turn:
            return self._writer.flush(timeout_ms)

    def close(self) -> None:
        """Take a turn."""
        with self._turn:
            self._writer.close()


class MemoryTopic:
    """A broker of its own."""

    def __init__(self, partitions: int) -> None:
        self._clock = SystemClock()
        self._broker = MemoryBroker(partitions, self._clock)
        self._turn = threading.RLock()

    def open_log(self, group: GroupSettings = QUICK) -> TaskLog:
        """Open a member."""
        log = MemoryLog(self._broker, Settings(group=group), self._clock)
        return OneAtATimeLog(log, self._turn)

    def open_writer(self) -> LogWriter:
        """Open a writer."""
        return OneAtATimeWriter(MemoryWriter(self._broker), self._turn)

    def dead_letters(self, count: int) -> Sequence[LogRecord]:
        """Return the first ``count`` dead letters."""
        letters, _ = self._broker.dead_letters.read(0, count)
        return letters

    def append_foreign(
        self, partition: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        """Append what no writer of ours would."""
        with self._turn:
            self._broker.partitions[partition].append(self._clock.now_ms(), key, value, headers)

    def trim(self, partition: int, before_offset: int) -> None:
        """Forget the records before an offset."""
        with self._turn:
            self._broker.partitions[partition].trim(before_offset)

    def make_anew(self) -> None:
        """Begin with nothing."""
        with self._turn:
            self._broker.make_anew()

    def close(self) -> None:
        """Do nothing: the broker goes with the test."""


class MemoryWorld:
    """A broker for each topic, under the machine's clock."""

    members_max = 2
    has_lease_expiry = True
    record_bytes_max = RECORD_BYTES_MAX
    bounds_batches = True
    loses_last_records = True
    topics_have_ids = True

    def __init__(self) -> None:
        self.clock = SystemClock()

    def create_topic(self, partitions: int) -> MemoryTopic:
        """Begin a broker."""
        return MemoryTopic(partitions)


@pytest.fixture(scope="module")
def log_world() -> MemoryWorld:
    """Brokers that know nothing of each other."""
    return MemoryWorld()


class TestMemoryLog(TaskLogContract):
    """Everything a log must do, as a plain value."""
