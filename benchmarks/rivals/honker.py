"""honker: its installation, workers and clients as programs, and how its jobs are counted as done.

One worker that claims and acknowledges in batches, which its documents name for many jobs.  It sets
``synchronous=NORMAL`` on its connections, which syncs at checkpoints alone, and has no setting for
that: at full sync the programs tell its writing connection so by SQL.
"""

import asyncio
import contextlib
import importlib
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.loads import Load, data_of
from benchmarks.program import ROOT, tell, told, wait_for_command
from benchmarks.records import Records, wall_s
from benchmarks.rivals.rival import Rival, RivalMissing

NAME = "honker"
VERSION = "0.2.4"
"""The newest that the package index offers for Python 3.11."""
FOLDER = ROOT / "build" / "bench" / f"honker-{VERSION}"
BATCH = 1_000
_ENQUEUED = 5_000
_INSTALL_S = 600.0
_IDLE_S = 0.1
_QUEUE, _WORKER = "bench", "worker"
# A finished job is deleted.
_LEFT = "SELECT count(*) FROM _honker_live"


def _install() -> None:
    """Install it below ``build`` unless it is there: Rust builds it where there is no wheel."""
    if (FOLDER / "installed").exists():
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(FOLDER))
    try:
        done = subprocess.run(
            [*pip, f"honker=={VERSION}"],
            capture_output=True,
            text=True,
            timeout=_INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RivalMissing(f"pip took longer than {_INSTALL_S:.0f} s") from error
    if done.returncode:
        raise RivalMissing(f"pip cannot install it (Rust's cargo?):\n{done.stderr[-1500:]}")
    (FOLDER / "installed").touch()


def _opened(path: str, *, full_sync: bool) -> Any:
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    database = importlib.import_module("honker").open(path)
    if full_sync:
        with database.transaction() as transaction:
            # SQLite refuses the change within a transaction, and there is one writing connection.
            for statement in ("COMMIT", "PRAGMA synchronous=FULL", "BEGIN IMMEDIATE"):
                transaction.query(statement)
            (found,) = transaction.query("PRAGMA synchronous")
            assert found["synchronous"] == 2, "it syncs each commit"
    return database


def _migrate(path: str) -> None:
    database = _opened(path, full_sync=False)
    database.queue(_QUEUE)
    database.close()


RIVAL = Rival(
    NAME,
    "benchmarks.rivals.honker",
    _migrate,
    _LEFT,
    install=_install,
    told=(("sync", "default"),),
    survives="yes / no",
)
FULL_SYNC = replace(
    RIVAL, name=f"{NAME}, full sync", told=(("sync", "full"),), survives="yes / yes"
)


async def _work(spec: dict[str, Any]) -> None:
    records = Records(Path(spec["records"]), spec["slots"])
    database = _opened(spec["url"], full_sync=spec["sync"] == "full")
    queue, updates = database.queue(_QUEUE), database.update_events()
    stopping = asyncio.create_task(asyncio.to_thread(wait_for_command, "stop"))
    tell("ready")
    while not stopping.done():
        jobs = queue.claim_batch(_WORKER, BATCH)
        for job in jobs:
            records.note(job.payload["number"])
        if jobs:
            queue.ack_batch([job.id for job in jobs], _WORKER)
        else:
            # As its own iterator does, which claims one job at a time.
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(anext(updates), _IDLE_S)
    updates.close()


def _enqueue(spec: dict[str, Any]) -> None:
    load = Load(**spec["load"])
    database = _opened(spec["url"], full_sync=spec["sync"] == "full")
    queue = database.queue(_QUEUE)
    tell("ready")
    if not wait_for_command("go"):
        return
    began_s = wall_s()
    for some in load.chunks(_ENQUEUED):
        with database.transaction() as transaction:
            for number in some:
                queue.enqueue(data_of(number), tx=transaction)
    tell("done", began_s=began_s, ended_s=wall_s(), due_s=load.due_s)


def main() -> None:
    """Run what this process was told."""
    spec = told()
    if spec["kind"] == "worker":
        asyncio.run(_work(spec))
    else:
        _enqueue(spec)


if __name__ == "__main__":
    main()
