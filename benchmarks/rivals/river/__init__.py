"""River: how its programs are built, and how they are told what to do.

They are ``main.go`` and ``sqlite.go``, which Go builds with the versions that ``go.mod`` pins.  The
worker has the settings of River's own benchmark, on PostgreSQL and on a file of SQLite.
"""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.loads import NOTE, TICK_S
from benchmarks.program import ROOT, Program
from benchmarks.rivals.rival import Rival, RivalMissing

NAME = "River"
VERSION = "0.51.2"
BUILT = ROOT / "build" / "bench" / f"river-{VERSION}"
_SOURCE = Path(__file__).parent
_BUILD_S = 600.0
_MIGRATED_S = 60.0


def build() -> None:
    """Build its programs below ``build``, unless they are newer; raises RivalMissing."""
    go = shutil.which("go", path=os.pathsep.join((os.environ["PATH"], "/usr/local/go/bin")))
    if go is None:
        raise RivalMissing("Go 1.26 is needed: install it")
    written = max(each.stat().st_mtime for each in _SOURCE.glob("*.go"))
    if BUILT.exists() and BUILT.stat().st_mtime > written:
        return
    BUILT.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            [go, "build", "-o", str(BUILT), "."],
            cwd=_SOURCE,
            capture_output=True,
            text=True,
            timeout=_BUILD_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RivalMissing(f"go build took longer than {_BUILD_S:.0f} s") from error
    if done.returncode:
        raise RivalMissing(f"go cannot build it:\n{done.stderr[-1500:]}")


def program(folder: Path, **spec: Any) -> Program:
    """Start one of its programs: ``worker`` or ``application``, by ``kind``."""
    told = {"note": NOTE, **spec}
    return Program("benchmarks.rivals.river", told, folder, command=(str(BUILT),))


def migrate(url: str, folder: Path) -> None:
    """Make its tables."""
    with program(folder, kind="migrate", url=url) as migration:
        migration.expect("done", _MIGRATED_S)


def _migrate_file(path: str) -> None:
    with RIVAL.program(BUILT.parent, kind="migrate", url=path) as migration:
        migration.expect("done", _MIGRATED_S)


class _OnFile(Rival):
    """River in a file of SQLite: what it is told names the file as its programs know it."""

    def program(self, folder: Path, **spec: Any) -> Program:
        """Start one of its programs."""
        spec["url"] = f"sqlite:{spec['url']}"
        return Rival.program(self, folder, note=NOTE, tick_s=TICK_S, **spec)


RIVAL = _OnFile(
    f"{NAME} on SQLite",
    "benchmarks.rivals.river",
    _migrate_file,
    "SELECT count(*) FROM river_job WHERE state = 'completed'",
    counts_done=True,
    command=(str(BUILT),),
    install=build,
    # A rollback journal, whose name a commit does not remove for good.
    survives="yes / no",
)
FULL_SYNC = replace(
    RIVAL,
    name=f"{RIVAL.name}, full sync",
    told=(("pragmas", "&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"),),
    survives="yes / yes",
)
