"""Debian's Prometheus, unpacked into the cache without root: for its ``promtool``.

It decides where the programs come from: the machine's own, else the package that apt fetches.
Nothing is installed.
"""

import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.servers.maven import cache_folder

_PACKAGE = "prometheus"
_TIMEOUT_S = 300


class PrometheusMissing(RuntimeError):
    """Prometheus is not there and cannot be fetched here; the message says what to do."""


@cache
def prometheus_program(name: str) -> Path:
    """Return the path of ``promtool`` or ``prometheus``; raises PrometheusMissing."""
    own = shutil.which(name)
    if own is not None:
        return Path(own)
    folder = cache_folder() / _PACKAGE
    program = folder / "usr" / "bin" / name
    if not program.exists():
        _fetch(folder)
    if not program.exists():
        raise PrometheusMissing(
            f"{name} is not installed and could not be fetched: install it (Debian: apt-get"
            f" install {_PACKAGE})"
        )
    return program


def _fetch(folder: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    fetched = subprocess.run(
        ["apt-get", "-qq", "download", _PACKAGE],
        cwd=folder,
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    packages = sorted(folder.glob(f"{_PACKAGE}_*.deb"))
    if fetched.returncode or not packages:
        return
    subprocess.run(
        ["dpkg-deb", "-x", packages[-1].name, "."],
        cwd=folder,
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    packages[-1].unlink(missing_ok=True)
