"""River: how its programs are built, and how they are told what to do.

They are ``main.go``, which Go builds with the versions that ``go.mod`` pins.  The worker has the
settings of River's own benchmark.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.loads import NOTE
from benchmarks.program import ROOT, Program

NAME = "River"
VERSION = "0.51.2"
BUILT = ROOT / "build" / "bench" / f"river-{VERSION}"
_SOURCE = Path(__file__).parent
_BUILD_S = 600.0
_MIGRATED_S = 60.0


class RiverMissing(RuntimeError):
    """It cannot be built here; the message says what to do."""


def build() -> None:
    """Build its programs below ``build``, unless they are newer; raises RiverMissing."""
    go = shutil.which("go", path=os.pathsep.join((os.environ["PATH"], "/usr/local/go/bin")))
    if go is None:
        raise RiverMissing("Go 1.26 is needed: install it")
    source = _SOURCE / "main.go"
    if BUILT.exists() and BUILT.stat().st_mtime > source.stat().st_mtime:
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
        raise RiverMissing(f"go build took longer than {_BUILD_S:.0f} s") from error
    if done.returncode:
        raise RiverMissing(f"go cannot build it:\n{done.stderr[-1500:]}")


def program(folder: Path, **spec: Any) -> Program:
    """Start one of its programs: ``worker`` or ``application``, by ``kind``."""
    told = {"note": NOTE, **spec}
    return Program("benchmarks.rivals.river", told, folder, command=(str(BUILT),))


def migrate(url: str, folder: Path) -> None:
    """Make its tables."""
    with program(folder, kind="migrate", url=url) as migration:
        migration.expect("done", _MIGRATED_S)
