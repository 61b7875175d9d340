"""Records of the embedded log as rows: their places, and how few statements write and find them."""

from pathlib import Path

from hourhand.scheduler.adapters.embedded.connection import open_connection
from hourhand.scheduler.adapters.embedded.folder import log_file
from hourhand.scheduler.adapters.embedded.records import (
    insert_records,
    read_ends,
    read_records,
)

PARTITIONS = 16


def test_records_of_many_partitions_are_appended_and_found_by_few_statements(
    tmp_path: Path,
) -> None:
    """For each step of a statement sqlite3 gives up the interpreter's lock and waits for it."""
    connection = open_connection(log_file(tmp_path))
    appended = [(n % PARTITIONS, b"key", b"%d" % n, None) for n in range(1_000)]
    insert_records(connection, appended[:3])
    statements: list[str] = []
    connection.set_trace_callback(statements.append)

    offsets = insert_records(connection, appended)
    ends = read_ends(connection)

    # 31 of 32 rows and some of the rest; one for the ends before, and two after.
    assert len(statements) <= 40
    assert offsets[:4] == [1, 1, 1, 0]
    assert sum(ends.values()) == len(appended) + 3
    found = read_records(connection, 5, 0, 1_000)
    assert [int(each.value or b"") for each in found] == list(range(5, 1_000, PARTITIONS))
    connection.close()
