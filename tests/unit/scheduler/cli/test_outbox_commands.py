"""``hourhand outbox`` and its commands, on a SQLite file and an embedded installation."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hourhand import Task, outbox
from tests.unit.scheduler.cli.commands import answer, invoke


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Return a file with an empty outbox."""
    path = tmp_path / "shop.db"
    sqlite3.connect(path).close()
    assert "to version 2" in invoke(tmp_path, "outbox", "migrate", *_url(path)).stdout
    return path


def _url(path: Path) -> list[str]:
    return ["--url", f"sqlite:///{path}"]


def _schedule(path: Path, name: str) -> None:
    task = Task(
        ordering_id="customer-7",
        scheduled_time=datetime.now(UTC) + timedelta(hours=1),
        uniqueness_key=name,
    )
    with closing(sqlite3.connect(path)) as connection, connection:
        outbox.schedule(connection, task)


def test_status_says_how_much_waits(tmp_path: Path, database: Path) -> None:
    """For people and for programs."""
    assert answer(tmp_path, "outbox", "status", *_url(database)) == {
        "rowsWaiting": 0,
        "oldestAgeMs": None,
    }
    _schedule(database, "invoice-42")

    found = answer(tmp_path, "outbox", "status", *_url(database))
    assert found["rowsWaiting"] == 1
    assert 0 <= found["oldestAgeMs"] < 60_000
    assert "rows waiting  1" in invoke(tmp_path, "outbox", "status", *_url(database)).stdout


def test_the_statements_are_printed_for_whoever_runs_them(tmp_path: Path) -> None:
    """In either language, and no database is opened."""
    printed = invoke(tmp_path, "outbox", "migrate", "--sql", "postgresql").stdout
    assert "GENERATED ALWAYS AS IDENTITY" in printed
    assert "CHECK (lane BETWEEN 0 AND 31) NOT VALID;" in printed
    made = answer(tmp_path, "outbox", "migrate", "--sql", "sqlite")["statements"]
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in made:
            connection.execute(statement)
    assert made == outbox.migration_statements("sqlite")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (None, "outbox.url is not set"),
        ("sqlite:////nowhere/shop.db", "which is not there"),
        ("mysql://shop", "begins with postgresql:// or sqlite:///"),
    ],
)
def test_a_database_that_is_not_there_is_the_operators_mistake(
    tmp_path: Path, url: str | None, message: str
) -> None:
    """Said before anything runs."""
    chosen = [] if url is None else ["--url", url]
    for command in (["migrate"], ["status"], []):
        result = invoke(tmp_path, "outbox", *command, *chosen)
        assert result.exit_code == 3, result.output
        assert message in result.stderr


def test_a_file_that_was_not_migrated_is_named(tmp_path: Path) -> None:
    """With the command that makes the table."""
    path = tmp_path / "empty.db"
    sqlite3.connect(path).close()

    result = invoke(tmp_path, "outbox", "status", *_url(path))

    assert result.exit_code == 3
    assert "schema-missing" in result.stderr
    assert "hourhand outbox migrate" in result.stderr
