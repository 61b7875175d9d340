"""What is told where a rival cannot be built."""

from pathlib import Path

import pytest

from benchmarks.bench import Bench
from benchmarks.rivals import awa, graphile_worker, huey, river, running
from benchmarks.rivals.rival import RivalMissing
from benchmarks.servers import open_servers
from benchmarks.sizes import SMOKE


def test_what_go_cannot_build_is_told_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The measure is then taken without it."""
    program = tmp_path / "go"
    program.write_text("#!/bin/sh\necho no network >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(river, "BUILT", tmp_path / "build" / "river")

    with pytest.raises(RivalMissing, match="no network"):
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

    with pytest.raises(RivalMissing, match="no network"):
        graphile_worker.install()


def test_a_rival_in_a_file_that_cannot_be_installed_is_left_out_loudly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The benchmark says so and goes on with the others, with PostgreSQL or without."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with open_servers(tmp_path / "servers", cluster=False, rivals=False) as servers:
        bench = Bench(servers, SMOKE, frozenset({"embedded"}))

        assert running.available(bench, [huey.RIVAL, awa.RIVAL]) == []

    assert "*** WITHOUT Huey: pip install" in capsys.readouterr().err
