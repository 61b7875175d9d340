"""The wheel from an index's point of view: installed into fresh environments of every Python.

``PYTHONS`` names interpreters, else those on the path are taken.  One that cannot be had here is
skipped, and the summary counts it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.outside import run
from tests.tidy.source import ROOT

pytestmark = pytest.mark.newcomer

PYTHONS = os.environ.get("PYTHONS", "python3.11 python3.12 python3.13 python3.14").split()
_DRIVERS = (
    "aiohttp, cassandra.cluster, cassandra.cmurmur3, confluent_kafka, fastapi, httptools, msgspec,"
    " opentelemetry.sdk, pyarrow, pyspark"
)


@pytest.fixture(params=PYTHONS)
def python(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the interpreter of a fresh environment."""
    found = shutil.which(request.param)
    # A name on the path may be a version manager's stand-in for a version that is not chosen.
    tried = [found, "-c", "import ensurepip, venv"] if found else ["false"]
    if subprocess.run(tried, check=False, capture_output=True).returncode:
        pytest.skip(f"there is no {request.param} here")
    run(found, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    return tmp_path / "venv/bin/python"


def test_the_wheel_alone_runs_the_demo(python: Path, wheel: Path, tmp_path: Path) -> None:
    """Outside the checkout, with what the core requires and nothing else."""
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)

    printed = run(python.parent / "hourhand", "demo", "--tasks", "600", cwd=tmp_path)

    assert "node killed with SIGKILL" in printed
    installed = run(python, "-m", "pip", "list", "--format", "freeze", cwd=tmp_path)
    assert not {"confluent-kafka", "cassandra-driver", "fastapi", "pyspark"} & {
        line.partition("==")[0] for line in installed.splitlines()
    }


def test_every_extra_can_be_installed_together(python: Path, wheel: Path, tmp_path: Path) -> None:
    """The drivers come with their compiled parts, so nobody needs a compiler."""
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[all]", cwd=tmp_path)

    run(python, "-m", "pip", "check", cwd=tmp_path)
    run(python, "-c", f"import {_DRIVERS}", cwd=tmp_path)
    assert "FOLDER" in run(python.parent / "hourhand", "pipeline", "report", "-h", cwd=tmp_path)


def test_uv_makes_an_environment_that_runs_the_unit_tests(tmp_path: Path) -> None:
    """From a clone, by the two commands that AGENTS.md names."""
    run("git", "clone", "--quiet", ROOT.as_uri(), "clone", cwd=tmp_path)
    uv, clone = [sys.executable, "-m", "uv"], tmp_path / "clone"
    assert "`uv sync` once, then `uv run pytest tests/unit`" in (clone / "AGENTS.md").read_text()

    run(*uv, "sync", "--quiet", "--python", sys.executable, cwd=clone, timeout_s=3_000)
    words = ["pytest", "-q", "tests/unit/actors/model", "tests/unit/scheduler/cli/test_help.py"]
    printed = run(*uv, "run", *words, cwd=clone, timeout_s=3_000)

    assert " passed" in printed.splitlines()[-1], printed
