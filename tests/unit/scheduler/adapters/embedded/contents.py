"""A folder with a little of everything, and all that it was told to keep, read back.

Used to compare a damaged folder with what had been acknowledged.
"""

import contextlib
import shutil
import sqlite3
from concurrent.futures import Future
from pathlib import Path
from typing import cast

from hourhand.actors.model.operations.ownership import EPOCH_SHIFT, Straggler, Watermark
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import (
    AttemptRecord,
    AttemptResult,
    CommandOutcome,
    Completion,
    RecordedOutcome,
)
from hourhand.actors.ports.log import Position
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.embedded.dead_letters import EmbeddedLogView
from hourhand.scheduler.adapters.embedded.log import EmbeddedLog
from hourhand.scheduler.adapters.embedded.stores import open_stores
from hourhand.scheduler.adapters.embedded.writer import EmbeddedWriter
from hourhand.scheduler.wiring import agreed_partition_count
from tests.builders import NOW_MS, a_completion, a_key, a_stored_task
from tests.unit.scheduler.adapters.embedded.files import WAIT_S, Listener, settings_of

PARTITIONS = 2
RECORDS = 150
READ = 50
"""Next offset of each partition: so many of its records were stored."""
_FIRST = TaskKey(-1, "", "")
_LAST = TaskKey(1 << 52, "", "")
_COMMANDS = 5
LETTERS = 5
_IN_SEGMENT = 40
_SEGMENT_IN_MS = 2 * 3_600_000


def fill(folder: Path, crashed: Path) -> None:
    """Make a folder as a node leaves it that stopped, and one of a node that was killed."""
    settings = settings_of(folder, PARTITIONS)
    with contextlib.ExitStack() as closing:
        writer = EmbeddedWriter(settings)
        closing.callback(writer.close)
        stores = open_stores(settings)
        closing.callback(stores.close)
        log = EmbeddedLog(settings, SystemClock())
        closing.callback(log.close)
        log.subscribe(Listener())
        for number in range(RECORDS):
            value = f"record {number} ".encode() * 12
            headers = (("number", b"%d" % number),) if number % 3 == 0 else ()
            appended = writer.append(number % PARTITIONS, b"customer-7", value, headers)
            if number == RECORDS // 4:
                appended.result(WAIT_S)
                _move_into_file(folder / "log.db")
        appended.result(WAIT_S)
        log.poll(0, 0)
        _fill_partition(0, stores)
        _move_into_file(folder / "store.db")
        _fill_partition(1, stores)
        log.commit(dict.fromkeys(range(PARTITIONS), READ))
        assert log._committing is not None
        log._committing.result(WAIT_S)
        writer.append(0, b"customer-7", b"the last one").result(WAIT_S)
        writer.append(1, b"customer-7", b"the very last one").result(WAIT_S)
        for number in range(LETTERS):
            record = LogRecord(0, number, NOW_MS, b"customer-7", b"put aside %d " % number * 20)
            writer.dead_letter(record, "nobody can read it").result(WAIT_S)
        # Copied while everything is open: what a kill would leave on the disk.
        shutil.copytree(folder, crashed, ignore=shutil.ignore_patterns("node.bell"))


def _move_into_file(path: Path) -> None:
    """Have SQLite move what is in the write-ahead file to where it belongs."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def _fill_partition(partition: int, stores: Stores) -> None:
    epoch = stores.ownership.claim(partition, NOW_MS).result(WAIT_S).epoch
    tasks = [
        a_stored_task(due_in_ms=number, data=b"data %d " % number * 20, offset=number)
        for number in range(READ)
    ]
    completions = [a_completion(key=task.key, offset=task.offset) for task in tasks[::2]]
    attempts = [
        AttemptRecord(task.key, 1, AttemptResult.FAILURE, NOW_MS, NOW_MS + 1, error_class="Crash")
        for task in tasks[::3]
    ]
    outcome = RecordedOutcome(CommandOutcome.APPLIED, tasks[0].key, tasks[1].key, b"moved data")
    watermark = Watermark(NOW_MS, NOW_MS + 1_000, READ, (Straggler("blocked", NOW_MS - 5),))
    asked = [
        stores.schedule.insert_tasks(partition, tasks, 1),
        stores.status.insert_completions(partition, completions, 2),
        stores.status.insert_attempts(partition, attempts, 3),
        *(
            stores.ownership.insert_outcome(partition, number, outcome, 4)
            for number in range(_COMMANDS)
        ),
        stores.ownership.save_watermark(partition, epoch, watermark),
    ]
    asked.append(
        stores.status.insert_completions(partition, _segment(partition), epoch << EPOCH_SHIFT)
    )
    for each in asked:
        each.result(WAIT_S)


def _segment(partition: int) -> list[Completion]:
    """Return successes of one hour that an owner writes: so many are a segment."""
    return [
        a_completion(
            key=a_key(due_in_ms=_SEGMENT_IN_MS + number, uniqueness_key=f"in segment {partition}"),
            offset=number,
        )
        for number in range(_IN_SEGMENT)
    ]


def contents(folder: Path) -> dict[str, object]:
    """Return all that a node finds in a folder; raises what a node would raise."""
    settings = settings_of(folder, PARTITIONS)
    found: dict[str, object] = {}
    with contextlib.ExitStack() as closing:
        writer = EmbeddedWriter(settings)
        closing.callback(writer.close)
        stores = open_stores(settings)
        closing.callback(stores.close)
        found["partitions"] = agreed_partition_count(writer, stores.ownership, settings)
        log = EmbeddedLog(settings, SystemClock())
        closing.callback(log.close)
        listener = Listener()
        log.subscribe(listener)
        log.poll(0, 0)
        for partition in listener.partitions:
            found[f"stored {partition}"] = _stored(partition, stores)
            found[f"start {partition}"] = log.start(partition, None)
            log.seek(partition, 0)
        records: list[LogRecord] = []
        while (polled := log.poll(1_000, 0)).reached:
            records += polled.records
        view = EmbeddedLogView(settings)
        closing.callback(view.close)
        found["letters"] = view.letters(None, LETTERS)
        places = [Position(0, letter.offset) for letter in view.letters(None, LETTERS).letters]
        found["single letters"] = view.find_letters(places)
        found["records"] = sorted(records, key=lambda record: (record.partition, record.offset))
    return found


def _stored(partition: int, stores: Stores) -> list[object]:
    keys = [a_stored_task(due_in_ms=number).key for number in range(READ)]
    asked: list[Future[object]] = [
        cast("Future[object]", each)
        for each in (
            stores.schedule.load_tasks(partition, _FIRST, _LAST.scheduled_ms, 1_000),
            stores.schedule.find_tasks(partition, keys),
            stores.status.load_completions(partition, _FIRST, _LAST),
            stores.status.find_completions(partition, keys),
            stores.status.load_attempts(partition, _FIRST, _LAST),
            stores.ownership.read_watermark(partition),
            *(stores.ownership.find_outcome(partition, number) for number in range(_COMMANDS)),
        )
    ]
    return [each.result(WAIT_S) for each in asked]
