"""The wheel, built once a run, and an environment that has it and what the core requires.

Decides how it is built and installed without asking an index; never what must be true of it.
"""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.once_a_run import once_a_run
from tests.tidy.outside import run
from tests.tidy.source import ROOT, project_metadata

BUILT_FROM = (
    "actors",
    "hourhand",
    "scheduler",
    "schema",
    "pyproject.toml",
    "setup.cfg",
    "README.md",
    "LICENSE",
)
BUILD_LOG = "build.log"


def _copy_sources(target: Path) -> None:
    # Building in place would pick up what an earlier build left in build/.
    for name in BUILT_FROM:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(source, target / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(source, target / name)


def _required(*texts: str) -> set[str]:
    """Return the names of all projects that these requirements bring here, Hourhand left out."""
    found: set[tuple[str, str]] = set()
    waiting = [*map(Requirement, texts)]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras} - {each for one, each in found if one == name}:
            found.add((name, extra))
            waiting += _asked_by(name, extra)
    return {name for name, _ in found} - {"hourhand"}


def _asked_by(name: str, extra: str) -> list[Requirement]:
    """Return the requirements of a project, or of one of its extras."""
    if name == "hourhand":
        project: Any = project_metadata()
        texts = project["optional-dependencies"][extra] if extra else project["dependencies"]
        return [*map(Requirement, texts)]
    known = map(Requirement, importlib.metadata.requires(name) or ())
    return [each for each in known if each.marker is None or each.marker.evaluate({"extra": extra})]


def _lend(projects: set[str], site_packages: Path) -> None:
    """Link what these projects installed here into another environment's packages."""
    for name in projects:
        distribution = importlib.metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."}
        for top in tops - {"__pycache__"}:
            (site_packages / top).symlink_to(Path(str(distribution.locate_file(top))))


@pytest.fixture(scope="session")
def built() -> Path:
    """Return a folder with an sdist, and the wheel that was built from it."""
    return once_a_run("built", _build)


def _build(folder: Path) -> None:
    # Modules that are not compiled, because the environment says so, would be a warning each.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    }
    with tempfile.TemporaryDirectory() as sources, (folder / BUILD_LOG).open("wb") as log:
        _copy_sources(Path(sources))
        subprocess.run(
            [sys.executable, "-W", "default", "-m", "build", "--no-isolation", "--outdir", folder],
            cwd=sources,
            env={**environment, "PYTHONWARNINGS": "default"},
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=300,
            check=True,
        )


@pytest.fixture(scope="session")
def elsewhere(built: Path) -> Path:
    """Return a folder with a virtual environment ``venv``: the wheel and what the core requires.

    The packages are lent by this environment, so that no index is asked.
    """
    (wheel,) = built.glob("hourhand-*.whl")
    return once_a_run("elsewhere", partial(_install, wheel, ("hourhand",)))


@pytest.fixture(scope="session")
def for_developers(built: Path) -> Path:
    """Return such a folder with what ``hourhand[dev]`` requires besides, and with pytest."""
    (wheel,) = built.glob("hourhand-*.whl")
    texts = ("hourhand[dev]", "pytest")
    return once_a_run("for_developers", partial(_install, wheel, texts))


def _install(wheel: Path, texts: tuple[str, ...], folder: Path) -> None:
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv/bin/python"
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "--disable-pip-version-check",
        "install",
        "--no-deps",
        "--no-index",
        "--quiet",
        wheel,
        cwd=folder,
    )
    purelib = run(
        python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder
    )
    _lend(_required(*texts), Path(purelib))
