"""Graphile Worker: its installation, its workers and clients, and how its jobs are counted as done.

Workers and clients are ``graphile_worker.js``, which Node.js runs.  One worker process with the
settings of its maker's own performance test, and a poll for jobs that fall due every 100 ms: with
its default of two seconds they would run a second late.
"""

import shutil
import subprocess
from pathlib import Path

from benchmarks.loads import NOTE, TICK_S
from benchmarks.program import ROOT
from benchmarks.rivals.rival import Rival, RivalMissing

NAME = "Graphile Worker"
VERSION = "0.17.3"
"""The newest that Node.js 20 runs."""
FOLDER = ROOT / "build" / "bench" / "graphile-worker"
_READY_S = 60.0
_INSTALL_S = 300.0
# A finished job is deleted.
_LEFT = "SELECT count(*) FROM graphile_worker._private_jobs"


def install() -> None:
    """Install it below ``build`` unless it is there; raises RivalMissing."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise RivalMissing("Node.js and npm are needed: install them")
    if (FOLDER / f"installed-{VERSION}").exists():
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    how = ("--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(FOLDER))
    try:
        done = subprocess.run(
            [npm, "install", *how, f"graphile-worker@{VERSION}"],
            cwd=FOLDER,
            capture_output=True,
            text=True,
            timeout=_INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RivalMissing(f"npm took longer than {_INSTALL_S:.0f} s") from error
    if done.returncode:
        raise RivalMissing(f"npm cannot install it:\n{done.stderr[-1500:]}")
    (FOLDER / f"installed-{VERSION}").touch()


def _migrate(url: str) -> None:
    with RIVAL.program(FOLDER, kind="migrate", url=url) as migration:
        migration.expect("done", _READY_S)


RIVAL = Rival(
    NAME,
    "benchmarks.rivals.graphile_worker",
    _migrate,
    _LEFT,
    command=("node", str(Path(__file__).with_suffix(".js"))),
    told=(("modules", str(FOLDER / "node_modules")), ("note", NOTE), ("tick_s", TICK_S)),
)
