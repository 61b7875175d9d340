"""An application: each of its transactions inserts a row, and schedules a task for now.

It notes the number of each transaction when it is committed.  Several threads take turns.
"""

import threading
import time
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.loads import data_of
from benchmarks.program import tell, told, wait_for_command
from benchmarks.records import Records, wall_s
from hourhand import Task, outbox

_IDS = 1_000


def main() -> None:
    """Get ready, wait for the word, commit everything, and say when that was."""
    spec = told()
    records = Records(Path(spec["records"]), spec["slots"])
    connections = [psycopg.connect(spec["url"]) for _ in range(spec["writers"])]
    tell("ready")
    if wait_for_command("go"):
        began_s = wall_s()
        _run(spec, records, connections)
        tell("done", began_s=began_s, ended_s=wall_s())
    for connection in connections:
        connection.close()


def _run(spec: dict[str, Any], records: Records, connections: list[Any]) -> None:
    # A step of ``count`` is atomic under the interpreter's lock.
    numbers, failures = count(), list[BaseException]()
    began_s = time.monotonic()

    def work(connection: Any) -> None:
        try:
            while (number := next(numbers)) < spec["count"]:
                if spec["rate"]:
                    time.sleep(max(0.0, began_s + number / spec["rate"] - time.monotonic()))
                _transact(connection, number)
                records.note(number)
        except BaseException as error:  # noqa: BLE001 - raised where all are waited for
            failures.append(error)

    threads = [threading.Thread(target=work, args=(each,)) for each in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _transact(connection: Any, number: int) -> None:
    with connection.transaction():
        connection.execute("INSERT INTO invoice (number) VALUES (%s)", (number,))
        task = Task(
            ordering_id=f"customer-{number % _IDS}",
            scheduled_time=datetime.now(UTC),
            uniqueness_key=str(number),
            data=data_of(number),
        )
        outbox.schedule(connection, task)


if __name__ == "__main__":
    main()
