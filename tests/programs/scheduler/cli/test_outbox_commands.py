"""A mover that runs, and the port on which it is asked."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hourhand import Task, outbox
from hourhand.scheduler import wiring
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.outbox.mover import OutboxMover
from tests.unit.scheduler.cli.commands import answer, invoke, settings_of
from tests.waiting import until


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


def _settings(folder: Path, path: Path) -> Settings:
    named = Settings(outbox={"url": f"sqlite:///{path}", "poll_ms": 10}, observe={"port": 0})
    return settings_of(folder).model_copy(update={"outbox": named.outbox, "observe": named.observe})


def test_a_running_mover_takes_rows_to_the_log_and_shows_its_numbers(
    tmp_path: Path, database: Path
) -> None:
    """The log is the folder's; a mover beside it stands by."""
    folder = tmp_path / "data"
    with (
        OutboxMover(_settings(folder, database)) as running,
        OutboxMover(_settings(folder, database)) as beside,
    ):
        for number in range(5):
            _schedule(database, f"invoice-{number}")
        until(lambda: running.mover.moved_rows + beside.mover.moved_rows == 5)
        until(lambda: answer(folder, "outbox", "status", *_url(database))["rowsWaiting"] == 0)
        registry = running.observation.registry
        assert registry.get_sample_value("hourhand_outbox_rows_moved_total") == (
            running.mover.moved_rows
        )
        assert registry.get_sample_value("hourhand_outbox_oldest_age_seconds") == 0
        assert running.observation.health is not None
        assert all(check.ok for check in running.observation.health.ready())

    with closing(wiring.open_log_view(settings_of(folder))) as view:
        assert sum(end.end_offset for end in view.ends().values()) == 5
