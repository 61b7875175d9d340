"""What users install: the wheel, used from another folder, without the repository or the extras.

Flat packages hide packaging mistakes, because the repository's root is on the path whenever
something runs inside it; a full environment hides imports that only an extra could satisfy.
"""

import os
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from tests.tidy.outside import run
from tests.tidy.source import ROOT, report
from tests.wheel import BUILD_LOG


def test_the_sdist_holds_what_the_wheel_is_built_from(built: Path) -> None:
    """And nothing of the repository's tests or tools."""
    (sdist,) = built.glob("hourhand-*.tar.gz")
    with tarfile.open(sdist) as archive:
        tops = {name.partition("/")[2].partition("/")[0] for name in archive.getnames()} - {""}

    built_from = {"hourhand", "pyproject.toml", "setup.cfg", "README.md", "LICENSE"}
    assert tops == {*built_from, "PKG-INFO", "hourhand.egg-info"}


def test_the_build_has_no_warnings(built: Path) -> None:
    """What setuptools warns of today is an error of a later version."""
    log = (built / BUILD_LOG).read_text(encoding="utf-8")

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
            "list --set log=kafka --set embedded.folder=.",
            "pip install 'confluent-kafka<3,>=2.13' (the extra 'kafka' of hourhand) [dependency-",
        ),
        ("migrate --set store=cassandra", "store = 'cassandra' needs cassandra, which is not"),
        (
            "list --set log=kafka --set embedded.folder=.",
            "hourhand: the setting log = 'kafka' needs confluent_kafka",
        ),
        ("migrate --set events.topic=life", "events.topic = 'life' needs confluent_kafka"),
        (
            "timers",
            "`hourhand timers` needs uvicorn, which is not installed: pip install 'aiohttp",
        ),
        ("admin --set embedded.folder=.", "`hourhand admin` needs "),
        ("pipeline report page", "`hourhand pipeline` needs "),
        (
            "sql SELECT",
            "`hourhand sql` needs duckdb, which is not installed: pip install 'duckdb<3,>=2'",
        ),
        (
            "run --executor hourhand.scheduler.demo.records:DemoExecutor --set observe.traces=true",
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
        "import hourhand, hourhand.actors.topic_supervisor, hourhand.scheduler.wiring;"
        " print(hourhand.__file__, hourhand.actors.__file__, hourhand.scheduler.__file__)"
    )

    for path in run(elsewhere / "venv/bin/python", "-c", program, cwd=elsewhere).split():
        assert path.startswith(str(elsewhere / "venv")), path


def test_every_table_of_the_schema_is_in_the_wheel(elsewhere: Path) -> None:
    """``hourhand migrate`` reads the CQL files from the installed package."""
    program = (
        "from importlib.resources import files;"
        " folder = files('hourhand.scheduler.schema') / 'cassandra';"
        " print(*sorted(each.name for each in folder.iterdir()))"
    )
    shipped = run(elsewhere / "venv/bin/python", "-c", program, cwd=elsewhere).split()

    assert shipped == sorted(path.name for path in (ROOT / "schema/cassandra").glob("*.cql"))
    assert shipped


def test_every_module_is_in_the_wheel(elsewhere: Path) -> None:
    """A folder missing from setup.cfg would be missing here."""
    program = "import hourhand; print(hourhand.__path__[0])"
    installed = Path(run(elsewhere / "venv/bin/python", "-c", program, cwd=elsewhere))
    folders = {"hourhand": ".", "actors": "actors", "scheduler": "scheduler"}

    missing = [
        path.relative_to(ROOT).as_posix()
        for folder, below in folders.items()
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".typed", ".html", ".css", ".js", ".svg", ".woff2"}
        and not (installed / below / path.relative_to(ROOT / folder)).is_file()
    ]
    assert not missing
