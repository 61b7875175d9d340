"""The machine of the figures, and the conditions under which they mean anything."""

import importlib
import os
import platform
import shutil
import subprocess
from pathlib import Path

from benchmarks.interpreter import runs_optimized
from benchmarks.program import ROOT

_KIB = 1024


class NotComparable(RuntimeError):
    """Figures taken here would say nothing; the message says what to change."""


def require_compiled_drivers() -> None:
    """Raise NotComparable where Cassandra's driver runs as plain Python."""
    parts = importlib.import_module("cassandra.cython_deps")
    protocol = importlib.import_module("cassandra.protocol")
    if not parts.HAVE_CYTHON or str(protocol.__file__).endswith(".py"):
        raise NotComparable(
            "cassandra-driver is not compiled here (cassandra.cython_deps.HAVE_CYTHON is"
            f" {parts.HAVE_CYTHON}): install a wheel of it for a Python it is built for"
        )


def machine() -> str:
    """Return processor, cores and memory in one line."""
    model = platform.processor() or platform.machine()
    cpus = Path("/proc/cpuinfo")
    if cpus.exists():
        names = [line for line in cpus.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    python = platform.python_version() + ("" if runs_optimized() else " without optimizations")
    return f"{model}, {os.cpu_count()} cores, {memory_gib:.0f} GiB, Python {python}"


def commit() -> str:
    """Return the commit, with a plus sign where the tree differs from it."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            [shutil.which("git") or "git", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip()

    name = git("rev-parse", "--short", "HEAD") or "unknown"
    return name + ("+" if git("status", "--porcelain", "actors", "hourhand", "scheduler") else "")


def load_average() -> float:
    """Return how many processes wanted to run, over the last minute."""
    return os.getloadavg()[0]


def resident_bytes(pid: int, *, peak: bool = False) -> int:
    """Return the memory of a process that is in use now, or was at most."""
    wanted = "VmHWM:" if peak else "VmRSS:"
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(wanted):
            return int(line.split()[1]) * _KIB
    raise NotComparable(f"the kernel does not say how much memory process {pid} has")
