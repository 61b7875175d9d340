"""The outbox under the name users import: ``from hourhand import outbox``.

::

    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO invoice …")
        outbox.schedule(connection, task)

Decides only which settings its functions use: those of environment and file, read once.  All else
is in ``scheduler/outbox/``.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.links import On
from hourhand.actors.model.task.task import Task
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.outbox.mover import OutboxMover
from hourhand.scheduler.outbox.scheduling import Outbox
from hourhand.scheduler.outbox.table import dialect_of
from hourhand.scheduler.outbox.table import migration_statements as _migration_statements

__all__ = [
    "Outbox",
    "OutboxMover",
    "cancel",
    "cancel_async",
    "group",
    "group_async",
    "migration_statements",
    "schedule",
    "schedule_async",
    "schedule_many",
]


def schedule(
    connection: Any, task: Task, *, then: Task | None = None, on: On = "success"
) -> TaskKey:
    """Schedule a task when the transaction of ``connection`` is committed; return its key.

    ``then`` follows the task once it has ended: well, or with ``on="any"`` in any way.
    ``connection`` is one of sqlite3, psycopg, psycopg2, SQLAlchemy (Connection, Session) or Django.
    Raises InvalidTask, TaskInThePast, TaskTooLarge and UnknownConnection, and what the database
    raises.
    """
    return _outbox().schedule(connection, task, then=then, on=on)


def schedule_many(connection: Any, tasks: Iterable[Task]) -> list[TaskKey]:
    """Schedule tasks when the transaction is committed; return their keys in the same order."""
    return _outbox().schedule_many(connection, tasks)


def group(
    connection: Any, tasks: Iterable[Task], *, then: Task, on: On = "success"
) -> list[TaskKey]:
    """Schedule tasks when the transaction is committed, and a follower once all have ended; return
    the keys of the tasks in the same order.
    """
    return _outbox().group(connection, tasks, then=then, on=on)


def cancel(connection: Any, key: TaskKey) -> TaskKey:
    """Cancel a task when the transaction is committed; return its key."""
    return _outbox().cancel(connection, key)


async def schedule_async(
    connection: Any, task: Task, *, then: Task | None = None, on: On = "success"
) -> TaskKey:
    """Do what ``schedule`` does on an async connection of psycopg or SQLAlchemy."""
    return await _outbox().schedule_async(connection, task, then=then, on=on)


async def group_async(
    connection: Any, tasks: Iterable[Task], *, then: Task, on: On = "success"
) -> list[TaskKey]:
    """Do what ``group`` does on an async connection of psycopg or SQLAlchemy."""
    return await _outbox().group_async(connection, tasks, then=then, on=on)


async def cancel_async(connection: Any, key: TaskKey) -> TaskKey:
    """Do what ``cancel`` does on an async connection of psycopg or SQLAlchemy."""
    return await _outbox().cancel_async(connection, key)


def migration_statements(dialect: str, table: str = "hourhand_outbox") -> list[str]:
    """Return the SQL that makes the table, for the migrations of a framework.

    ``dialect`` is ``postgresql`` or ``sqlite``.
    """
    return _migration_statements(dialect_of(dialect), table)


@cache
def _outbox() -> Outbox:
    return Outbox(Settings())
