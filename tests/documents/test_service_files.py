"""The page on systemd: a node reads its settings files."""

from pathlib import Path

import pytest

from hourhand import Settings
from tests.documents.blocks import blocks
from tests.tidy.source import ROOT

_FILES = {
    block.file: block.text for block in blocks(ROOT / "docs/operations/systemd.md") if block.file
}


@pytest.mark.parametrize("name", ["hourhand.toml", "one-machine.toml"])
def test_a_settings_file_is_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a node, which refuses what it does not know."""
    file = tmp_path / "settings.toml"
    file.write_text(_FILES[name], encoding="utf-8")
    monkeypatch.setenv("HOURHAND_CONFIG", str(file))

    assert Settings().observe.port == 9464
