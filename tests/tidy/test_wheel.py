"""What users install: the wheel, used from another folder, without the repository or the extras.

Flat packages hide packaging mistakes, because the repository's root is on the path whenever
something runs inside it; a full environment hides imports that only an extra could satisfy.
"""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tidy.outside import run
from tests.tidy.source import ROOT, project_metadata, report

_BUILT_FROM = (
    *("actors", "hourhand", "scheduler", "schema"),
    *("pyproject.toml", "setup.cfg", "README.md", "LICENSE"),
)
_BUILD_LOG = "build.log"


def _copy_sources(target: Path) -> None:
    # Building in place would pick up what an earlier build left in build/.
    for name in _BUILT_FROM:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(source, target / name, ignore=ignored)
        else:
            shutil.copy(source, target / name)


def _core() -> set[str]:
    """Return the names of all projects that the core requires here, and what those require."""
    found: set[str] = set()
    core = project_metadata()["dependencies"]
    assert isinstance(core, list)
    waiting = [*map(Requirement, core)]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        asked = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if asked and name not in found:
            found.add(name)
            waiting += map(Requirement, importlib.metadata.requires(name) or ())
    return found


def _lend(projects: set[str], site_packages: Path) -> None:
    """Link what these projects installed here into another environment's packages."""
    for name in projects:
        distribution = importlib.metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."}
        for top in tops - {"__pycache__"}:
            (site_packages / top).symlink_to(Path(str(distribution.locate_file(top))))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("built")
    sources = tmp_path_factory.mktemp("sources")
    _copy_sources(sources)
    # Modules that are not compiled, because the environment says so, would be a warning each.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    }
    with (folder / _BUILD_LOG).open("w", encoding="utf-8") as log:
        subprocess.run(
            [sys.executable, "-W", "default", "-m", "build", "--no-isolation", "--outdir", folder],
            cwd=sources,
            env={**environment, "PYTHONWARNINGS": "default"},
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=300,
            check=True,
        )
    return folder


@pytest.fixture(scope="module")
def elsewhere(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a virtual environment ``venv``: the wheel and what the core requires.

    The packages are lent by this environment, so that no index is asked.
    """
    folder = tmp_path_factory.mktemp("elsewhere")
    (wheel,) = built.glob("hourhand-*.whl")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv/bin/python"
    run(
        *(sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"),
        *("install", "--no-deps", "--no-index", "--quiet", wheel),
        cwd=folder,
    )
    purelib = run(
        python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder
    )
    _lend(_core(), Path(purelib))
    return folder


def test_the_sdist_holds_what_the_wheel_is_built_from(built: Path) -> None:
    """And nothing of the repository's tests or tools."""
    (sdist,) = built.glob("hourhand-*.tar.gz")
    with tarfile.open(sdist) as archive:
        tops = {name.partition("/")[2].partition("/")[0] for name in archive.getnames()} - {""}

    assert tops == {*_BUILT_FROM, "PKG-INFO", "hourhand.egg-info"}


def test_the_build_has_no_warnings(built: Path) -> None:
    """What setuptools warns of today is an error of a later version."""
    log = (built / _BUILD_LOG).read_text(encoding="utf-8")

    assert "Successfully built" in log
    report(
        line
        for line in log.splitlines()
        if re.search("warning|deprecat|ignored", line, re.IGNORECASE)
    )


def test_the_metadata_is_complete(built: Path) -> None:
    """An index, a licence scanner and a reader of ``pip show`` find what they look for."""
    (wheel,) = built.glob("hourhand-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (path,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        found = Metadata.from_email(archive.read(path))

    assert found.license_expression == "Apache-2.0 AND MIT AND OFL-1.1"
    assert found.author
    assert found.summary
    assert found.keywords
    assert found.classifiers
    assert found.description_content_type == "text/markdown"
    assert found.license_files is not None
    assert "LICENSE" in found.license_files
    folder = path.removesuffix("METADATA") + "licenses/"
    report(name for name in found.license_files if folder + name not in names)


def test_each_licence_of_a_vendored_file_is_named() -> None:
    """A folder below ``vendor`` without its licence would be shipped without it."""
    vendored = [
        path for path in (ROOT / "scheduler/admin/dashboard/vendor").iterdir() if path.is_dir()
    ]

    assert vendored
    report(f"{path} has no LICENSE" for path in vendored if not (path / "LICENSE").is_file())


@pytest.mark.slow
def test_the_demo_loses_nothing_and_says_so(elsewhere: Path, tmp_path: Path) -> None:
    """Exit code 0, every line of the table, the next steps, nothing left behind."""
    done = subprocess.run(
        [elsewhere / "venv/bin/hourhand", "demo", "--tasks", "600"],
        cwd=elsewhere,
        env={"TMPDIR": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "node killed with SIGKILL" in done.stdout
    assert "node started again" in done.stdout
    for line in ("scheduled", "retried", "repeated", "lost", "early", "overlapping", "p99.9"):
        assert line in done.stdout
    assert "hourhand run" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            "list --set log=kafka",
            "needs confluent_kafka, which is not installed: install hourhand[kafka] [settings-inv",
        ),
        ("migrate --set store=cassandra", "store = 'cassandra' needs cassandra, which is not"),
        ("list --set log=kafka", "hourhand: the setting log = 'kafka' needs confluent_kafka"),
        ("migrate --set events.topic=life", "events.topic = 'life' needs confluent_kafka"),
        (
            "timers",
            "`hourhand timers` needs starlette, which is not installed: install hourhand[http]",
        ),
        ("admin", "`hourhand admin` needs "),
        ("pipeline report page", "`hourhand pipeline` needs "),
        (
            "run --executor scheduler.demo.records:DemoExecutor --set observe.traces=true",
            "the setting observe.traces needs opentelemetry",
        ),
    ],
    ids=lambda text: text.partition(" needs")[0] if " needs" not in text else "",
)
def test_what_is_not_installed_is_named_with_who_asked_for_it(
    elsewhere: Path, tmp_path: Path, arguments: str, said: str
) -> None:
    """An operator's error, in one line."""
    done = subprocess.run(
        [elsewhere / "venv/bin/hourhand", *arguments.split()],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_command_line_runs_from_another_folder(elsewhere: Path) -> None:
    """The script the wheel installs finds everything it needs."""
    version = run(elsewhere / "venv/bin/hourhand", "version", cwd=elsewhere)

    assert "0." in version


def test_all_packages_are_imported_from_the_wheel(elsewhere: Path) -> None:
    """None comes from the repository."""
    program = (
        "import actors.topic_supervisor, hourhand, scheduler;"
        " hourhand.Task; print(actors.__file__, hourhand.__file__, scheduler.__file__)"
    )

    for path in run(elsewhere / "venv/bin/python", "-c", program, cwd=elsewhere).split():
        assert path.startswith(str(elsewhere / "venv")), path


def test_every_table_of_the_schema_is_in_the_wheel(elsewhere: Path) -> None:
    """``hourhand migrate`` reads the CQL files from the installed package."""
    program = (
        "from importlib.resources import files;"
        " print(*sorted(f.name for f in (files('scheduler.schema') / 'cassandra').iterdir()))"
    )
    shipped = run(elsewhere / "venv/bin/python", "-c", program, cwd=elsewhere).split()

    assert shipped == sorted(path.name for path in (ROOT / "schema/cassandra").glob("*.cql"))
    assert shipped


def test_every_module_is_in_the_wheel(elsewhere: Path) -> None:
    """A folder missing from setup.cfg would be missing here."""
    program = "import actors; from pathlib import Path; print(Path(actors.__file__).parents[1])"
    installed = Path(run(elsewhere / "venv/bin/python", "-c", program, cwd=elsewhere))

    missing = [
        path.relative_to(ROOT).as_posix()
        for folder in ("actors", "hourhand", "scheduler")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".typed", ".html", ".css", ".js", ".svg", ".woff2"}
        and not (installed / path.relative_to(ROOT)).is_file()
    ]
    assert not missing
