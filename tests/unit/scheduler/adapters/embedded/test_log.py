"""The node's side of the log, where the suite does not look: other processes, pruning, failures."""

import contextlib
import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from hourhand.actors.model.values.errors import FolderDamaged, FolderLocked, LogUnavailable
from hourhand.actors.ports.log import Polled
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.embedded.log import EmbeddedLog
from hourhand.scheduler.adapters.embedded.writer import EmbeddedWriter
from tests.unit.scheduler.adapters.embedded.files import WAIT_S, Listener, settings_of


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[EmbeddedWriter]:
    """A writer of the node's own process."""
    writer = EmbeddedWriter(settings_of(tmp_path))
    yield writer
    writer.close()


@pytest.fixture
def log(tmp_path: Path, writer: EmbeddedWriter) -> Iterator[EmbeddedLog]:
    """A node's log, subscribed, started."""
    log = started(tmp_path)
    yield log
    log.close()


def started(folder: Path, listener: Listener | None = None) -> EmbeddedLog:
    """Open a log and start every partition."""
    log = EmbeddedLog(settings_of(folder), SystemClock())
    begin(log, listener or Listener())
    return log


def read_all(log: EmbeddedLog) -> Polled:
    """Start every partition, and poll once."""
    begin(log, Listener())
    return log.poll(10, 1_000)


def begin(log: EmbeddedLog, listener: Listener) -> None:
    """Start every partition."""
    log.subscribe(listener)
    log.poll(0, 0)
    for partition in listener.partitions:
        log.start(partition, None)


def test_a_second_node_is_refused_and_the_first_goes_on(
    tmp_path: Path, log: EmbeddedLog, writer: EmbeddedWriter
) -> None:
    """The refused one has no lease, and closing it takes nothing from the first."""
    second = EmbeddedLog(settings_of(tmp_path), SystemClock())
    with pytest.raises(FolderLocked, match="stop that node"):
        second.subscribe(Listener())
    assert second.lease_ends_ms() == -math.inf
    second.close()

    third = EmbeddedLog(settings_of(tmp_path), SystemClock())
    with contextlib.closing(third), pytest.raises(FolderLocked):
        third.subscribe(Listener())
    before_ms = SystemClock().now_ms()
    writer.append(0, b"k", b"v").result(WAIT_S)
    (record,) = log.poll(10, 5_000).records
    assert record.value == b"v"
    assert before_ms - 1 <= record.timestamp_ms <= SystemClock().now_ms() + 1
    assert log.lease_ends_ms() == math.inf


def test_records_far_below_the_committed_offset_are_removed(
    tmp_path: Path, log: EmbeddedLog, writer: EmbeddedWriter
) -> None:
    """The log does not grow for ever; a tail stays, and offsets go on where they were."""
    for number in range(9_000):
        last = writer.append(0, b"k", b"%d" % number)
    last.result(WAIT_S)
    log.commit({0: 8_500})
    assert log._pruning is not None
    log._pruning.result(WAIT_S)

    connection = sqlite3.connect(tmp_path / "log.db")
    offsets = [offset for (offset,) in connection.execute("SELECT id FROM record ORDER BY id")]
    connection.close()
    assert offsets == list(range(7_500, 9_000))
    log.seek(0, 0)
    polled = log.poll(1, 1_000)
    assert [each.offset for each in polled.records] == [7_500]
    assert writer.append(0, b"k", b"next").result(WAIT_S).offset == 9_000


def test_offsets_are_never_given_out_twice(tmp_path: Path, writer: EmbeddedWriter) -> None:
    """Not even where every record is gone and every process was restarted."""
    for _ in range(3):
        writer.append(1, b"k", b"v").result(WAIT_S)
    writer.close()
    connection = sqlite3.connect(tmp_path / "log.db")
    connection.execute("DELETE FROM record")
    connection.commit()
    connection.close()

    again = EmbeddedWriter(settings_of(tmp_path))
    assert again.append(1, b"k", b"v").result(WAIT_S).offset == 3
    again.close()
    listener = Listener()
    log = started(tmp_path, listener)
    assert [each.offset for each in log.poll(10, 1_000).records] == [3]
    log.close()


@pytest.mark.parametrize(
    "gone", ["id >= 0", "id = 1", "id = 4"], ids=["every record", "one of them", "the last one"]
)
def test_a_record_that_is_gone_is_told(tmp_path: Path, writer: EmbeddedWriter, gone: str) -> None:
    """It was acknowledged, and nobody read it: a running node does not step over it."""
    log = started(tmp_path)
    for _ in range(5):
        writer.append(0, b"k", b"v").result(WAIT_S)
    connection = sqlite3.connect(tmp_path / "log.db")
    connection.execute(f"DELETE FROM record WHERE {gone}")  # noqa: S608 - the test's own text
    connection.commit()
    connection.close()

    with contextlib.closing(log), pytest.raises(FolderDamaged, match=r"log\.db is damaged"):
        log.poll(10, 1_000)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE record SET value = x'0102' WHERE id = 1",
        "UPDATE record SET headers = x'FF' WHERE id = 1",
        "UPDATE log_end SET next_offset = 6",
        "UPDATE log_end SET next_offset = 4",
        "UPDATE committed SET next_offset = 4",
    ],
)
def test_a_value_that_changed_is_told(tmp_path: Path, writer: EmbeddedWriter, change: str) -> None:
    """SQLite does not see it; the checksums and the numbers that must agree do."""
    for _ in range(5):
        writer.append(0, b"k", b"v").result(WAIT_S)
    log = started(tmp_path)
    log.commit({0: 0})
    log.close()
    connection = sqlite3.connect(tmp_path / "log.db")
    connection.execute(change)
    connection.commit()
    connection.close()

    log = EmbeddedLog(settings_of(tmp_path), SystemClock())
    with contextlib.closing(log), pytest.raises(FolderDamaged, match=r"log\.db is .*backup"):
        read_all(log)


def test_no_partition_waits_for_a_long_one(log: EmbeddedLog, writer: EmbeddedWriter) -> None:
    """Each poll shares its room between all that have something."""
    for partition, count in ((0, 500), (1, 5)):
        for _ in range(count):
            last = writer.append(partition, b"k", b"v")
        last.result(WAIT_S)
    polled = log.poll(20, 1_000)

    counts = [sum(each.partition == partition for each in polled.records) for partition in (0, 1)]
    assert len(polled.records) == 15 or counts == [15, 5]
    assert counts[1] == 5


def test_a_commit_that_failed_is_told_by_the_next_poll(
    log: EmbeddedLog, writer: EmbeddedWriter
) -> None:
    """Once; then the log goes on."""
    log._database.write(
        lambda connection: connection.execute("PRAGMA query_only=ON").close()
    ).result(WAIT_S)
    log.commit({0: 0})
    assert log._committing is not None
    assert log._committing.exception(WAIT_S) is not None

    with pytest.raises(LogUnavailable):
        log.poll(0, 0)
    log.poll(0, 0)


def test_the_number_of_partitions_is_the_one_the_log_was_begun_with(tmp_path: Path) -> None:
    """Another setting changes nothing; whoever compares can see it."""
    EmbeddedWriter(settings_of(tmp_path, partitions=3)).close()
    listener = Listener()
    log = EmbeddedLog(settings_of(tmp_path, partitions=7), SystemClock())
    log.subscribe(listener)
    log.poll(0, 0)

    assert listener.partitions == [0, 1, 2]
    log.close()
    writer = EmbeddedWriter(settings_of(tmp_path, partitions=7))
    assert writer.partition_count() == 3
    with pytest.raises(ValueError, match="partition 3 is not one of 3"):
        writer.append(3, b"k", b"v")
    writer.close()
