"""Names of files and folders that are there after a power cut.

To sync a file makes its content durable, and not its name: that stands in its folder, whose own
name stands in the one above.  It decides what is synced for a name; who makes it decides when.
"""

import contextlib
import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Have the names in a folder outlive a power cut; raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder_and_above(folder: Path) -> None:
    """Have the names in a folder, and its own with those above it, outlive a power cut.

    A process may have been killed between making one of them and syncing it, so what was there
    before is synced, too.  Raises OSError for the folder itself alone: one above it that this user
    may not read, or whose file system has no such request, was there before.
    """
    sync_folder(folder)
    for above in folder.absolute().parents:
        with contextlib.suppress(OSError):
            sync_folder(above)
