"""A full disk: a clear error, nothing acknowledged is missing, and on as soon as there is room.

On a real small disk where the tests may mount one, and under a limit on the size of files, which
every user may set and which SQLite tells as an error of the disk.
"""

import contextlib
import logging
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import tenacity

from hourhand import RetryPolicy, Scheduler, SchedulerClient, Settings, Task, TaskExecutor
from hourhand.actors.model.operations.events import Event, TreeRebuilt
from hourhand.actors.model.values.errors import LogUnavailable, OperatorError
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.adapters.clock import SystemClock
from tests.crash.disk import Disk, LimitedDisk, mounted
from tests.crash.load import settings_of
from tests.crash.test_sigkill import assert_sound

WAIT_S = 60.0
LARGE = "x" * 200_000
FAILURES = 10
REBUILDS = 4
LOGGED_MAX = 500
"""Lines a node may log while the disk is full; one that spins logs thousands."""


class Ledger:
    """What ran, by uniqueness key, and how often the tree was rebuilt."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.rebuilt = 0
        self._changed = threading.Condition()

    def note(self, name: str) -> None:
        """Take note of an attempt."""
        with self._changed:
            self.ran.append(name)
            self._changed.notify_all()

    def emit(self, event: Event) -> None:
        """Take note of a rebuild."""
        with self._changed:
            self.rebuilt += isinstance(event, TreeRebuilt)
            self._changed.notify_all()

    def wait_for(self, names: set[str]) -> None:
        """Wait until all of these ran."""
        with self._changed:
            there = self._changed.wait_for(lambda: names <= set(self.ran), WAIT_S)
        assert there, f"never ran: {sorted(names - set(self.ran))}"

    def wait_for_rebuilds(self, count: int) -> None:
        """Wait until the tree failed and was rebuilt so often."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.rebuilt >= count, WAIT_S)


class _Noting(TaskExecutor):
    retry = RetryPolicy(wait=tenacity.wait_fixed(0.02))

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def execute(self, task: Task) -> None:
        """Run one attempt."""
        self._ledger.note(task.uniqueness_key)


@pytest.fixture(params=["mounted", "limited"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """A disk that can be full."""
    with contextlib.ExitStack() as stack:
        found: Disk = LimitedDisk(tmp_path)
        if request.param == "mounted":
            try:
                found = stack.enter_context(mounted(tmp_path / "disk"))
            except PermissionError as error:
                pytest.skip(f"no disk of its own for this test: {error}")
        stack.callback(found.free)
        yield found


def a_task(name: str, *, data: str = "", in_s: float = 0) -> Task:
    """Return a task that is due soon, of one of some ordering ids."""
    return Task(
        ordering_id=f"customer-{hash(name) % 10}",
        scheduled_time=from_millis(SystemClock().now_ms()) + timedelta(seconds=in_s),
        uniqueness_key=name,
        data={"text": data},
    )


def schedule_until_refused(client: SchedulerClient, acknowledged: set[str]) -> None:
    """Schedule large tasks until some are refused, and check what is said."""
    refused = 0
    number = 0
    while refused < FAILURES:
        number += 1
        name = f"large {number}"
        failure = client.schedule_task(a_task(name, data=LARGE)).exception(WAIT_S)
        if failure is None:
            acknowledged.add(name)
            continue
        refused += 1
        assert isinstance(failure, LogUnavailable)
        assert "log.db is not available" in str(failure)
        assert "KiB left" in str(failure)
        assert "disk is full; free space" in str(failure) or "check the disk" in str(failure)


def test_a_full_disk_loses_nothing_and_ends(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    """The node lives through it: what was acknowledged before, during and after it runs."""
    ledger = Ledger()
    acknowledged: set[str] = set()
    folder = disk.place / "folder"
    with Scheduler(
        settings_of(folder), executor=lambda: _Noting(ledger), telemetry=ledger
    ) as scheduler:
        for number in range(100):
            task = a_task(f"before {number}", in_s=number % 10 / 5)
            scheduler.schedule_task(task).result(WAIT_S)
            acknowledged.add(task.uniqueness_key)
        ledger.wait_for({"before 0"})
        disk.fill()
        with caplog.at_level(logging.INFO, logger="hourhand"):
            schedule_until_refused(scheduler, acknowledged)
            ledger.wait_for_rebuilds(REBUILDS)
            logged = len(caplog.records)
        disk.free()
        name = "after"
        while scheduler.schedule_task(a_task(name)).exception(WAIT_S) is not None:
            name += " all"
        acknowledged.add(name)
        ledger.wait_for(acknowledged)

    assert logged < LOGGED_MAX
    assert {name for name in ledger.ran if name.startswith("large")} <= acknowledged
    assert_sound(folder)


def test_a_node_started_on_a_full_disk_says_so(disk: Disk) -> None:
    """In a folder that is there and in one that is to be made, and it starts once there is room."""
    settings = settings_of(disk.place / "folder")
    ledger = Ledger()
    with Scheduler(settings, executor=lambda: _Noting(ledger)) as scheduler:
        scheduler.schedule_task(a_task("first")).result(WAIT_S)
        ledger.wait_for({"first"})
    disk.fill()
    with pytest.raises(OperatorError, match="disk"):
        open_and_close(settings_of(disk.place / "another"), ledger)
    with contextlib.suppress(OperatorError):
        open_and_close(settings, ledger)
    disk.free()

    with Scheduler(settings, executor=lambda: _Noting(ledger)) as scheduler:
        scheduler.schedule_task(a_task("second")).result(WAIT_S)
        ledger.wait_for({"second"})


def open_and_close(settings: Settings, ledger: Ledger) -> None:
    """Start a node and stop it."""
    with Scheduler(settings, executor=lambda: _Noting(ledger)):
        pass
