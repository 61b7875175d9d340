"""Graphile Worker: its installation, its workers and clients, and how its jobs are counted as done.

Workers and clients are ``graphile_worker.js``, which Node.js runs.  One worker process with the
settings of its maker's own performance test, and a poll for jobs that fall due every 100 ms: with
its default of two seconds they would run a second late.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.loads import NOTE, Load
from benchmarks.postgres import PostgresServer
from benchmarks.program import ROOT, Program

NAME = "Graphile Worker"
VERSION = "0.17.3"
"""The newest that Node.js 20 runs."""
FOLDER = ROOT / "build" / "bench" / "graphile-worker"
_READY_S = 60.0
_INSTALL_S = 300.0
_TEMPLATE = "graphile_worker_template"
# A finished job is deleted.
_LEFT = "SELECT count(*) FROM graphile_worker._private_jobs"


class GraphileWorkerMissing(RuntimeError):
    """It is not there and cannot be installed here; the message says what to do."""


def install() -> None:
    """Install it below ``build`` unless it is there; raises GraphileWorkerMissing."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise GraphileWorkerMissing("Node.js and npm are needed: install them")
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
        raise GraphileWorkerMissing(f"npm took longer than {_INSTALL_S:.0f} s") from error
    if done.returncode:
        raise GraphileWorkerMissing(f"npm cannot install it:\n{done.stderr[-1500:]}")
    (FOLDER / f"installed-{VERSION}").touch()


def database(server: PostgresServer, templates: set[str], name: str) -> str:
    """Make a database with Graphile Worker's tables and return its address."""
    if _TEMPLATE not in templates:
        url = server.create(_TEMPLATE)
        with _program({"kind": "migrate", "url": url}, FOLDER) as migration:
            migration.expect("done", _READY_S)
        templates.add(_TEMPLATE)
    return server.create(name, _TEMPLATE)


def due_ms(load: Load, number: int) -> int:
    """Return when the job of a task is due."""
    return load.due_ms(number)


def left(connection: Any, jobs: int) -> int:
    """Count the jobs that PostgreSQL does not hold as finished."""
    del jobs
    return int(connection.execute(_LEFT).fetchone()[0])


def worker(url: str, records: Path, slots: int, folder: Path) -> Program:
    """Start a process that works on the queue."""
    return _program({"kind": "worker", "url": url, "records": str(records), "slots": slots}, folder)


def client(url: str, load: dict[str, Any], folder: Path) -> Program:
    """Start a process that enqueues a load when told to."""
    return _program({"kind": "client", "url": url, "load": load, "note": NOTE}, folder)


def _program(spec: dict[str, Any], folder: Path) -> Program:
    script = Path(__file__).with_suffix(".js")
    told = {"modules": str(FOLDER / "node_modules"), **spec}
    return Program("graphile_worker", told, folder, command=("node", str(script)))
