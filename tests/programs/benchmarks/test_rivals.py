"""What is told where a rival cannot be built."""

from pathlib import Path

import pytest

from benchmarks.rivals import graphile_worker, river


def test_what_go_cannot_build_is_told_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The measure is then taken without it."""
    program = tmp_path / "go"
    program.write_text("#!/bin/sh\necho no network >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(river, "BUILT", tmp_path / "build" / "river")

    with pytest.raises(river.RiverMissing, match="no network"):
        river.build()


def test_what_npm_cannot_install_is_told_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a proxy, or without a network."""
    for name in ("node", "npm"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho no network >&2\nexit 1\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(graphile_worker, "FOLDER", tmp_path / "build")

    with pytest.raises(graphile_worker.GraphileWorkerMissing, match="no network"):
        graphile_worker.install()
