"""Group commit: what shares a transaction, when futures resolve, what a failure touches."""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from hourhand.actors.model.values.errors import OwnershipLost, StoreUnavailable
from hourhand.scheduler.adapters.embedded.connection import open_connection
from hourhand.scheduler.adapters.embedded.database import Database
from hourhand.scheduler.adapters.embedded.folder import store_file
from hourhand.scheduler.adapters.embedded.seal import Row
from tests.unit.scheduler.adapters.embedded.files import WAIT_S, held_write_lock


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A database with one reader."""
    database = Database(store_file(tmp_path), readers=1)
    yield database
    database.close()


def put(name: str, value: object = 1) -> Callable[[sqlite3.Connection], None]:
    """Return work that writes one row."""

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO schedule_meta VALUES (?, ?)", (name, value))

    return work


def names(connection: sqlite3.Connection) -> set[str]:
    """Return the names of all rows."""
    return {name for (name,) in connection.execute("SELECT name FROM schedule_meta")}


def test_nothing_is_acknowledged_before_it_is_committed(database: Database) -> None:
    """While another process holds the lock no future resolves, and nobody sees a row."""
    outside = open_connection(database.file, read_only=True)
    seen: list[set[str]] = []
    with held_write_lock(database.file.path):
        futures = [database.write(put(f"row {number}")) for number in range(20)]
        for future in futures:
            future.add_done_callback(lambda _: seen.append(names(outside)))
        assert not any(future.done() for future in futures)
        assert not names(outside)
    for future in futures:
        future.result(WAIT_S)
    database.flush(WAIT_S)

    assert seen
    assert all(len(each) == 20 for each in seen[1:])
    assert "row 0" in seen[0]
    outside.close()


def test_what_queued_up_shares_a_transaction(database: Database) -> None:
    """A second connection counts one commit for many requests."""
    outside = open_connection(database.file, read_only=True)
    with held_write_lock(database.file.path):
        first = database.write(put("the first"))
        rest = [database.write(put(f"row {number}")) for number in range(500)]
    first.result(WAIT_S)
    versions = set()
    for future in rest:
        future.result(WAIT_S)
        versions.add(outside.execute("PRAGMA data_version").fetchone()[0])

    assert len(versions) <= 2
    outside.close()


def test_one_that_cannot_be_written_fails_alone(database: Database) -> None:
    """Its neighbours in the group are written anyway, once."""
    with held_write_lock(database.file.path):
        futures = [
            database.write(put(name, value))
            for name, value in (
                ("a", 1),
                ("b", object()),
                ("c", 2),
                ("a", 3),
                ("d", 2**80),
                ("e", 4),
            )
        ]
    failed = [future.exception(WAIT_S) is not None for future in futures]

    assert failed == [False, True, False, True, True, False]
    assert database.read(names).result(WAIT_S) == {"a", "c", "e"}


def test_rows_of_several_requests_are_written_together(database: Database) -> None:
    """In one call for each table, before work that may read them."""
    calls: list[tuple[str, list[Row]]] = []

    def insert(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
        calls.append(("insert", list(rows)))
        connection.executemany("INSERT INTO schedule_meta VALUES (?, ?)", rows)

    def other(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
        calls.append(("other", list(rows)))

    with held_write_lock(database.file.path):
        database.write(put("the first"))
        futures: list[Future[Any]] = [
            database.insert(insert, [("a", 1)]),
            database.insert(other, [("x", 1)]),
            database.insert(insert, [("b", 1), ("c", 1)]),
            database.write(lambda connection: names(connection) - {"the first"}),
            database.insert(insert, []),
            database.insert(insert, [("d", 1)]),
        ]

    assert [each.result(WAIT_S) for each in futures] == [
        None,
        None,
        None,
        {"a", "b", "c"},
        None,
        None,
    ]
    assert calls == [
        ("insert", [("a", 1), ("b", 1), ("c", 1)]),
        ("other", [("x", 1)]),
        ("insert", [("d", 1)]),
    ]
    assert database.read(names).result(WAIT_S) == {"the first", "a", "b", "c", "d"}


def test_rows_that_cannot_be_written_fail_their_own_request(database: Database) -> None:
    """What others gave beside them is written."""

    def insert(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
        connection.executemany("INSERT INTO schedule_meta VALUES (?, ?)", rows)

    with held_write_lock(database.file.path):
        database.write(put("the first"))
        good = database.insert(insert, [("good", 1)])
        bad = database.insert(insert, [("bad", 1), ("\ud800", 1)])
        late = database.insert(insert, [("late", 1)])
    good.result(WAIT_S)
    late.result(WAIT_S)
    with pytest.raises(UnicodeEncodeError):
        bad.result(WAIT_S)

    assert database.read(names).result(WAIT_S) == {"the first", "good", "late"}


def test_a_refusal_fails_alone_and_its_group_commits(database: Database) -> None:
    """An owner that was replaced costs the others nothing."""

    def refuse(connection: sqlite3.Connection) -> None:
        raise OwnershipLost(3, 4)

    with held_write_lock(database.file.path):
        before = database.write(put("before"))
        refused = database.write(refuse)
        after = database.write(put("after"))
    before.result(WAIT_S)
    after.result(WAIT_S)

    with pytest.raises(OwnershipLost):
        refused.result(WAIT_S)


def test_a_full_disk_fails_what_it_cannot_hold_and_nothing_later(database: Database) -> None:
    """Nothing is acknowledged that is not there; with room again all goes on."""

    def limit(connection: sqlite3.Connection, pages: int) -> None:
        connection.execute(f"PRAGMA max_page_count={pages}")

    database.write(lambda connection: limit(connection, 30)).result(WAIT_S)
    failure = database.write(put("large", b"x" * 1_000_000)).exception(WAIT_S)
    assert isinstance(failure, StoreUnavailable)
    assert "disk is full" in str(failure)
    assert database.read(names).result(WAIT_S) == set()

    database.write(lambda connection: limit(connection, 100_000)).result(WAIT_S)
    database.write(put("large", b"x" * 1_000_000)).result(WAIT_S)
    assert database.read(names).result(WAIT_S) == {"large"}


def test_a_lock_that_is_never_let_go_is_told(tmp_path: Path) -> None:
    """The wait is bounded."""
    database = Database(store_file(tmp_path), busy_ms=50)
    with held_write_lock(database.file.path):
        failure = database.write(put("a")).exception(WAIT_S)
    assert isinstance(failure, StoreUnavailable)
    assert "another process keeps it locked" in str(failure)
    database.write(put("b")).result(WAIT_S)
    database.close()


def test_long_work_lets_others_in_between_its_steps(database: Database) -> None:
    """A request made during a step is answered before the last one."""
    steps: list[int] = []
    others: list[Future[None]] = []
    first_step = threading.Event()

    def step(connection: sqlite3.Connection) -> bool:
        steps.append(len(steps))
        first_step.set()
        if len(steps) == 2:
            others.append(database.write(put("other")))
        return len(steps) < 5 or not others[0].done()

    database.write_in_steps(step, None).result(WAIT_S)

    assert first_step.is_set()
    assert others[0].result(WAIT_S) is None
    assert len(steps) == 5


def test_a_read_sees_what_was_acknowledged(database: Database) -> None:
    """Each time, though it runs on another connection."""
    for number in range(200):
        database.write(put(f"row {number}")).result(WAIT_S)
        assert f"row {number}" in database.read(names).result(WAIT_S)


def test_close_answers_everything_and_refuses_the_rest(tmp_path: Path) -> None:
    """What was asked for in time is durable."""
    database = Database(store_file(tmp_path), readers=1)
    futures = [database.write(put(f"row {number}")) for number in range(300)]
    database.close()
    database.close()

    assert [future.exception(0) for future in futures] == [None] * 300
    for late in (database.write(put("late")), database.read(names)):
        with pytest.raises(StoreUnavailable, match="was closed"):
            late.result(WAIT_S)
    connection = open_connection(store_file(tmp_path))
    assert len(names(connection)) == 300
    connection.close()
