"""A process that is killed while it writes: whatever it was told is durable is there."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from hourhand.actors.model.task.key import TaskKey
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.embedded.log import EmbeddedLog
from hourhand.scheduler.adapters.embedded.stores import open_stores
from tests.unit.scheduler.adapters.embedded.files import WAIT_S, Listener, settings_of

BEGIN = """
import itertools, os, sys, threading
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask
from hourhand.scheduler.adapters.embedded.stores import open_stores
from hourhand.scheduler.adapters.embedded.writer import EmbeddedWriter
from hourhand.scheduler.configuration.settings import EmbeddedSettings, Settings
settings = Settings(embedded=EmbeddedSettings(folder=sys.argv[1]))
room = threading.Semaphore(300)
def acknowledged(number):
    def tell(future):
        future.result()
        os.write(1, b"%06d\\n" % number)
        room.release()
    return tell
"""
APPENDING = (
    BEGIN
    + """
writer = EmbeddedWriter(settings)
for number in itertools.count():
    room.acquire()
    writer.append(0, b"k", b"%06d" % number).add_done_callback(acknowledged(number))
"""
)
STORING = (
    BEGIN
    + """
schedule = open_stores(settings).schedule
for number in itertools.count():
    room.acquire()
    task = StoredTask(TaskKey(number, "id", ""), b"{}", number)
    schedule.insert_tasks(0, [task], 1).add_done_callback(acknowledged(number))
"""
)
ACKNOWLEDGED = 3_000
"""So many acknowledgements are awaited before the kill."""


def acknowledged_before_kill(program: str, folder: Path) -> int:
    """Run a child, kill it in the middle of its work, return how much it was told is durable."""
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, bufsize=0
    )
    assert child.stdout is not None
    with child:
        told = b""
        while told.count(b"\n") < ACKNOWLEDGED:
            chunk = child.stdout.read(65_536)
            assert chunk, "the child ended by itself"
            told += chunk
        child.kill()
        while chunk := child.stdout.read(65_536):
            told += chunk
        child.wait(WAIT_S)
    # The order of acknowledgements is that of the writes; the last line may be cut.
    numbers = [int(line) for line in told.split(b"\n")[:-1]]
    assert numbers == list(range(len(numbers)))
    return len(numbers)


@pytest.mark.parametrize("run", range(3))
def test_no_acknowledged_record_is_missing(tmp_path: Path, run: int) -> None:
    """The log holds all that was acknowledged, in order, and goes on after it."""
    count = acknowledged_before_kill(APPENDING, tmp_path)
    listener = Listener()
    log = EmbeddedLog(settings_of(tmp_path), SystemClock())
    log.subscribe(listener)
    log.poll(0, 0)
    start = log.start(0, None)
    assert start.end_offset >= count
    values: list[bytes | None] = []
    while len(values) < start.end_offset:
        values += [record.value for record in log.poll(10_000, 1_000).records]
    log.close()

    assert values == [b"%06d" % number for number in range(start.end_offset)]


@pytest.mark.parametrize("run", range(3))
def test_no_acknowledged_row_is_missing(tmp_path: Path, run: int) -> None:
    """The store holds all that was acknowledged, whole."""
    count = acknowledged_before_kill(STORING, tmp_path)
    stores = open_stores(settings_of(tmp_path))
    page = stores.schedule.load_tasks(0, TaskKey(-1, "", ""), 1 << 50, 1 << 20).result(WAIT_S)
    stores.close()

    assert len(page.tasks) >= count
    for number, task in zip(itertools.count(), page.tasks, strict=False):
        assert (task.key.scheduled_ms, task.data, task.offset) == (number, b"{}", number)
