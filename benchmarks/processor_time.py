"""Processor time of processes, each with those it starts, as Linux counts it.

On other systems it is unknown.  It never says what a process did with it.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_PROC = Path("/proc")
_PARENT, _USER, _CHILDREN_SYSTEM = 1, 11, 14
"""Positions among the fields of ``stat`` that follow the name of the process."""


@dataclass(frozen=True)
class Drain:
    """Rate and costs of a drain."""

    per_s: float
    """Tasks a second."""
    cpu_us: Mapping[str, float] = field(default_factory=dict)
    """Processor time a task in microseconds, by the name of the process; empty: not known."""


class Followed:
    """Processes whose processor time is counted, by names, while each of them is followed."""

    def __init__(self) -> None:
        self._taken_s: dict[str, float] = {}

    @contextlib.contextmanager
    def following(self, pids: Mapping[str, int]) -> Iterator[None]:
        """Count what these take inside the block; they outlive it."""
        began_s = {name: cpu_s(pid) for name, pid in pids.items()}
        yield
        for name, pid in pids.items():
            before_s, after_s = began_s[name], cpu_s(pid)
            if before_s is not None and after_s is not None:
                self._taken_s[name] = after_s - before_s

    def us_a_task(self, tasks: int) -> dict[str, float]:
        """Return what each took in microseconds a task."""
        return {name: seconds * 1e6 / tasks for name, seconds in self._taken_s.items()}


def cpu_s(pid: int) -> float | None:
    """Return the processor time of a process and of all that it started, ended or not.

    None where the system does not say.  A server that starts a process for each connection is
    counted with those that were there in between.
    """
    if not (_PROC / str(pid) / "stat").exists():
        return None
    found = dict(_processes())
    tree, ticks = {pid}, 0
    while tree:
        ticks += sum(found[each].ticks for each in tree if each in found)
        tree = {each for each, process in found.items() if process.parent in tree}
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    ticks: int
    """Its own and those of its children that have ended."""


def _processes() -> Iterator[tuple[int, _Process]]:
    for path in _PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # A process may end while all are read.
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            ticks = sum(map(int, fields[_USER : _CHILDREN_SYSTEM + 1]))
            yield int(path.parent.name), _Process(int(fields[_PARENT]), ticks)
