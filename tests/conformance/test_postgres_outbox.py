"""Binds the outbox's suite to PostgreSQL, and adds what only its several writers can do."""

import asyncio
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from hourhand.actors.model.values.errors import UnknownConnection
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.outbox.postgres import PostgresOutbox
from hourhand.scheduler.outbox.table import Dialect
from tests.builders import a_task
from tests.conformance.outbox_suite import OutboxSuite, OutboxWorld, names_of
from tests.servers.postgres import PostgresServer
from tests.waiting import until

pytestmark = pytest.mark.integration

_DELIVERY_MS = 30_000


class PostgresWorld(OutboxWorld):
    """A database of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__(
            lambda: psycopg.connect(url),
            self.open_postgres,
            self.migrate_postgres,
            dialect=Dialect.POSTGRESQL,
            refusal=psycopg.errors.CheckViolation,
        )

    def open_postgres(self) -> PostgresOutbox:
        """Open the table as a mover does."""
        return PostgresOutbox(self.url, "hourhand_outbox", SystemClock(), _DELIVERY_MS)

    def migrate_postgres(self) -> list[str]:
        """Make the table."""
        with closing(self.open_postgres()) as table:
            return table.migrate()


@pytest.fixture
def world(postgres_server: PostgresServer) -> Iterator[PostgresWorld]:
    """Return a migrated database."""
    name = f"outbox_{uuid.uuid4().hex[:12]}"
    world = PostgresWorld(postgres_server.create(name))
    assert world.migrate()
    yield world
    postgres_server.drop(name)


class TestPostgresOutbox(OutboxSuite):
    """The suite."""


def test_rows_of_an_ordering_id_are_numbered_in_the_order_of_commits(world: PostgresWorld) -> None:
    """The second transaction waits until the first has ended; those of other ids do not."""
    first = world.connect()
    world.outbox.schedule(first, a_task(uniqueness_key="a"))
    written = threading.Event()

    def write_second() -> None:
        with world.connect() as second:
            world.outbox.schedule(second, a_task(uniqueness_key="b"))
        written.set()

    thread = threading.Thread(target=write_second)
    thread.start()
    with world.connect() as other:
        world.outbox.schedule(other, a_task(uniqueness_key="c", ordering_id="customer-8"))
    until(lambda: _waits_for_a_lock(world))
    assert not written.is_set()
    first.commit()
    first.close()
    thread.join()

    with closing(world.open_postgres()) as table:
        found = names_of(table)
    assert sorted(found) == ["a", "b", "c"]
    assert found.index("a") < found.index("b")


def _waits_for_a_lock(world: PostgresWorld) -> bool:
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'"
    with world.connect() as connection:
        return bool(connection.execute(query).fetchone()[0])


def test_several_movers_share_the_lanes(world: PostgresWorld) -> None:
    """Each claims some; together they have all rows, and none twice."""
    with world.connect() as connection:
        for number in range(200):
            task = a_task(ordering_id=f"customer-{number}", uniqueness_key=str(number))
            world.outbox.schedule(connection, task)

    tables = [world.open_postgres() for _ in range(5)]
    claims: list[Any] = [table.claim(1_000) for table in tables]
    shares = [[row.number for row in claim.__enter__().rows] for claim in claims]
    for claim in claims:
        claim.__exit__(None, None, None)
    for table in tables:
        table.close()

    assert all(shares[:4])
    claimed = [number for share in shares for number in share]
    assert len(claimed) == len(set(claimed)) == 200


def test_a_mover_whose_connection_is_gone_frees_its_lanes(world: PostgresWorld) -> None:
    """As when its process was killed; it goes on with another connection."""
    with world.connect() as connection:
        world.outbox.schedule(connection, a_task(uniqueness_key="a"))

    with closing(world.open_postgres()) as first, closing(world.open_postgres()) as second:
        claim = first.claim(10)
        assert claim.__enter__().rows
        with world.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE state = 'idle in transaction' AND pid <> pg_backend_pid()"
            )
        until(lambda: names_of(second) == ["a"])
        with pytest.raises(Exception, match="the outbox's database failed"):
            claim.__exit__(None, None, None)
        assert names_of(first) == ["a"]


def test_a_commit_ends_the_wait_of_a_mover(world: PostgresWorld) -> None:
    """By a notification, long before the mover would look by itself."""
    with closing(world.open_postgres()) as table:
        assert names_of(table) == []
        until(lambda: _listens(world))
        with world.connect() as connection:
            world.outbox.schedule(connection, a_task(uniqueness_key="a"))
        clock = SystemClock()
        began_ms = clock.monotonic_ms()
        table.wait(60_000)
        assert clock.monotonic_ms() - began_ms < 30_000
        assert names_of(table) == ["a"]


def _listens(world: PostgresWorld) -> bool:
    query = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
    with world.connect() as connection:
        return bool(connection.execute(query).fetchone()[0])


def test_coroutines_schedule_within_their_transactions(world: PostgresWorld) -> None:
    """With psycopg's connections, and with SQLAlchemy's sessions and connections."""

    async def work() -> None:
        async with await psycopg.AsyncConnection.connect(world.url) as connection:
            key = await world.outbox.schedule_async(connection, a_task(uniqueness_key="a"))
            await world.outbox.cancel_async(connection, key)
        engine = create_async_engine(world.url.replace("://", "+psycopg://"))
        async with AsyncSession(engine) as session, session.begin():
            await world.outbox.schedule_async(session, a_task(uniqueness_key="b"))
        async with engine.connect() as connection:
            await world.outbox.schedule_async(connection, a_task(uniqueness_key="rolled back"))
        async with engine.begin() as connection:
            await world.outbox.schedule_async(connection, a_task(uniqueness_key="c"))
        await engine.dispose()

    asyncio.run(work())

    with closing(world.open_postgres()) as table:
        assert names_of(table) == ["a", "cancel a", "b", "c"]


def test_sqlalchemy_schedules_within_its_transactions(world: PostgresWorld) -> None:
    """A session and a connection, over psycopg."""
    engine = create_engine(world.url.replace("://", "+psycopg://"))
    with Session(engine) as session:
        world.outbox.schedule(session, a_task(uniqueness_key="a"))
        session.rollback()
        key = world.outbox.schedule(session, a_task(uniqueness_key="b"))
        session.commit()
    with engine.begin() as connection:
        world.outbox.cancel(connection, key)
    engine.dispose()

    with closing(world.open_postgres()) as table:
        assert names_of(table) == ["b", "cancel b"]


def test_a_connection_for_coroutines_is_refused_where_nobody_awaits(world: PostgresWorld) -> None:
    """The error names what to call."""

    async def work() -> None:
        async with await psycopg.AsyncConnection.connect(world.url) as connection:
            with pytest.raises(UnknownConnection, match="schedule_async"):
                world.outbox.schedule(connection, a_task())

    asyncio.run(work())
