"""Starts, watches and stops one Java server process, and never any other.

A process is known by its pid and the time it started, both kept in a file of its folder, so
that a pid the system gave to somebody else meanwhile is never signalled.  A server may stay
behind when the starting process ends (``up``) and be stopped by another one (``down``).
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.servers.freezing import freeze, thaw

SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Java options of a server that lives for minutes beside others on a few cores: threads that
optimise and collect would take from it what they cannot give back in so short a life."""
CALM_TIMERS = (
    "/bin/sh",
    "-c",
    'echo "$0" 2> /dev/null > /proc/self/timerslack_ns; exec "$@"',
    "1000000",
)
"""Runs a command whose sleeps may last a millisecond longer, where the system is Linux.

Idle workers of Cassandra look for work, and sleep some microseconds in between: thousands of
wake-ups a second for each node, which takes a quarter of a core where all share two.
"""
_POLL_S = 0.1
_KILL_WAIT_S = 60.0
_TAIL_LINES = 25


class ServerFailed(RuntimeError):
    """A server did not come up or would not stop; the message holds the end of its log."""


class ServerProcess:
    """One server process of a folder.

    ``process.json`` in the folder holds pid and start time, ``process.out`` what the process
    printed.  ``logs`` are files of its own whose ends belong into an error message.
    """

    def __init__(self, name: str, folder: Path, *, logs: Sequence[Path] = ()) -> None:
        self.name = name
        self.folder = folder
        self._logs = (*logs, folder / "process.out")
        self._child: subprocess.Popen[bytes] | None = None
        self._pid_file = folder / "process.json"

    @property
    def pid(self) -> int | None:
        """The pid of the process while it is alive, else None."""
        try:
            noted = json.loads(self._pid_file.read_text())
        except (OSError, ValueError):
            return None
        pid = int(noted["pid"])
        if self._child is not None and self._child.pid == pid:
            # A child is gone when it was reaped, not when it turned into a zombie.
            return pid if self._child.poll() is None else None
        return pid if noted["started"] and _started(pid) == noted["started"] else None

    def start(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Run ``command`` in a session of its own; a no-op while the process is alive."""
        if self.pid is not None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "process.out").open("ab") as output:
            # A session of its own keeps the terminal's Ctrl-C away: a test run that is
            # interrupted stops its servers itself, in order.
            self._child = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._pid_file.write_text(
            json.dumps({"pid": self._child.pid, "started": _started(self._child.pid)})
        )

    def wait_until(self, answers: Callable[[], bool], timeout_s: float) -> None:
        """Return when ``answers()`` is true; raises ServerFailed when it ends or takes longer.

        A server that failed to come up is stopped before the error is raised.
        """
        deadline = time.monotonic() + timeout_s
        while not answers():
            if self.pid is None:
                raise ServerFailed(f"{self.name} ended while starting\n{self.log_tail()}")
            if time.monotonic() > deadline:
                tail = self.log_tail()
                self.kill()
                raise ServerFailed(f"{self.name} did not answer in {timeout_s:.0f} s\n{tail}")
            _pause()

    def stop(self, timeout_s: float = 30.0) -> None:
        """End the process, at first politely; a no-op where it is not alive."""
        self.resume()
        self.signal(signal.SIGTERM)
        if not self._gone_within(timeout_s):
            self.kill()
        self._pid_file.unlink(missing_ok=True)

    def kill(self) -> None:
        """End the process at once, as a power cut of the process would.

        When it returns, no thread of it runs and its ports refuse connections.
        """
        self.signal(signal.SIGKILL)
        if not self._gone_within(_KILL_WAIT_S):
            raise ServerFailed(f"{self.name} (pid {self.pid}) outlived SIGKILL")
        self._pid_file.unlink(missing_ok=True)

    def pause(self) -> None:
        """Freeze the process until ``resume``; when it returns, no thread of it runs."""
        if (pid := self.pid) is not None:
            freeze(pid)

    def resume(self) -> None:
        """Let a frozen process go on; when it returns, every thread of it may run."""
        if (pid := self.pid) is not None:
            thaw(pid)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to exactly this process; a no-op where it is not alive."""
        pid = self.pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def log_tail(self) -> str:
        """Return the last lines of the server's log files and of its output."""
        parts = []
        for path in self._logs:
            if path.is_file():
                lines = path.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
                parts.append("\n".join([f"--- {path}", *lines]))
        return "\n".join(parts)

    def _gone_within(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while self.pid is not None:
            if time.monotonic() > deadline:
                return False
            _pause()
        return True


def accepts_connections(host: str, port: int) -> bool:
    """True if something listens there."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1.0):
        return True
    return False


def _pause() -> None:
    threading.Event().wait(_POLL_S)


def _started(pid: int) -> str | None:
    """Return a text that tells this process from a later one of the same pid; None if gone."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        # A first thread that has ended is shown so while others of its process still run.
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
        return None if fields[0] in "ZX" and threads < 2 else fields[19]
    if Path("/proc/self/stat").exists():
        return None
    shown = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip() or None
