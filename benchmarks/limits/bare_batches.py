"""The bare driver's batch writes: the rows of a load, in same-row batches, and nothing else.

No file, no Spark, no check of a row, no look at who owns the partition: prepared statements bound
the usual way, the best size of batch, many in flight.  A bulk load is compared with it.
"""

import threading
from collections import defaultdict
from typing import Any

from cassandra.query import BatchStatement, BatchType

from benchmarks.loads import NOTE
from benchmarks.program import tell, told, wait_for_command
from benchmarks.records import wall_s
from hourhand import Settings
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.bucket import hour_of
from hourhand.scheduler.adapters.cassandra.connection import open_connection

_ROWS = 200
_IN_FLIGHT = 16
_IDS = 10_000
_HOURS = 48
_DAY_MS = 86_400_000
_WRITE_TIME = 1

Row = tuple[int, int, int, str, str, str, int, int]


def main() -> None:
    """Make the rows, wait for the word, write them, and say how long that took."""
    spec = told()
    settings = Settings(**spec["settings"])
    rows, partitions = int(spec["rows"]), settings.topic.partitions
    warming, buckets = (_rows(rows, partitions, days) for days in spec["days"])
    connection = open_connection(settings.cassandra)
    insert = connection.session.prepare(
        f"INSERT INTO {settings.cassandra.keyspace}.task_schedule (partition_id, hour,"
        " scheduled_time, ordering_id, uniqueness_key, data, log_offset)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
    )
    # The server compiles what it runs often, and the loader's has run the same before.
    _write(connection.session, insert, warming)
    tell("ready")
    if wait_for_command("go"):
        began_s = wall_s()
        _write(connection.session, insert, buckets)
        tell("done", seconds=wall_s() - began_s)
    connection.cluster.shutdown()


def _rows(count: int, partitions: int, days: int) -> list[list[Row]]:
    """Return the rows that ``make`` of the pipeline's program writes, by bucket."""
    found: defaultdict[tuple[int, int], list[Row]] = defaultdict(list)
    first_ms = int(wall_s() * 1000) + days * _DAY_MS
    step_ms = _HOURS * 3_600_000 // count
    for number in range(count):
        due_ms, ordering_id = first_ms + number * step_ms, f"customer-{number % _IDS}"
        place = (partition_of(ordering_id, partitions), hour_of(due_ms))
        data = f'{{"number":{number},"note":"{NOTE}"}}'
        row = (*place, due_ms, ordering_id, str(number), data, -1, _WRITE_TIME)
        found[place].append(row)
    return list(found.values())


def _write(session: Any, insert: Any, buckets: list[list[Row]]) -> None:
    room = threading.Semaphore(_IN_FLIGHT)
    failures: list[Exception] = []

    def failed(error: Exception) -> None:
        failures.append(error)
        room.release()

    for rows in buckets:
        for start in range(0, len(rows), _ROWS):
            batch = BatchStatement(BatchType.UNLOGGED)
            for row in rows[start : start + _ROWS]:
                batch.add(insert, row)
            room.acquire()
            session.execute_async(batch).add_callbacks(lambda _: room.release(), failed)
    for _ in range(_IN_FLIGHT):
        room.acquire()
    if failures:
        raise failures[0]


if __name__ == "__main__":
    main()
