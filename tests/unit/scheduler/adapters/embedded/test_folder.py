"""The lock and the bell of a folder."""

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from actors.model.errors import FolderLocked
from scheduler.adapters.clock import SystemClock
from scheduler.adapters.embedded.folder import Bell, FolderLock, ring
from tests.unit.scheduler.adapters.embedded.files import WAIT_S

HOLDER = """
import sys
from pathlib import Path
from scheduler.adapters.embedded.folder import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_the_lock_is_free_again_after_release(tmp_path: Path) -> None:
    """A second holder is refused only as long as there is a first."""
    first = FolderLock(tmp_path)
    with pytest.raises(FolderLocked, match=rf"another node \(pid {os.getpid()} on .*stop that"):
        FolderLock(tmp_path)
    first.release()

    FolderLock(tmp_path).release()


def test_a_process_that_is_killed_leaves_no_lock_behind(tmp_path: Path) -> None:
    """While it lives the refusal names it; after that the folder is free."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(FolderLocked, match=f"pid {holder.pid} on"):
            FolderLock(tmp_path)
        holder.kill()
        holder.wait(WAIT_S)

    FolderLock(tmp_path).release()


def test_a_forked_child_does_not_keep_the_folder_locked(tmp_path: Path) -> None:
    """User code may fork; the child may outlive the node, and its parent keeps the lock."""
    lock = FolderLock(tmp_path)
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ready[1], b"\0")
        os.close(go[1])
        os.read(go[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    with pytest.raises(FolderLocked):
        FolderLock(tmp_path)
    lock.release()

    FolderLock(tmp_path).release()
    for descriptor in (*ready, *go):
        os.close(descriptor)
    assert os.waitpid(child, 0)[1] == 0


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

    assert clock.monotonic_ms() - before_ms < 1_000
    bell.close()
