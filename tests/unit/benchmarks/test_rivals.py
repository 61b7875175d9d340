"""What happens where a rival cannot be run."""

from pathlib import Path

import pytest

from benchmarks.rivals import graphile_worker
from benchmarks.servers import missing_rivals


def test_without_node_graphile_worker_is_left_out_loudly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The benchmark says so and goes on."""
    monkeypatch.setenv("PATH", str(tmp_path))

    assert missing_rivals() == {graphile_worker.NAME}

    told = capsys.readouterr().err
    assert "*** WITHOUT Graphile Worker: Node.js and npm are needed" in told


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
