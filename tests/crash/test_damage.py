"""Bytes of the store's file that are damaged while a node works on it.

What a node finds after a stop is tried in ``tests/unit/scheduler/adapters/embedded``.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hourhand import Scheduler, Task, TaskExecutor
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.adapters.clock import SystemClock
from tests.crash.load import settings_of
from tests.waiting import until

PARTITIONS = 4
TASKS = 120
DAMAGED = 60
DUE_IN_MS = 4_000
"""Beyond the window of ``settings_of``, so that rows are read after they were damaged."""
PAGE_BYTES = 4_096


class Noting(TaskExecutor):
    """Notes the data of what ran."""

    def __init__(self, ran: dict[str, object], changed: threading.Condition) -> None:
        self._ran = ran
        self._changed = changed

    def execute(self, task: Task) -> None:
        """Note it."""
        with self._changed:
            self._ran[task.ordering_id] = task.data["text"]
            self._changed.notify_all()


def text_of(number: int) -> str:
    """Return the data of a task, which stands in the file as it is."""
    return f"payload {number:04} " + "x" * 300


def flipped(content: bytearray, place: int) -> None:
    """Flip a bit."""
    content[place] ^= 1


def zeroed(content: bytearray, place: int) -> None:
    """Zero the page."""
    start = place // PAGE_BYTES * PAGE_BYTES
    content[start : start + PAGE_BYTES] = bytes(PAGE_BYTES)


@pytest.mark.slow
@pytest.mark.parametrize("damage", [flipped, zeroed])
def test_p7_damage_under_a_running_node_holds_its_partition_by_name_and_no_other(
    damage: Callable[[bytearray, int], None],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing runs with other data than it was given, and the log says which file it is."""
    ran: dict[str, object] = {}
    changed = threading.Condition()
    settings = settings_of(tmp_path / "folder")
    with Scheduler(settings, executor=lambda: Noting(ran, changed)) as scheduler:
        _schedule(scheduler)
        path = tmp_path / "folder" / "store.db"
        until(lambda: _stored(path) == TASKS)
        damaged = {partition_of(each, PARTITIONS) for each in _damage(path, damage)}
        names = (f"o{number}" for number in range(TASKS))
        others = {each for each in names if partition_of(each, PARTITIONS) not in damaged}

        with changed:
            assert changed.wait_for(lambda: others <= ran.keys(), 60)
        until(lambda: "PartitionHeld" in caplog.text)

    assert f"o{DAMAGED}" not in ran
    assert all(text == text_of(int(name[1:])) for name, text in ran.items())
    held = [record.getMessage() for record in caplog.records if "PartitionHeld" in record.msg]
    told = [f"partition={each} " for each in damaged]
    assert all(any(each in line for each in told) for line in held)
    assert all("store.db is damaged" in line for line in held)


def _schedule(scheduler: Scheduler) -> None:
    due_ms = SystemClock().now_ms() + DUE_IN_MS
    sent = [
        scheduler.schedule_task(
            Task(
                ordering_id=f"o{number}",
                scheduled_time=from_millis(due_ms),
                uniqueness_key="u",
                data={"text": text_of(number)},
            )
        )
        for number in range(TASKS)
    ]
    for each in sent:
        each.result(60)


def _stored(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path, timeout=10)) as database:
        (count,) = database.execute("SELECT count(*) FROM task_schedule").fetchone()
        return int(count)


def _damage(path: Path, damage: Callable[[bytearray, int], None]) -> set[str]:
    """Damage the page of a task; return the tasks that lost their data: those of several partitions
    may share a page.
    """
    with contextlib.closing(sqlite3.connect(path, timeout=10)) as database:
        database.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
    before = path.read_bytes()
    content = bytearray(before)
    place = content.find(text_of(DAMAGED).encode())
    assert place > 0
    damage(content, place)
    start = place // PAGE_BYTES * PAGE_BYTES
    with path.open("r+b") as file:
        file.seek(start)
        file.write(content[start : start + PAGE_BYTES])
    page, left = before[start : start + PAGE_BYTES], content[start : start + PAGE_BYTES]
    return {
        f"o{number}"
        for number in range(TASKS)
        if text_of(number).encode() in page and text_of(number).encode() not in left
    }
