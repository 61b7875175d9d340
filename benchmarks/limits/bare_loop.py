"""The bare loop: consume the records, write a row and a completion for each, and nothing else.

No order, no due time, no lease, no user code: the best way found of moving the same bytes with
the same drivers, so that Hourhand's share of it says what the engine costs.
"""

import threading
from collections import defaultdict
from typing import Any

import msgspec
from confluent_kafka import Consumer, TopicPartition

from actors.model.bucket import hour_of
from actors.model.instant import parse_instant
from benchmarks.limits.packing import PackedHandler, batch, head, number, text
from benchmarks.program import tell, told, wait_for_command
from benchmarks.records import wall_s
from scheduler import Settings
from scheduler.adapters.cassandra.connection import open_connection

ROWS = 100
IN_FLIGHT = 16
POLLED = 4_000
_POLL_S = 0.002
_WRITE_TIME = 1 << 41

SEGMENTS = (
    "CREATE TABLE IF NOT EXISTS {keyspace}.bare_segment (partition_id int, hour timestamp,"
    " segment bigint, keys blob, PRIMARY KEY ((partition_id, hour), segment))"
)


class _Record(msgspec.Struct, rename="camel"):
    ordering_id: str
    scheduled_time: str
    uniqueness_key: str
    task_data: msgspec.Raw


class Writer:
    """Writes rows and segments of completions, so many at a time."""

    def __init__(self, settings: Settings) -> None:
        self._connection = open_connection(settings.cassandra)
        session = self._connection.session
        session.client_protocol_handler = PackedHandler
        self._session = session
        keyspace = settings.cassandra.keyspace
        session.execute(SEGMENTS.format(keyspace=keyspace))
        self._insert = session.prepare(
            f"INSERT INTO {keyspace}.task_schedule (partition_id, hour, scheduled_time,"
            " ordering_id, uniqueness_key, data, log_offset) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " USING TIMESTAMP ?"
        )
        self._complete = session.prepare(
            f"INSERT INTO {keyspace}.bare_segment (partition_id, hour, segment, keys)"
            " VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
        )
        self._room = threading.Semaphore(IN_FLIGHT)
        self._failures: list[Exception] = []

    def write(self, partition: int, hour: int, rows: list[tuple[bytes, bytes, int]]) -> None:
        """Write one batch of rows and the segment that completes them."""
        start = head(self._insert, 8, partition, hour)
        end = number(_WRITE_TIME)
        self._send([start + key + data + end for key, data, _ in rows])
        keys = b"".join(key for key, _, _ in rows)
        segment = head(self._complete, 5, partition, hour, rows[0][2])
        self._send([segment + text(keys) + end])

    def settle(self) -> None:
        """Wait until everything is acknowledged; raises what went wrong."""
        for _ in range(IN_FLIGHT):
            self._room.acquire()
        if self._failures:
            raise self._failures[0]

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.cluster.shutdown()

    def _send(self, rows: list[bytes]) -> None:
        self._room.acquire()
        self._session.execute_async(batch(rows)).add_callbacks(self._written, self._failed)

    def _written(self, result: Any) -> None:
        self._room.release()

    def _failed(self, error: Exception) -> None:
        self._failures.append(error)
        self._room.release()


def _rows(messages: list[Any]) -> dict[tuple[int, int], list[tuple[bytes, bytes, int]]]:
    """Decode a batch of records and sort them by the row of the store they belong to."""
    decode = msgspec.json.Decoder(_Record).decode
    found: defaultdict[tuple[int, int], list[tuple[bytes, bytes, int]]] = defaultdict(list)
    for message in messages:
        if message.error() is not None:
            raise RuntimeError(str(message.error()))
        record, offset = decode(message.value()), message.offset()
        time_ms = parse_instant(record.scheduled_time)
        key = (
            number(time_ms)
            + text(record.ordering_id.encode())
            + text(record.uniqueness_key.encode())
        )
        data = text(bytes(record.task_data)) + number(offset)
        found[message.partition(), hour_of(time_ms)].append((key, data, offset))
    return found


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
        partitions = range(settings.topic.partitions)
        began_s, left = 0.0, int(spec["count"])
        consumer.assign([TopicPartition(settings.topic.name, each, 0) for each in partitions])
        while left:
            messages = consumer.consume(min(left, POLLED), _POLL_S)
            began_s = began_s or (wall_s() if messages else 0.0)
            left -= len(messages)
            for (partition, hour), rows in _rows(messages).items():
                for start in range(0, len(rows), ROWS):
                    writer.write(partition, hour, rows[start : start + ROWS])
        writer.settle()
        tell("done", began_s=began_s, ended_s=wall_s())
    consumer.close()
    writer.close()


if __name__ == "__main__":
    main()
