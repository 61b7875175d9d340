"""Names that are synced up to the root of the file system."""

import os
from pathlib import Path

import pytest

from hourhand.scheduler.runtime.durable_names import sync_folder_and_above


def test_what_stands_above_may_be_closed_to_this_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was there before; the folder itself must be synced."""
    real, opened = os.open, []

    def refusing(path: Path, flags: int) -> int:
        opened.append(path)
        if path != folder:
            raise PermissionError(path)
        return real(path, flags)

    folder = tmp_path / "a"
    folder.mkdir()
    monkeypatch.setattr(os, "open", refusing)

    sync_folder_and_above(folder)

    assert opened == [folder, *folder.parents]
    with pytest.raises(PermissionError):
        sync_folder_and_above(tmp_path)
