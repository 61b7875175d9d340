"""Makes names of files and folders survive a power cut.

To sync a file makes its content durable, but not its name: that is stored in its folder, whose own
name is stored in the one above. It decides what is synced for a name; the caller decides when.
"""

import contextlib
import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut; raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder_and_above(folder: Path) -> None:
    """Make the names in a folder, its own and those above it survive a power cut.

    A process may have been killed between making one of them and syncing it, so older ones are
    synced too. Raises OSError for the folder itself only: one above it that this user may not read,
    or whose file system cannot sync it, existed before.
    """
    sync_folder(folder)
    for above in folder.absolute().parents:
        with contextlib.suppress(OSError):
            sync_folder(above)
