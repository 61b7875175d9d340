"""The bare loop: consume the records, write a row and a completion for each, and nothing else.

No order, no due time, no lease, no user code, and nothing of the engine but its settings and
how it talks to Cassandra: the best way found of moving the same bytes with the same drivers, so
that Hourhand's share of it says what the engine costs.  A request holds the rows of one hour of
one partition and the segment that completes them, which is one mutation of one Cassandra
partition.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec
from confluent_kafka import Consumer, TopicPartition

from benchmarks.program import tell, told, wait_for_command
from benchmarks.records import wall_s
from hourhand import Settings
from hourhand.scheduler.adapters.cassandra.connection import open_connection
from hourhand.scheduler.adapters.cassandra.packing import (
    RowPrefix,
    packed_bigint,
    packed_bytes,
    packed_int,
)

ROWS = 200
IN_FLIGHT = 16
POLLED = 4_000
_POLL_S = 0.002
_HOUR_MS = 3_600_000
_WRITE_TIME = packed_bigint(1 << 41)

SEGMENTS = (
    "CREATE TABLE IF NOT EXISTS {keyspace}.bare_segment (partition_id int, hour timestamp,"
    " segment bigint, keys blob, PRIMARY KEY ((partition_id, hour), segment))"
)

Place = tuple[int, int]
"""A partition and an hour."""
Row = tuple[bytes, bytes]
"""The key of a task, and what stands behind it."""


class _Record(msgspec.Struct, rename="camel", gc=False):
    ordering_id: str
    scheduled_time: str
    uniqueness_key: str
    task_data: msgspec.Raw


_decode = msgspec.json.Decoder(_Record).decode


class Writer:
    """Writes rows and segments of completions, so many requests at a time."""

    def __init__(self, settings: Settings) -> None:
        self._connection = open_connection(settings.cassandra)
        self._session = self._connection.session
        keyspace = settings.cassandra.keyspace
        self._session.execute(SEGMENTS.format(keyspace=keyspace))
        self._insert = self._session.prepare(
            f"INSERT INTO {keyspace}.task_schedule (partition_id, hour, scheduled_time,"
            " ordering_id, uniqueness_key, data, log_offset) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " USING TIMESTAMP ?"
        )
        self._complete = self._session.prepare(
            f"INSERT INTO {keyspace}.bare_segment (partition_id, hour, segment, keys)"
            " VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
        )
        self._segments = 0
        self._room = threading.Semaphore(IN_FLIGHT)
        self._failures: list[Exception] = []

    def write(self, place: Place, rows: Sequence[Row]) -> None:
        """Write rows and the segments that complete them."""
        columns = packed_int(place[0]), packed_bigint(place[1])
        task, segment = (RowPrefix(each, *columns) for each in (self._insert, self._complete))
        for start in range(0, len(rows), ROWS):
            piece = rows[start : start + ROWS]
            packed = [b"".join((task.packed, key, rest, _WRITE_TIME)) for key, rest in piece]
            self._segments += 1
            keys = packed_bytes(b"".join(key for key, _ in piece))
            number = packed_bigint(self._segments)
            packed.append(b"".join((segment.packed, number, keys, _WRITE_TIME)))
            self._room.acquire()
            sent = self._session.execute_async(task.batch(packed))
            sent.add_callbacks(self._written, self._failed)

    def settle(self) -> None:
        """Wait until everything is acknowledged; raises what went wrong."""
        for _ in range(IN_FLIGHT):
            self._room.acquire()
        if self._failures:
            raise self._failures[0]

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.cluster.shutdown()

    def _written(self, result: Any) -> None:
        self._room.release()

    def _failed(self, error: Exception) -> None:
        self._failures.append(error)
        self._room.release()


@lru_cache(maxsize=4_096)
def _second_ms(text: str) -> int:
    return int(datetime.fromisoformat(text + "+00:00").timestamp()) * 1_000


def _rows(messages: Iterable[Any]) -> dict[Place, list[Row]]:
    """Decode a batch of records and sort them by the row of the store they belong to."""
    found: defaultdict[Place, list[Row]] = defaultdict(list)
    for message in messages:
        if message.error() is not None:
            raise RuntimeError(str(message.error()))
        record = _decode(message.value())
        time = record.scheduled_time
        time_ms = _second_ms(time[:19]) + int(time[20:23])
        ids = (
            packed_bytes(record.ordering_id.encode()),
            packed_bytes(record.uniqueness_key.encode()),
        )
        key = b"".join((packed_bigint(time_ms), *ids))
        rest = packed_bytes(bytes(record.task_data)) + packed_bigint(message.offset())
        found[message.partition(), time_ms - time_ms % _HOUR_MS].append((key, rest))
    return found


def _move(consumer: Consumer, writer: Writer, settings: Settings, left: int) -> float:
    """Move ``left`` records; returns when the first of them came."""
    began_s = 0.0
    topic, partitions = settings.topic.name, range(settings.topic.partitions)
    consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
    while left:
        messages = consumer.consume(min(left, POLLED), _POLL_S)
        if messages:
            began_s = began_s or wall_s()
            left -= len(messages)
            for place, rows in _rows(messages).items():
                writer.write(place, rows)
    writer.settle()
    return began_s


def main() -> None:
    """Get ready, wait for the word, move everything, and say how long it took."""
    spec = told()
    settings = Settings(**spec["settings"])
    writer = Writer(settings)
    consumer = Consumer(
        {
            "bootstrap.servers": settings.kafka.bootstrap_servers,
            "group.id": f"{settings.group.id}-bare",
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": 65_536,
        }
    )
    consumer.list_topics(settings.topic.name, timeout=10)
    tell("ready")
    if wait_for_command("go"):
        began_s = _move(consumer, writer, settings, int(spec["count"]))
        tell("done", began_s=began_s, ended_s=wall_s())
    consumer.close()
    writer.close()


if __name__ == "__main__":
    main()
