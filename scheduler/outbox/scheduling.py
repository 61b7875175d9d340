"""Scheduling within the user's transaction: a task is checked and becomes a row of the outbox.

Decides refusals by the rules of the client and with its errors, so that the mover finds nothing to
refuse. It neither commits nor rolls back, and opens nothing. The library of a connection is
recognised without an import: a program that has a connection has loaded it.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

from hourhand.actors.model.task.codec import Command, CommandKind, encode_command
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.links import On
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import UnknownConnection
from hourhand.actors.model.values.public import public
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler import wiring
from hourhand.scheduler.configuration.settings import Settings, require_settings
from hourhand.scheduler.outbox.table import (
    Dialect,
    dialect_of,
    insert_statement,
    lock_of,
    row_values,
)
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.tasks.admission import (
    admission,
    checked_key,
    followed,
    refuse_large,
    refuse_lone_end,
    several,
)
from hourhand.scheduler.tasks.grouping import GroupRecords, grouped

_TAKEN = (
    "hourhand.outbox takes a connection of sqlite3, psycopg, psycopg2, SQLAlchemy (Connection or"
    " Session) or Django"
)


class Executing(NamedTuple):
    """The execution of statements on a connection."""

    dialect: Dialect
    param_style: str
    execute: Callable[[str, tuple[Any, ...]], object]


def executing(connection: Any) -> Executing:
    """Return how to execute on a connection; raises UnknownConnection for an unknown library."""
    libraries = _libraries_of(connection)
    if isinstance(connection, sqlite3.Connection | sqlite3.Cursor):
        return Executing(Dialect.SQLITE, "qmark", connection.execute)
    if _is_async(connection, libraries):
        raise UnknownConnection(
            f"{shown(connection)} is for coroutines: write await outbox.schedule_async(…) and"
            " await outbox.cancel_async(…)"
        )
    if "sqlalchemy" in libraries:
        return _of_sqlalchemy(connection)
    if "django" in libraries:
        return _of_django(connection)
    if "psycopg" in libraries:
        return Executing(Dialect.POSTGRESQL, "format", connection.execute)
    if "psycopg2" in libraries:
        return Executing(Dialect.POSTGRESQL, "format", _by_cursor(connection))
    raise UnknownConnection(f"{_TAKEN}, got {type(connection).__name__}: {shown(connection)}")


async def run_async(connection: Any, work: Callable[[Any], Awaitable[Any] | Any]) -> None:
    """Call ``work`` with a connection for executing, and wait for everything that it began.

    ``work`` gets a connection that ``executing_async`` or ``executing`` accepts.
    """
    if "sqlalchemy" in _libraries_of(connection) and hasattr(connection, "run_sync"):
        await connection.run_sync(work)
        return
    began = work(connection)
    if isinstance(began, Awaitable):
        await began


def executing_async(connection: Any) -> Executing:
    """Return how to execute if ``execute`` may have to be awaited."""
    libraries = _libraries_of(connection)
    if "psycopg" in libraries and _is_async(connection, libraries):
        return Executing(Dialect.POSTGRESQL, "format", connection.execute)
    return executing(connection)


def _of_sqlalchemy(connection: Any) -> Executing:
    # A Session has a Connection within its transaction; so does a scoped_session.
    if not hasattr(connection, "exec_driver_sql") and hasattr(connection, "connection"):
        connection = connection.connection()
    if not hasattr(connection, "exec_driver_sql"):
        raise UnknownConnection(
            f"{_TAKEN}, got {type(connection).__name__} of SQLAlchemy: hand over the connection of"
            " your transaction, as of engine.begin() or Session"
        )
    dialect = connection.dialect
    style = "numeric_dollar" if dialect.driver == "asyncpg" else dialect.paramstyle
    return Executing(dialect_of(dialect.name), style, connection.exec_driver_sql)


def _of_django(connection: Any) -> Executing:
    if not hasattr(connection, "vendor"):
        raise UnknownConnection(
            f"{_TAKEN}, got {type(connection).__name__} of Django: hand over"
            " django.db.connection, or django.db.connections[alias]"
        )
    return Executing(dialect_of(connection.vendor), "format", _by_cursor(connection))


def _by_cursor(connection: Any) -> Callable[[str, tuple[Any, ...]], object]:
    def execute(statement: str, values: tuple[Any, ...]) -> object:
        with connection.cursor() as cursor:
            return cursor.execute(statement, values)

    return execute


def _is_async(connection: Any, libraries: frozenset[str]) -> bool:
    if "sqlalchemy" in libraries:
        return hasattr(connection, "run_sync")
    return "psycopg" in libraries and any(
        each.__name__ in {"AsyncConnection", "AsyncCursor"} for each in type(connection).__mro__
    )


def _libraries_of(connection: Any) -> frozenset[str]:
    return frozenset(each.__module__.partition(".")[0] for each in type(connection).__mro__)


_Records = list[tuple[TaskKey, bytes]]


@public("hourhand.outbox")
class Outbox:
    """Writes tasks and cancellations into the outbox's table; used from any thread.

    ``settings`` has the table's name and the limits of a task (``client.grace_ms``,
    ``client.record_bytes_max``). ``payloads`` seal the data before it is written to the table; the
    mover needs none. The caller handles errors of the database, which have ended the transaction,
    or will.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock | None = None,
        *,
        payloads: PayloadCodecs | None = None,
    ) -> None:
        require_settings(settings)
        self._table = settings.outbox.table
        self._record_bytes_max = settings.client.record_bytes_max
        self._clock = clock or wiring.open_clock()
        self._admission = admission(self._clock, settings.client, payloads)

    def schedule(
        self, connection: Any, task: Task, *, then: Task | None = None, on: On = "success"
    ) -> TaskKey:
        """Write a task into the outbox, and return its key; ``then`` follows it once it has ended,
        as the client's ``schedule_task`` says.

        It is scheduled once the transaction of ``connection`` is committed, and never if that is
        rolled back. Raises InvalidTask, TaskInThePast and TaskTooLarge as the client's
        ``schedule_task`` does, with codecs PayloadUnavailable, and UnknownConnection.
        """
        return self._write(connection, [self._admitted(task, then, on)])[0]

    def schedule_many(self, connection: Any, tasks: Iterable[Task]) -> list[TaskKey]:
        """Write tasks into the outbox, and return their keys in the same order.

        All are checked before the first is written.
        """
        return self._write(
            connection, [self._admission.admit(each) for each in several(tasks, "schedule_many")]
        )

    def group(
        self, connection: Any, tasks: Iterable[Task], *, then: Task, on: On = "success"
    ) -> list[TaskKey]:
        """Write tasks into the outbox, and a follower that is scheduled once all of them have
        ended, as the client's ``group`` says; return the keys of the tasks in the same order.

        All are checked before the first is written. Raises as ``schedule`` does.
        """
        group = self._grouped(tasks, then, on)
        self._write(connection, [group.request, *group.members])
        return [key for key, _ in group.members]

    def cancel(self, connection: Any, key: TaskKey) -> TaskKey:
        """Cancel a key once the transaction is committed.

        It follows earlier rows of the key in the outbox. Raises InvalidKey.
        """
        return self._write(connection, [self._cancellation(key)])[0]

    async def schedule_async(
        self, connection: Any, task: Task, *, then: Task | None = None, on: On = "success"
    ) -> TaskKey:
        """Write a task as ``schedule`` does, on a connection for coroutines: psycopg's or
        SQLAlchemy's.
        """
        keys = await self._write_async(connection, [self._admitted(task, then, on)])
        return keys[0]

    async def group_async(
        self, connection: Any, tasks: Iterable[Task], *, then: Task, on: On = "success"
    ) -> list[TaskKey]:
        """Write a group as ``group`` does, on a connection for coroutines: psycopg's or
        SQLAlchemy's.
        """
        group = self._grouped(tasks, then, on)
        await self._write_async(connection, [group.request, *group.members])
        return [key for key, _ in group.members]

    async def cancel_async(self, connection: Any, key: TaskKey) -> TaskKey:
        """Cancel a key as ``cancel`` does, on a connection for coroutines: psycopg's or
        SQLAlchemy's.
        """
        keys = await self._write_async(connection, [self._cancellation(key)])
        return keys[0]

    def _admitted(self, task: Task, then: Task | None, on: On) -> tuple[TaskKey, bytes]:
        key, record = self._admission.admit(task)
        if then is None:
            refuse_lone_end(on)
            return key, record
        record = followed(key, record, *self._admission.admit(then), on)
        refuse_large(record, self._record_bytes_max)
        return key, record

    def _grouped(self, tasks: Iterable[Task], then: Task, on: On) -> GroupRecords:
        return grouped(
            self._admission.admit,
            tasks,
            then,
            on,
            now_ms=self._clock.now_ms(),
            record_bytes_max=self._record_bytes_max,
        )

    def _cancellation(self, key: TaskKey) -> tuple[TaskKey, bytes]:
        value = encode_command(Command(CommandKind.CANCEL, checked_key(key)))
        refuse_large(value, self._record_bytes_max)
        return key, value

    def _write(self, connection: Any, records: _Records) -> list[TaskKey]:
        how = executing(connection)
        for statement, values in self._statements(how, records):
            how.execute(statement, values)
        return [key for key, _ in records]

    async def _write_async(self, connection: Any, records: _Records) -> list[TaskKey]:
        def begin(inner: Any) -> Awaitable[None]:
            return self._execute_all(executing_async(inner), records)

        def write(inner: Any) -> None:
            self._write(inner, records)

        is_wrapped = hasattr(connection, "run_sync")
        await run_async(connection, write if is_wrapped else begin)
        return [key for key, _ in records]

    async def _execute_all(self, how: Executing, records: _Records) -> None:
        for statement, values in self._statements(how, records):
            executed = how.execute(statement, values)
            if isinstance(executed, Awaitable):
                await executed

    def _statements(
        self, how: Executing, records: _Records
    ) -> Iterable[tuple[str, tuple[int | bytes, ...]]]:
        statement = insert_statement(how.dialect, self._table, how.param_style)
        now_ms = self._clock.now_ms()
        # Transactions with several locks take them in one order, or they might wait for each other.
        # Rows of one ordering id keep their order.
        for key, value in sorted(records, key=lambda record: lock_of(record[0].ordering_id)):
            yield statement, row_values(how.dialect, key, value, now_ms)
