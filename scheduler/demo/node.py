"""A node in its own process: ``hourhand run`` or another command, started, killed, started again.

Never signals a process that it did not start.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_READY_LINE = "the node runs"
_STOP_TIMEOUT_S = 60.0
_TAIL_LINES = 15


class NodeFailed(RuntimeError):
    """A node ended or printed nothing where it should run; the message holds its last lines."""


def node_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with no other settings than ``settings``.

    The child finds the packages where this process found them, in any folder.
    """
    kept = {name: text for name, text in os.environ.items() if not name.startswith("HOURHAND_")}
    paths = [str(Path(__file__).absolute().parents[3]), kept.get("PYTHONPATH", "")]
    return {**kept, **settings, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


class NodeProcess:
    """One child process; its output goes to ``log``."""

    def __init__(
        self,
        executor: str | None,
        environment: Mapping[str, str],
        log: Path,
        *,
        command: Sequence[str] = ("run",),
        ready_line: str = _READY_LINE,
    ) -> None:
        """``command`` is one of `hourhand` that runs a node, ``ready_line`` its line when it is
        ready.
        """
        self._log = log
        self._asked = False
        self._ready_line = ready_line
        chosen = () if executor is None else ("--executor", executor)
        with log.open("wb") as output:
            # A session of its own shields it from the terminal's Ctrl-C: its starter stops it in
            # order.
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "hourhand", *command, *chosen],
                # A settings file of the user's own must not be found.
                cwd=log.parent,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """True if it has not ended."""
        return self._process.poll() is None

    @property
    def output(self) -> str:
        """Its output so far."""
        return self._log.read_text(errors="replace")

    @property
    def says_ready(self) -> bool:
        """True if it has printed that it runs."""
        return self._ready_line in self.output

    def ended_within(self, timeout_s: float) -> bool:
        """Wait for the end, at most ``timeout_s``; return True if it came."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """Kill it, as a power cut would; returns when it is gone."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def ask_to_stop(self) -> None:
        """Send SIGTERM, once: running attempts may finish."""
        if not self._asked:
            self._asked = True
            self._process.terminate()

    def stop(self) -> int:
        """Ask it to stop, unless that was done, and kill it if it takes too long.

        Returns its exit code.
        """
        self.ask_to_stop()
        if not self.ended_within(_STOP_TIMEOUT_S):
            self.kill()
        return int(self._process.returncode)

    def tail(self) -> str:
        """Return the last lines of its output."""
        return "\n".join(self.output.splitlines()[-_TAIL_LINES:])
