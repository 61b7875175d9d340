"""The contract of ``OutboxTable`` and of what writes into it, on a real database.

A test class binds it by a fixture ``world``, whose table has been migrated and is empty.
"""

from collections.abc import Callable
from typing import Any

import pytest

from hourhand.actors.model.task.codec import Command, CommandKind, LogRecord, decode_record
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.errors import (
    InvalidTask,
    SchemaMissing,
    TaskInThePast,
    TaskTooLarge,
)
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.outbox.ports import OutboxTable
from hourhand.scheduler.outbox.scheduling import Outbox
from hourhand.scheduler.outbox.table import Dialect, migration_statements
from tests.builders import NOW_MS, a_task
from tests.unit.scheduler.client.client_world import StandingClock


class OutboxWorld:
    """A database with an outbox: connections of users, and tables as movers see them."""

    def __init__(
        self,
        connect: Callable[[], Any],
        open_table: Callable[[], OutboxTable],
        migrate: Callable[[], list[str]],
        *,
        dialect: Dialect,
        refusal: type[Exception],
    ) -> None:
        """``refusal`` is what the driver raises where the table does not take a row."""
        self.connect = connect
        """Opens a connection whose transaction begins with the first statement."""
        self.open_table = open_table
        self.migrate = migrate
        self.dialect = dialect
        self.refusal = refusal
        self.mark = "?" if dialect is Dialect.SQLITE else "%s"
        self.outbox = Outbox(Settings(), StandingClock())


def names_of(table: OutboxTable, rows_max: int = 100) -> list[str]:
    """Claim rows and return the uniqueness keys of their tasks; nothing is deleted."""
    with table.claim(rows_max) as claimed:
        return [_name_of(row.record) for row in claimed.rows]


def _name_of(record: bytes) -> str:
    read = decode_record(LogRecord(0, 0, 0, None, record))
    is_cancel = isinstance(read, Command) and read.kind is CommandKind.CANCEL
    return ("cancel " if is_cancel else "") + read.key.uniqueness_key


def insert_row(connection: Any, lane: int, record: bytes, mark: str) -> None:
    """Write a row by hand; ``mark`` is the driver's for a value."""
    insert = "INSERT INTO hourhand_outbox (lane, record, written_ms) VALUES"
    connection.execute(f"{insert} ({mark}, {mark}, {mark})", (lane, record, NOW_MS))


def _fail_within_a_claim(table: OutboxTable) -> None:
    with table.claim(10) as claimed:
        claimed.delete([row.number for row in claimed.rows])
        raise RuntimeError("a mover failed")


class OutboxSuite:
    """The contract of every outbox."""

    def test_a_committed_row_is_claimed_as_the_record_of_a_client(self, world: OutboxWorld) -> None:
        """Byte for byte, whatever the ids hold."""
        task = a_task(
            ordering_id="a\0ü,\U0001f600",
            uniqueness_key="",
            data={"x": [None, "\0"]},
            kind="mail",
            priority=0,
        )
        with world.connect() as connection:
            key = world.outbox.schedule(connection, task)

        table = world.open_table()
        with table.claim(10) as claimed:
            (row,) = claimed.rows
            assert world.outbox._admission.admit(task) == (key, row.record)
            assert key == task.key
            read = decode_record(LogRecord(0, 0, 0, None, row.record))
            assert isinstance(read, StoredTask) and read.to_task() == task
        table.close()

    def test_rows_are_seen_once_committed_and_never_when_rolled_back(
        self, world: OutboxWorld
    ) -> None:
        """Savepoints are the database's matter as well."""
        table = world.open_table()
        connection = world.connect()
        world.outbox.schedule(connection, a_task(uniqueness_key="a"))
        assert names_of(table) == []
        connection.rollback()
        assert names_of(table) == []

        world.outbox.schedule(connection, a_task(uniqueness_key="b"))
        connection.execute("SAVEPOINT inner_one")
        world.outbox.schedule(connection, a_task(uniqueness_key="c"))
        connection.execute("ROLLBACK TO SAVEPOINT inner_one")
        connection.commit()
        assert names_of(table) == ["b"]
        connection.close()
        table.close()

    def test_a_cancellation_stands_behind_what_was_scheduled(self, world: OutboxWorld) -> None:
        """Within a transaction and between two."""
        with world.connect() as connection:
            keys = world.outbox.schedule_many(
                connection, [a_task(uniqueness_key=name) for name in "abc"]
            )
            assert world.outbox.cancel(connection, keys[0]) == keys[0]
        with world.connect() as connection:
            world.outbox.cancel(connection, keys[2])

        table = world.open_table()
        assert names_of(table) == ["a", "b", "c", "cancel a", "cancel c"]
        table.close()

    def test_a_caller_hears_of_its_mistake_and_nothing_is_written(self, world: OutboxWorld) -> None:
        """Of several tasks either all are written or none."""
        connection = world.connect()
        late = a_task(due_in_ms=-60_000)
        with pytest.raises(TaskInThePast):
            world.outbox.schedule_many(connection, [a_task(), late])
        with pytest.raises(TaskTooLarge):
            world.outbox.schedule(connection, a_task(data={"text": "x" * 1_000_000}))
        with pytest.raises(InvalidTask):
            world.outbox.schedule(connection, "a task")  # type: ignore[arg-type]
        connection.commit()
        connection.close()

        table = world.open_table()
        assert names_of(table) == []
        table.close()

    def test_what_a_claim_does_not_delete_is_claimed_again(self, world: OutboxWorld) -> None:
        """Also where the claim ends with an exception, which deletes nothing."""
        with world.connect() as connection:
            world.outbox.schedule_many(connection, [a_task(uniqueness_key=each) for each in "abc"])

        table = world.open_table()
        with table.claim(2) as claimed:
            assert [_name_of(row.record) for row in claimed.rows] == ["a", "b"]
            claimed.delete([claimed.rows[0].number])
        with pytest.raises(RuntimeError, match="a mover failed"):
            _fail_within_a_claim(table)
        assert names_of(table) == ["b", "c"]
        table.close()

    def test_a_claim_that_holds_not_all_rows_knows_the_newest_of_its_keys(
        self, world: OutboxWorld
    ) -> None:
        """Of keys without more rows there is none, nor where all rows are claimed."""
        with world.connect() as connection:
            keys = world.outbox.schedule_many(
                connection, [a_task(uniqueness_key=name) for name in "abc"]
            )
            world.outbox.schedule(connection, a_task(uniqueness_key="a", data={"version": 2}))
            world.outbox.cancel(connection, keys[0])
            world.outbox.cancel(connection, keys[2])

        table = world.open_table()
        with table.claim(2) as claimed:
            assert [_name_of(row.record) for row in claimed.rows] == ["a", "b"]
            assert [_name_of(row.record) for row in claimed.newest] == ["cancel a"]
        with table.claim(3) as claimed:
            assert sorted(_name_of(row.record) for row in claimed.newest) == [
                "cancel a",
                "cancel c",
            ]
        with table.claim(7) as claimed:
            assert len(claimed.rows) == 6
            assert claimed.newest == []
        table.close()

    def test_two_movers_never_claim_rows_of_one_ordering_id(self, world: OutboxWorld) -> None:
        """The second gets other ids, or none, until the first is done."""
        with world.connect() as connection:
            for number in range(20):
                world.outbox.schedule(
                    connection, a_task(ordering_id="x", uniqueness_key=f"{number}")
                )

        first, second = world.open_table(), world.open_table()
        with first.claim(5) as claimed:
            assert len(claimed.rows) == 5
            assert names_of(second) == []
        first.close()
        assert names_of(second) == [str(number) for number in range(20)]
        second.close()

    def test_rows_are_passed_over(self, world: OutboxWorld) -> None:
        """As if they were not there: also as the newest of a key, and where a claim is full."""
        with world.connect() as connection:
            for version in range(3):
                world.outbox.schedule(
                    connection, a_task(uniqueness_key="a", data={"version": version})
                )
            world.outbox.schedule_many(connection, [a_task(uniqueness_key=each) for each in "bc"])

        table = world.open_table()
        with table.claim(10) as claimed:
            first, second, third, fourth, fifth = (row.number for row in claimed.rows)
        with table.claim(1, [third]) as claimed:
            assert [row.number for row in (*claimed.rows, *claimed.newest)] == [first, second]
        with table.claim(2, {first, second, third}) as claimed:
            assert [row.number for row in claimed.rows] == [fourth, fifth]
            claimed.delete([first, fifth])
        with table.claim(10, [second]) as claimed:
            assert [row.number for row in claimed.rows] == [third, fourth]
        with table.claim(10, [second, third, fourth]) as claimed:
            assert list(claimed.rows) == []
        table.close()

    @pytest.mark.parametrize("lane", [-1, 32, 99])
    def test_a_lane_that_does_not_exist_is_refused(self, world: OutboxWorld, lane: int) -> None:
        """No mover would claim its rows."""
        with world.connect() as connection:
            insert_row(connection, 0, b"by hand", world.mark)
            insert_row(connection, 31, b"by hand", world.mark)
        connection = world.connect()
        with pytest.raises(world.refusal, match="lane"):
            insert_row(connection, lane, b"by hand", world.mark)
        connection.rollback()
        with pytest.raises(world.refusal, match="lane"):
            connection.execute("UPDATE hourhand_outbox SET lane = 99 WHERE lane = 0")
        connection.rollback()
        connection.close()

        table = world.open_table()
        assert table.lag().rows == 2
        table.close()

    def test_a_table_of_version_1_is_migrated_with_rows_in_lanes_that_do_not_exist(
        self, world: OutboxWorld
    ) -> None:
        """They are claimed then; what was in its lane stays in it."""
        with world.connect() as connection:
            for name in ("hourhand_outbox", "hourhand_outbox_version"):
                connection.execute(f"DROP TABLE {name}")
            for statement in migration_statements(world.dialect, "hourhand_outbox", version=1):
                connection.execute(statement)
            insert_row(connection, 99, b"by hand", world.mark)
            insert_row(connection, -7, b"by hand", world.mark)
            world.outbox.schedule(connection, a_task(uniqueness_key="a"))
            found = "SELECT lane FROM hourhand_outbox WHERE id = 3"
            lane = connection.execute(found).fetchone()

        assert "to version 2" in world.migrate()[0]
        assert world.migrate() == []

        table = world.open_table()
        with table.claim(10) as claimed:
            assert len(claimed.rows) == 3
        table.close()
        with world.connect() as connection:
            assert connection.execute(found).fetchone() == lane
            # An administrator may run the printed statements again.
            for statement in migration_statements(world.dialect, "hourhand_outbox"):
                connection.execute(statement)

    def test_the_lag_counts_what_waits(self, world: OutboxWorld) -> None:
        """Claimed rows wait as well."""
        table = world.open_table()
        assert (table.lag().rows, table.lag().oldest_ms) == (0, None)
        with world.connect() as connection:
            world.outbox.schedule_many(connection, [a_task(uniqueness_key=each) for each in "ab"])

        with table.claim(1):
            pass
        assert table.lag().rows == 2
        assert table.lag().oldest_ms == NOW_MS
        table.close()

    def test_migrating_twice_changes_nothing(self, world: OutboxWorld) -> None:
        """The first time was before the test."""
        with world.connect() as connection:
            world.outbox.schedule(connection, a_task())

        assert world.migrate() == []
        table = world.open_table()
        assert table.lag().rows == 1
        table.close()

    def test_a_missing_table_names_the_command_that_makes_it(self, world: OutboxWorld) -> None:
        """In a database that nobody has migrated."""
        with world.connect() as connection:
            connection.execute("DROP TABLE hourhand_outbox")

        table = world.open_table()
        with pytest.raises(SchemaMissing, match="hourhand outbox migrate"):
            names_of(table)
        with pytest.raises(SchemaMissing, match="hourhand outbox migrate"):
            table.lag()
        table.close()
