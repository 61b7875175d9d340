"""Which library a connection of the user's belongs to, and how a statement is executed on it.

It imports none of these libraries: a program that has a connection has loaded its own.  Decides
nothing about transactions, which are the user's.
"""

import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from actors.model.display import shown
from actors.model.errors import UnknownConnection
from scheduler.outbox.table import Dialect, dialect_of

_TAKEN = (
    "hourhand.outbox takes a connection of sqlite3, psycopg, psycopg2, SQLAlchemy (Connection or"
    " Session) or Django"
)


class Executing(NamedTuple):
    """How statements are executed on a connection."""

    dialect: Dialect
    param_style: str
    execute: Callable[[str, tuple[Any, ...]], object]


def executing(connection: Any) -> Executing:
    """Return how to execute on a connection; raises UnknownConnection where nobody knows."""
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
    """Call ``work`` with what it can execute on, and wait for all that it began.

    ``work`` is given a connection that ``executing_async`` or ``executing`` takes.
    """
    if "sqlalchemy" in _libraries_of(connection) and hasattr(connection, "run_sync"):
        await connection.run_sync(work)
        return
    began = work(connection)
    if isinstance(began, Awaitable):
        await began


def executing_async(connection: Any) -> Executing:
    """Return how to execute where an ``execute`` may have to be awaited."""
    libraries = _libraries_of(connection)
    if "psycopg" in libraries and _is_async(connection, libraries):
        return Executing(Dialect.POSTGRESQL, "format", connection.execute)
    return executing(connection)


def _of_sqlalchemy(connection: Any) -> Executing:
    # A Session has a Connection within its transaction; a scoped_session is one, too.
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
