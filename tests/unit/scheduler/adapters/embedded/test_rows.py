"""Whole-hour deletes: in steps, and remembered within bounds."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CommandOutcome, RecordedOutcome
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.embedded import rows
from hourhand.scheduler.adapters.embedded.connection import open_connection
from hourhand.scheduler.adapters.embedded.folder import store_file
from hourhand.scheduler.adapters.embedded.stores import open_stores
from tests.unit.scheduler.adapters.embedded.files import WAIT_S, settings_of


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    """Fresh stores."""
    stores = open_stores(settings_of(tmp_path))
    yield stores
    stores.close()


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a fresh store file."""
    connection = open_connection(store_file(tmp_path))
    yield connection
    connection.close()


def _load(stores: Stores) -> list[TaskKey]:
    page = stores.schedule.load_tasks(0, TaskKey(-1, "", ""), HOUR_MS, 1 << 20).result(WAIT_S)
    return [task.key for task in page.tasks]


def test_a_crowded_hour_goes_whole_and_spares_what_is_newer(stores: Stores) -> None:
    """More rows than a step removes, newer ones in between and at both ends."""
    old = [StoredTask(TaskKey(number, "id", str(number % 3)), b"", 0) for number in range(12_345)]
    new = [StoredTask(TaskKey(number, "new", ""), b"", 0) for number in range(0, 12_345, 2)]
    stores.schedule.insert_tasks(0, old, 1)
    stores.schedule.insert_tasks(0, new, 3)
    stores.schedule.delete_tasks(0, 0, HOUR_MS, 2).result(WAIT_S)

    assert _load(stores) == [task.key for task in new]


def test_a_write_that_overtakes_a_delete_in_steps_stays_dead(stores: Stores) -> None:
    """The delete counts as a whole from its first step on."""
    old = [StoredTask(TaskKey(number, "id", ""), b"", 0) for number in range(12_000)]
    stores.schedule.insert_tasks(0, old, 1)
    deleted = stores.schedule.delete_tasks(0, 0, HOUR_MS, 2)
    late = stores.schedule.insert_tasks(0, [StoredTask(TaskKey(0, "late", ""), b"", 0)], 1)
    deleted.result(WAIT_S)
    late.result(WAIT_S)

    assert _load(stores) == []


def test_rows_written_together_meet_the_deletes_of_their_own_partition_and_time(
    connection: sqlite3.Connection,
) -> None:
    """Each row by itself: its hour, its partition, and its write time."""
    rows.bury(connection, "task", 0, (0, HOUR_MS), 5)
    rows.bury(connection, "status", 0, (0, 9 * HOUR_MS), 99)
    given = [
        (partition, time_ms, "id", "u", b"{}", 0, write_time)
        for partition in (0, 1)
        for time_ms in (0, HOUR_MS - 1, HOUR_MS)
        for write_time in (5, 6)
    ]
    rows.insert_rows(connection, given, table=rows.TASK_SCHEDULE, kind="task")
    kept = connection.execute("SELECT partition, scheduled_ms, write_time FROM task_schedule")

    assert set(kept) == {(p, time_ms, 6) for p in (0, 1) for time_ms in (0, HOUR_MS - 1, HOUR_MS)}
    only = [row for row in given if row[0] == 0 and row[-1] == 5]
    connection.execute("DELETE FROM task_schedule")
    rows.insert_rows(connection, only, table=rows.TASK_SCHEDULE, kind="task")
    assert connection.execute("SELECT scheduled_ms FROM task_schedule").fetchall() == [(HOUR_MS,)]


def test_a_key_with_more_rows_than_a_step_removes(connection: sqlite3.Connection) -> None:
    """The delete comes to an end."""
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO attempt_history (partition, scheduled_ms, ordering_id, uniqueness_key,"
        " attempt, result, started_ms, used, suspect, fence, write_time)"
        " VALUES (0, 5, 'id', 'u', ?, 'failure', 0, 0, 0, 0, 1)",
        ((number,) for number in range(11_000)),
    )
    connection.execute("COMMIT")
    calls = 1
    while rows.sweep(connection, "attempt_history", 0, (0, HOUR_MS), 1):
        calls += 1
        assert calls < 10

    assert connection.execute("SELECT count(*) FROM attempt_history").fetchone() == (0,)


def test_a_delete_takes_the_place_of_those_it_covers(connection: sqlite3.Connection) -> None:
    """Neither one that reaches further nor one with a higher write time is covered."""
    for span, write_time in (
        ((0, HOUR_MS), 1),
        ((HOUR_MS, 2 * HOUR_MS), 9),
        ((3 * HOUR_MS, 5 * HOUR_MS), 1),
        ((0, 4 * HOUR_MS), 2),
        ((0, 4 * HOUR_MS), 1),
    ):
        rows.bury(connection, "task", 0, span, write_time)
    rows.bury(connection, "status", 0, (0, 9 * HOUR_MS), 99)
    rows.bury(connection, "task", 1, (0, 9 * HOUR_MS), 99)

    assert connection.execute(
        "SELECT first_ms, end_ms, write_time FROM tombstone"
        " WHERE kind = 'task' AND partition = 0 ORDER BY end_ms, first_ms"
    ).fetchall() == [(HOUR_MS, 2 * HOUR_MS, 9), (0, 4 * HOUR_MS, 2), (3 * HOUR_MS, 5 * HOUR_MS, 1)]


def test_what_deletes_leave_behind_is_bounded(connection: sqlite3.Connection) -> None:
    """The latest hours are remembered."""
    connection.execute("BEGIN")
    for hour in range(rows._TOMBSTONES_MAX + 50):
        rows.bury(connection, "task", 0, (hour * HOUR_MS, (hour + 1) * HOUR_MS), hour)
    connection.execute("COMMIT")

    assert connection.execute("SELECT count(*), min(first_ms) FROM tombstone").fetchone() == (
        rows._TOMBSTONES_MAX,
        50 * HOUR_MS,
    )


def test_outcomes_go_with_the_completions_of_their_hour(stores: Stores) -> None:
    """By the time of the key the command was about."""
    for offset, time_ms in enumerate((0, HOUR_MS - 1, HOUR_MS)):
        outcome = RecordedOutcome(CommandOutcome.APPLIED, TaskKey(time_ms, "id", ""))
        stores.ownership.insert_outcome(0, offset, outcome, 1)
    newer = RecordedOutcome(CommandOutcome.APPLIED, TaskKey(5, "id", ""))
    stores.ownership.insert_outcome(0, 3, newer, 3)
    stores.status.delete_statuses(0, 0, HOUR_MS, 2).result(WAIT_S)
    found = [stores.ownership.find_outcome(0, offset).result(WAIT_S) for offset in range(4)]

    assert [each is not None for each in found] == [False, False, True, True]


@pytest.mark.parametrize("span", [(1, HOUR_MS), (0, HOUR_MS - 1)])
def test_a_delete_that_cuts_an_hour_is_a_mistake(stores: Stores, span: tuple[int, int]) -> None:
    """Nothing is removed by accident."""
    with pytest.raises(ValueError, match="not the start of an hour"):
        stores.schedule.delete_tasks(0, *span, 1)
    with pytest.raises(ValueError, match="not the start of an hour"):
        stores.status.delete_statuses(0, *span, 1)


def test_stores_of_two_processes_see_each_other(tmp_path: Path, stores: Stores) -> None:
    """A second opening needs no lock; each sees what the other was acknowledged."""
    other = open_stores(settings_of(tmp_path))
    task = StoredTask(TaskKey(1, "id", ""), b"{}", 7)
    stores.schedule.insert_tasks(0, [task], 1).result(WAIT_S)

    assert _load(other) == [task.key]
    assert other.ownership.claim(0, 5).result(WAIT_S).epoch == 1
    assert stores.ownership.claim(0, 5).result(WAIT_S).epoch == 2
    other.close()
