"""What users install: the wheel, used from another folder, without the repository.

Flat packages hide packaging mistakes, because the repository's root is on the path whenever
something runs inside it.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

_BUILT_FROM = ("actors", "scheduler", "schema", "pyproject.toml", "setup.cfg", "README.md")


def _run(*command: str | Path, cwd: Path) -> str:
    # PYTHONPATH would find the repository again, which is what must not be needed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        command,
        capture_output=True,
        check=False,
        cwd=cwd,
        env=environment,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
    return result.stdout.strip()


def _copy_sources(target: Path) -> None:
    # Building in place would pick up what an earlier build left in build/.
    for name in _BUILT_FROM:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(source, target / name, ignore=ignored)
        else:
            shutil.copy(source, target / name)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a virtual environment ``venv`` in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("elsewhere")
    sources = tmp_path_factory.mktemp("sources")
    _copy_sources(sources)
    _run(
        *(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder),
        cwd=sources,
    )
    (wheel,) = folder.glob("hourhand-*.whl")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv/bin/python"
    _run(
        *(sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"),
        *("install", "--no-deps", "--no-index", "--quiet", wheel),
        cwd=folder,
    )
    # The dependencies of this environment are borrowed, its editable installation is not:
    # a path listed in a .pth file is searched, but .pth files inside it are not read.
    purelib = _run(
        python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder
    )
    borrowed = "\n".join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    (Path(purelib) / "borrowed.pth").write_text(borrowed + "\n", encoding="utf-8")
    return folder


def test_the_command_line_runs_from_another_folder(elsewhere: Path) -> None:
    """The script the wheel installs finds everything it needs."""
    version = _run(elsewhere / "venv/bin/hourhand", "version", cwd=elsewhere)

    assert "0." in version


def test_both_packages_are_imported_from_the_wheel(elsewhere: Path) -> None:
    """Neither comes from the repository."""
    program = (
        "import actors.topic_supervisor, scheduler; print(actors.__file__, scheduler.__file__)"
    )

    for path in _run(elsewhere / "venv/bin/python", "-c", program, cwd=elsewhere).split():
        assert path.startswith(str(elsewhere / "venv")), path


def test_every_table_of_the_schema_is_in_the_wheel(elsewhere: Path) -> None:
    """``hourhand migrate`` reads the CQL files from the installed package."""
    program = (
        "from importlib.resources import files;"
        " print(*sorted(f.name for f in (files('scheduler.schema') / 'cassandra').iterdir()))"
    )
    shipped = _run(elsewhere / "venv/bin/python", "-c", program, cwd=elsewhere).split()

    assert shipped == sorted(path.name for path in (ROOT / "schema/cassandra").glob("*.cql"))
    assert shipped


def test_every_module_is_in_the_wheel(elsewhere: Path) -> None:
    """A folder missing from setup.cfg would be missing here."""
    program = "import actors; from pathlib import Path; print(Path(actors.__file__).parents[1])"
    installed = Path(_run(elsewhere / "venv/bin/python", "-c", program, cwd=elsewhere))

    missing = [
        path.relative_to(ROOT).as_posix()
        for folder in ("actors", "scheduler")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".typed", ".html", ".css", ".js"}
        and not (installed / path.relative_to(ROOT)).is_file()
    ]
    assert not missing
