"""The systemd unit: a command that exists, a syntax that systemd takes, and little exposed.

A unit is not run here: systemd has to be process 1 for that, and what it does to a machine then
is not a test's to do.
"""

import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from hourhand import Settings
from hourhand.scheduler.cli.cli import app
from tests.documents.test_console_examples import parse
from tests.tidy.source import ROOT, report

UNIT = ROOT / "deploy/systemd/hourhand.service"
EXPOSURE_MAX = 20
"""Of 100, by ``systemd-analyze security``."""
_COMMAND = "/srv/shop/venv/bin/hourhand"
_DRAIN_S = Settings().tree.recovery.drain_deadline_ms / 1000


def analyze() -> str:
    """Return where systemd's own judge is; the test is skipped where it is not."""
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.skip("systemd is not installed here")
    return found


def service() -> configparser.SectionProxy:
    """Return the unit's section about the service; the last of a name counts."""
    unit = configparser.ConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(UNIT.read_text(encoding="utf-8"))
    return unit["Service"]


def test_the_unit_starts_a_command_that_exists() -> None:
    """With time to drain before it is killed; one signal, to the process that passes it on."""
    command, *words = service()["ExecStart"].split()

    parse(typer.main.get_command(app), "hourhand", words)
    assert command == _COMMAND
    assert int(service()["TimeoutStopSec"]) > 2 * _DRAIN_S
    assert service()["KillMode"] == "mixed"


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """As ``systemd-analyze verify`` sees it, with the paths and the user of this machine."""
    text = UNIT.read_text(encoding="utf-8")
    for theirs, ours in (
        (_COMMAND, str(Path(sys.executable).with_name("hourhand"))),
        ("/srv/shop", str(tmp_path)),
        ("User=hourhand", f"User={os.getuid()}"),
    ):
        assert theirs in text
        text = text.replace(theirs, ours)
    unit = tmp_path / "hourhand.service"
    unit.write_text(text, encoding="utf-8")

    done = subprocess.run(
        [analyze(), "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    report(line for line in done.stderr.splitlines() if unit.name in line)


def exposed(unit: Path) -> bool:
    """True if systemd finds that a unit exposes more than ours may."""
    done = subprocess.run(
        [
            analyze(),
            "security",
            "--offline=yes",
            "--no-pager",
            f"--threshold={EXPOSURE_MAX}",
            str(unit),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Overall exposure level" in done.stdout, done.stderr
    return done.returncode != 0


def test_the_unit_exposes_little(tmp_path: Path) -> None:
    """One without its restrictions would be found out."""
    lines = UNIT.read_text(encoding="utf-8").splitlines(keepends=True)
    bare = tmp_path / UNIT.name
    bare.write_text("".join(line for line in lines if not line.startswith(("Protect", "Capab"))))

    assert not exposed(UNIT)
    assert exposed(bare)
