"""The content of the folder: two files, the node's lock, the node's bell.

The lock decides which process may be the node. The bell only wakes it: a lost ring costs a few
milliseconds, never a record.
"""

import contextlib
import fcntl
import os
import select
import socket
import stat
import weakref
from collections.abc import Callable
from pathlib import Path

from hourhand.actors.model.values.errors import FolderLocked, LogUnavailable, StoreUnavailable
from hourhand.scheduler.adapters.embedded.connection import FILE_MODE, File
from hourhand.scheduler.adapters.embedded.schema import LOG, STORE
from hourhand.scheduler.configuration.settings import Settings

_LOOK_MS = 100.0
"""Longest wait for the bell: a writer may lack the right to ring it."""
_LOOK_WITHOUT_BELL_MS = 5.0


def log_file(folder: Path) -> File:
    """Return the file of records, offsets and dead letters."""
    return File(folder / "log.db", LOG, LogUnavailable)


def store_file(folder: Path) -> File:
    """Return the file of schedule, statuses and ownership."""
    return File(folder / "store.db", STORE, StoreUnavailable)


def open_to_others(folder: Path) -> str | None:
    """Return advice about a folder whose files other users of this machine may read or write.

    None if they may not. Nothing is changed: the folder may be shared with a group on purpose.
    """
    files = [each for each in folder.glob("*.db*") if _rights_of_others(each)]
    if not files or not _rights_of_others(folder):
        return None
    return (
        f"others of this machine may use {files[0]}, and with it read tasks and change what runs:"
        f" chmod 700 {folder} and chmod 600 {folder}/*, unless that is meant"
    )


def _rights_of_others(path: Path) -> int:
    return path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def lock_folder(settings: Settings) -> Callable[[], None]:
    """Lock the folder of the settings and return a function that unlocks it; FolderLocked."""
    return FolderLock(settings.embedded.folder).release


class FolderLock:
    """The exclusive lock of one folder, held until ``release`` or the end of the process.

    The operating system releases it at any end of the process, so no stale lock remains; a forked
    child closes its copy, so it keeps nothing locked either. Raises FolderLocked, which names the
    holder, and LogUnavailable.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / "node.lock"
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        except OSError as error:
            raise LogUnavailable(f"{path} cannot be opened: {error}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._descriptor, 200, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            if holder == _holder():
                holder += ", this process"
            if not isinstance(error, BlockingIOError):
                raise LogUnavailable(f"{path} cannot be locked: {error}") from error
            raise FolderLocked(
                f"the folder {folder} belongs to another node ({holder or 'just starting'}); an"
                " embedded folder has room for one: stop that node, or choose another"
                " embedded.folder"
            ) from None
        _held.add(self)
        # The text is only for messages: the folder is locked even if the disk is full.
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{_holder()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock for another node."""
        if self in _held:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
            self.leave_to_parent()

    def leave_to_parent(self) -> None:
        """Close this process's copy; the lock lasts as long as another process has one."""
        _held.discard(self)
        os.close(self._descriptor)


def _holder() -> str:
    return f"pid {os.getpid()} on {socket.gethostname()}"


_held: weakref.WeakSet[FolderLock] = weakref.WeakSet()
"""The locks of this process: a child forked by user code, which may outlive the node, must not
keep the folder locked."""


def _leave_locks_to_parent() -> None:
    for lock in tuple(_held):
        lock.leave_to_parent()


os.register_at_fork(after_in_child=_leave_locks_to_parent)


class Bell:
    """The node's side: a named pipe into which writers of any process put a byte.

    On file systems without pipes, ``wait`` just returns soon.
    """

    def __init__(self, folder: Path) -> None:
        path = _bell_path(folder)
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):
            with contextlib.suppress(FileExistsError):
                os.mkfifo(path, FILE_MODE)
            # A restored backup may have put a plain file in its place, which would ring for ever.
            if stat.S_ISFIFO(path.stat().st_mode):
                # Opened for writing too: without a writer a pipe would read as ended.
                self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def wait(self, timeout_ms: float) -> None:
        """Return when rung, or after a pause of at most ``timeout_ms``."""
        if self._descriptor is None:
            select.select([], [], [], min(timeout_ms, _LOOK_WITHOUT_BELL_MS) / 1000)
            return
        rung, _, _ = select.select([self._descriptor], [], [], min(timeout_ms, _LOOK_MS) / 1000)
        if rung:
            with contextlib.suppress(BlockingIOError):
                os.read(self._descriptor, 65_536)

    def close(self) -> None:
        """Remove the bell; later rings have no effect."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def ring(folder: Path) -> None:
    """Wake the folder's node, if there is one."""
    # Without a pipe or a listener, or with a full pipe, there is nothing to do.
    with contextlib.suppress(OSError):
        descriptor = os.open(_bell_path(folder), os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(descriptor, b"\0")
        finally:
            os.close(descriptor)


def _bell_path(folder: Path) -> Path:
    return folder / "node.bell"
