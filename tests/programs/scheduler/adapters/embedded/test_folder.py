"""Who holds a folder, where processes end and fork."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hourhand.actors.model.values.errors import FolderLocked
from hourhand.scheduler.adapters.embedded.folder import FolderLock
from tests.unit.scheduler.adapters.embedded.files import WAIT_S

HOLDER = """
import sys
from pathlib import Path
from hourhand.scheduler.adapters.embedded.folder import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


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
