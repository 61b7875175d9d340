"""Commands that are interrupted at any moment between their first line and their last."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

_HOOK = """
import os, signal, sys

class Moments:
    count = 0
    begun = False

def look(event, arguments):
    if not Moments.begun:
        Moments.begun = event == "import" and arguments[0] == "hourhand.scheduler.cli.cli"
        return
    Moments.count += 1
    if Moments.count == int(os.environ["INTERRUPT_AT"]):
        os.kill(os.getpid(), int(os.environ["INTERRUPT_BY"]))

sys.addaudithook(look)
if os.environ.get("INTERRUPT_COUNT"):
    import atexit
    # Registered first, so called last.
    atexit.register(lambda: open(os.environ["INTERRUPT_COUNT"], "w").write(str(Moments.count)))
"""
"""Counts what Python's audit hooks tell (imports, files, executed text) since the entry point
began to load the commands, and signals its own process at one of these moments."""

_WAIT_S = 120


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("version",), ("schedule", "--ordering-id", "a", "--in", "1h")]
)
def test_an_interrupt_at_any_moment_ends_a_command_with_130(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """Without a trace; one that comes after the command's end leaves it its own code."""
    (tmp_path / "sitecustomize.py").write_text(_HOOK)
    counted, chance = tmp_path / "count", random.Random(20)
    assert _run(tmp_path, arguments, 0, at=0, count_into=counted).returncode == 0
    moments = int(counted.read_text())

    for at in (1, *chance.sample(range(2, moments), 4), moments):
        number = chance.choice([signal.SIGINT, signal.SIGTERM])
        ended = _run(tmp_path, arguments, number, at=at)

        shown = f"{arguments} by {number} at {at} of {moments}: {ended.stdout}{ended.stderr}"
        assert ended.returncode in ((130, 0) if ended.stdout else (130,)), shown
        assert "Traceback" not in ended.stderr, shown


def test_an_interrupt_within_an_executed_text_ends_with_130(tmp_path: Path) -> None:
    """Python notes a KeyboardInterrupt that leaves one, and then ends by the signal."""
    (tmp_path / "interrupted.py").write_text(
        "import os, signal, typer\n"
        "from hourhand.scheduler.cli import cli, entry\n"
        "cli.app = typer.Typer()\n"
        "@cli.app.command()\n"
        "def interrupted() -> None:\n"
        "    exec('os.kill(os.getpid(), signal.SIGINT)')\n"
        "entry.main()\n"
    )

    ended = subprocess.run(
        [sys.executable, "interrupted.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": _ROOT},
        timeout=_WAIT_S,
        check=False,
    )

    assert ended.returncode == 130


def _run(
    folder: Path,
    arguments: tuple[str, ...],
    number: int,
    *,
    at: int,
    count_into: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hourhand", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": f"{folder}{os.pathsep}{_ROOT}",
            "INTERRUPT_AT": str(at),
            "INTERRUPT_BY": str(int(number)),
            "INTERRUPT_COUNT": "" if count_into is None else str(count_into),
        },
        capture_output=True,
        text=True,
        timeout=_WAIT_S,
        check=False,
    )


_ROOT = str(Path(__file__).parents[4])
