"""Environments with other versions of Django, made once and kept in ``.cache/django``.

Decides which Python has a version, and what is installed: Django and what the core of Hourhand
requires, which is read from the checkout.  Where it cannot be had here, the test is skipped.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.tidy.source import ROOT, project_metadata

_FOLDER = ROOT / ".cache/django"
_PYTHONS = ("python3.12", "python3.13", "python3.14")
"""Those that Django 6 runs on, the first that is there."""


class DjangoEnvironment(NamedTuple):
    """A Python with Django, and the folder with Django's own tests; None for a Django without."""

    python: Path
    suite: Path | None


def environment_of(django: str) -> DjangoEnvironment:
    """Return the environment of a version such as ``6.1``; skips the test without one."""
    if django == "5.2":
        django_tasks = pytest.importorskip("django_tasks", reason="not installed here: make venv")
        assert django_tasks is not None
        return DjangoEnvironment(Path(sys.executable), None)
    python = _python()
    core = project_metadata()["dependencies"]
    assert isinstance(core, list)
    required = [f"django~={django}.0", *core]
    text = "\n".join((str(python), *required))
    folder = _FOLDER / f"{django}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (_FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            _make(folder, python, required)
            (folder / "made").touch()
    return DjangoEnvironment(folder / "venv/bin/python", folder / "suite/tasks")


def _python() -> Path:
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for name in _PYTHONS:
        found = [shutil.which(name), *sorted(versions.glob(f"*/bin/{name}"))]
        for each in found:
            # A shim of pyenv's is there for versions that are not.
            asked = [str(each), "-c", "import sqlite3, venv"]
            if each is not None:
                answer = subprocess.run(asked, capture_output=True, check=False)
                if answer.returncode == 0:
                    return Path(each)
    pytest.skip(f"Django 6 needs Python 3.12 or newer, and none of {', '.join(_PYTHONS)} is here")


def _make(folder: Path, python: Path, required: list[str]) -> None:
    uv = [sys.executable, "-m", "uv"]
    _run(*uv, "venv", "--quiet", "--python", str(python), str(folder / "venv"))
    made = str(folder / "venv/bin/python")
    _run(*uv, "pip", "install", "--quiet", "--python", made, *required)
    version = _run(made, "-c", "import django; print(django.__version__)")
    sdist = [f"django=={version}", "--dest", str(folder), "--no-deps", "--no-binary", "django"]
    older = ["--ignore-requires-python", "--no-build-isolation", "--quiet"]
    _run(sys.executable, "-m", "pip", "download", *sdist, *older)
    (archive,) = folder.glob("*.tar.gz")
    suite = folder / "suite/tasks"
    suite.mkdir(parents=True)
    with tarfile.open(archive) as opened:
        for member in opened.getmembers():
            # The folder has no other folders; a name of the archive is not a path here.
            if member.isfile() and member.name.startswith(f"django-{version}/tests/tasks/"):
                file = opened.extractfile(member)
                assert file is not None, "it is a file"
                (suite / Path(member.name).name).write_bytes(file.read())
    archive.unlink()


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=600)
    if done.returncode:
        pytest.skip(f"Django cannot be had here: {command[:4]}: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()
