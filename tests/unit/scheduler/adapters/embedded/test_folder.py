"""The lock and the bell of a folder."""

import os
import select
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from hourhand.actors.model.values.errors import FolderLocked
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.embedded.folder import Bell, FolderLock, ring
from hourhand.scheduler.configuration.settings import EmbeddedSettings, Settings
from hourhand.scheduler.scheduler import Scheduler
from tests.unit.scheduler.adapters.embedded.files import WAIT_S


def test_the_lock_is_free_again_after_release(tmp_path: Path) -> None:
    """A second holder is refused only as long as there is a first."""
    first = FolderLock(tmp_path)
    with pytest.raises(
        FolderLocked, match=rf"\(pid {os.getpid()} on .*, this process\).*stop that"
    ):
        FolderLock(tmp_path)
    first.release()

    FolderLock(tmp_path).release()


def test_a_released_lock_may_be_released_again(tmp_path: Path) -> None:
    """Whoever holds the folder by then keeps it."""
    first = FolderLock(tmp_path)
    first.release()
    second = FolderLock(tmp_path)
    first.release()
    with pytest.raises(FolderLocked):
        FolderLock(tmp_path)
    second.release()


def test_a_bell_that_a_backup_made_a_plain_file_is_not_listened_to(tmp_path: Path) -> None:
    """It would ring without end, and the node would never rest."""
    (tmp_path / "node.bell").write_bytes(b"")
    bell = Bell(tmp_path)
    ring(tmp_path)

    assert bell._descriptor is None
    bell.close()


def test_a_ring_ends_the_wait_and_is_heard_once(tmp_path: Path) -> None:
    """Also one from before the wait, and into a pipe that is full; many rings are one."""
    bell = Bell(tmp_path)
    assert bell._descriptor is not None
    assert os.write(bell._descriptor, b"\0" * 1_000_000) == 65_536
    ring(tmp_path)
    bell.wait(WAIT_S * 1000)

    assert not select.select([bell._descriptor], [], [], 0)[0]
    bell.close()


def test_ringing_where_nobody_listens_is_no_error(tmp_path: Path) -> None:
    """Before a bell hangs, after it was taken down, and in no folder at all."""
    ring(tmp_path)
    Bell(tmp_path).close()
    ring(tmp_path)
    ring(tmp_path / "absent")


def test_without_a_pipe_the_wait_is_short(tmp_path: Path) -> None:
    """Where the bell cannot hang, the node looks every few milliseconds."""
    bell = Bell(tmp_path / "absent")
    clock = SystemClock()
    before_ms = clock.monotonic_ms()
    bell.wait(60_000)

    assert clock.monotonic_ms() - before_ms < 30_000
    bell.close()


def rights(path: Path) -> int:
    """Return who may do what with it."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def no_umask() -> Iterator[None]:
    """Nothing but Hourhand takes rights away."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("no_umask")
def test_a_new_folder_is_its_owners_alone(tmp_path: Path) -> None:
    """And so is all that is in it while a node runs."""
    folder = tmp_path / "deep" / "hourhand"
    settings = Settings(embedded=EmbeddedSettings(folder=folder))
    with Scheduler(settings, executors={}):
        found = {each.name: rights(each) for each in folder.iterdir()}

    assert rights(folder) == 0o700
    assert {"log.db", "log.db-wal", "log.db-shm", "store.db", "node.lock", "node.bell"} <= {*found}
    assert set(found.values()) == {0o600}


@pytest.mark.usefixtures("no_umask")
def test_a_folder_that_others_may_use_is_warned_about_and_left_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A group may have been let in on purpose."""
    settings = Settings(embedded=EmbeddedSettings(folder=tmp_path))
    tmp_path.chmod(0o755)
    with Scheduler(settings, executors={}):
        assert "chmod" not in caplog.text
    (tmp_path / "log.db").chmod(0o644)
    with Scheduler(settings, executors={}):
        assert f"chmod 700 {tmp_path}" in caplog.text

    assert (rights(tmp_path), rights(tmp_path / "log.db")) == (0o755, 0o644)
