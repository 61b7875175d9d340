"""The wheel, as a newcomer's package index would have it."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.tidy.outside import run
from tests.tidy.source import ROOT


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel, built through an sdist as a release is."""
    folder = tmp_path_factory.mktemp("dist")
    sources = tmp_path_factory.mktemp("sources") / "hourhand"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info", "tests", "docs")
    shutil.copytree(ROOT, sources, symlinks=True, ignore=ignored)
    run(sys.executable, "-m", "build", "--outdir", folder, cwd=sources)
    (found,) = folder.glob("*.whl")
    return found
