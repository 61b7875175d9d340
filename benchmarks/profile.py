"""Samples a node's process while a measure runs, and sums the samples up.

The sampler is py-spy, without native frames.  A sample is charged to the
function it was taken in, and to the innermost of our own files on its stack.
"""

import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

RATE = 100
_FRAME = re.compile(r"(?P<function>.+) \((?P<file>[^():]+)(:\d+)?\)$")
_STOP_TIMEOUT_S = 60.0


@dataclass
class Sampler:
    """Attaches to processes as they are about to be measured."""

    folder: Path
    holding_gil: bool = True
    """Only threads that hold the interpreter's lock: what limits a node.  Otherwise every thread
    counts that the sampler does not know to wait, idle workers among them."""
    _running: "list[tuple[subprocess.Popen[bytes], Path]]" = field(default_factory=list)

    def attach(self, pid: int) -> None:
        """Begin to sample a process, until it ends or ``finish`` is called."""
        program = shutil.which("py-spy", path=str(Path(sys.executable).parent))
        if program is None:
            raise FileNotFoundError("py-spy is not installed: make profile does that")
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"samples-{pid}.txt"
        command = [program, "record", "--pid", str(pid), "--rate", str(RATE)]
        # A sampler that stops the process at each sample would, on a busy machine, hold it
        # stopped for most of the time.
        command += ["--format", "raw", "--output", str(path), "--threads", "--nonblocking"]
        if self.holding_gil:
            command.append("--gil")
        child = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self._running.append((child, path))

    def finish(self) -> "Profile":
        """Stop sampling and return the sums."""
        stacks: Counter[str] = Counter()
        for child, path in self._running:
            if child.poll() is None:
                child.send_signal(signal.SIGINT)
            child.wait(_STOP_TIMEOUT_S)
            if path.exists():
                for line in path.read_text(errors="replace").splitlines():
                    stack, _, count = line.rpartition(" ")
                    stacks[stack] += int(count)
        return Profile.of(stacks)


@dataclass(frozen=True, slots=True)
class Profile:
    """Samples by function, by our file, and by thread."""

    total: int
    functions: Counter[str]
    files: Counter[str]
    threads: Counter[str]

    @classmethod
    def of(cls, stacks: Counter[str]) -> "Profile":
        """Sum up stacks, outermost frame first, as py-spy writes them."""
        functions: Counter[str] = Counter()
        files: Counter[str] = Counter()
        threads: Counter[str] = Counter()
        # A stack without a function is a thread that was caught between two: it tells nothing.
        stacks = Counter({stack: count for stack, count in stacks.items() if ";" in stack})
        for stack, count in stacks.items():
            frames = stack.split(";")
            # The process is a frame of its own where there are children, and so is the thread.
            thread = next((each for each in frames if each.startswith("thread")), frames[0])
            threads[re.sub(r"thread \([^)]*\): ?", "", thread)] += count
            functions[_named(frames[-1])] += count
            files[_our_file(frames)] += count
        return cls(sum(stacks.values()), functions, files, threads)

    def show(self, title: str, top: int = 25) -> str:
        """Return the sums as text."""
        console = Console(width=110, record=True, file=sys.stderr)
        for heading, counter in (
            ("innermost function", self.functions),
            ("innermost file of ours", self.files),
            ("thread", self.threads),
        ):
            shown = Table(title=f"{title}: {self.total:,} samples", title_justify="left")
            shown.add_column("share", justify="right")
            shown.add_column(heading)
            for name, count in counter.most_common(top):
                shown.add_row(f"{100 * count / max(1, self.total):.1f} %", name)
            console.print(shown)
        return console.export_text()


def _named(frame: str) -> str:
    found = _FRAME.match(frame)
    return f"{found['function']} ({_short(found['file'])})" if found else frame


def _our_file(frames: list[str]) -> str:
    for frame in reversed(frames):
        found = _FRAME.match(frame)
        if found and re.match(r"(actors|scheduler|benchmarks)/", _short(found["file"])):
            return _short(found["file"])
    return "none of ours"


def _short(path: str) -> str:
    for folder in ("site-packages/", "actors/", "scheduler/", "benchmarks/"):
        before, found, after = path.rpartition(folder)
        if found:
            return after if folder == "site-packages/" else f"{folder}{after}"
        del before
    return path
