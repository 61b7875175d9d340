"""Which connections are taken, on real SQLite files and the libraries that users have."""

import inspect
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from hourhand import outbox as outbox_module
from hourhand.actors.model.values.errors import (
    InvalidKey,
    InvalidTask,
    SettingsInvalid,
    UnknownConnection,
)
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.outbox.scheduling import Outbox, executing
from hourhand.scheduler.outbox.table import Dialect, migration_statements
from tests.builders import a_task
from tests.unit.scheduler.client.client_world import StandingClock


def test_sqlalchemy_takes_part_with_its_transaction(tmp_path: Path) -> None:
    """A session and a connection, and a table made by statements of a migration."""
    outbox = Outbox(Settings(), StandingClock())
    engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    with engine.begin() as connection:
        for statement in migration_statements(Dialect.SQLITE, "hourhand_outbox"):
            connection.exec_driver_sql(statement)
    with Session(engine) as session:
        outbox.schedule(session, a_task(uniqueness_key="rolled back"))
        session.rollback()
        outbox.schedule(session, a_task(uniqueness_key="a"))
        session.commit()
    with engine.connect() as connection:
        outbox.schedule(connection, a_task(uniqueness_key="rolled back"))
        connection.rollback()
    engine.dispose()

    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        ((record,),) = database.execute("SELECT record FROM hourhand_outbox").fetchall()
    assert b'"uniquenessKey":"a"' in record


def test_what_is_not_a_connection_is_refused_by_name() -> None:
    """The error lists what is taken."""
    engine = create_engine("sqlite://")
    for given, named in ((object(), "object"), ("sqlite:///shop.db", "str"), (engine, "Engine")):
        with pytest.raises(UnknownConnection, match=f"takes a connection of sqlite3.*{named}"):
            executing(given)
    engine.dispose()


def test_a_database_of_another_make_is_refused() -> None:
    """Django and SQLAlchemy speak to some that have no outbox."""

    class Connection:
        vendor = "oracle"

    Connection.__module__ = "django.db.utils"
    with pytest.raises(SettingsInvalid, match="postgresql or sqlite, got 'oracle'"):
        executing(Connection())


def test_p25_a_pair_cannot_be_cancelled_through_an_outbox() -> None:
    """Its row may be sent twice, and the second time the pair may mean another task."""
    outbox = Outbox(Settings(), StandingClock())

    with closing(sqlite3.connect(":memory:")) as database, pytest.raises(InvalidKey):
        outbox.cancel(database, ("customer-7", "invoice-42"))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [each for each in outbox_module.__all__ if each[0].islower()])
def test_each_function_takes_what_its_method_takes(name: str) -> None:
    """A user of the module's functions has everything that ``Outbox`` has."""
    method = getattr(Outbox, name, None)
    if method is None:
        assert name == "migration_statements"
        return
    taken = dict(inspect.signature(method).parameters)
    del taken["self"]

    assert dict(inspect.signature(getattr(outbox_module, name)).parameters) == taken


def test_a_group_that_cannot_be_is_refused_before_a_row_is_written() -> None:
    """With the client's errors."""
    outbox, page = Outbox(Settings(), StandingClock()), a_task(uniqueness_key="1")
    wrong: Any = "sometimes"
    with closing(sqlite3.connect(":memory:")) as database:
        for statement in migration_statements(Dialect.SQLITE, "hourhand_outbox"):
            database.execute(statement)
        for tasks, then, on in (
            ([], page, "any"),
            ([page, page], a_task(uniqueness_key="2"), "any"),
            ([page], page, "any"),
            ([page], a_task(uniqueness_key="2"), wrong),
            (page, a_task(uniqueness_key="2"), "any"),
            (None, page, "any"),
        ):
            with pytest.raises(InvalidTask):
                outbox.group(database, tasks, then=then, on=on)  # type: ignore[arg-type]
        for tasks in (page, None):
            with pytest.raises(InvalidTask, match="schedule_many takes several tasks"):
                outbox.schedule_many(database, tasks)  # type: ignore[arg-type]
        with pytest.raises(InvalidTask, match="give it as then="):
            outbox.schedule(database, page, on="any")
        ((count,),) = database.execute("SELECT count(*) FROM hourhand_outbox").fetchall()
    assert count == 0
