"""Runs one of the benchmark's programs as a process of its own and talks to it in lines.

The program is told what to do in one JSON argument; it prints one JSON object an event and
reads one command a line.  Its error stream is kept, and shown when it fails.
"""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[1]
_TAIL_BYTES = 3_000
_STOP_TIMEOUT_S = 60.0


class ProgramFailed(RuntimeError):
    """A program ended or fell silent; the message holds the end of its error output."""


class Program:
    """A running program; a context manager that ends it, whatever happens.

    ``command`` starts it where it is not the Python module of that name; ``environment`` is added
    to this process's.
    """

    def __init__(
        self,
        module: str,
        spec: Mapping[str, Any],
        folder: Path,
        *,
        command: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = module.rpartition(".")[2]
        folder.mkdir(parents=True, exist_ok=True)
        self._errors = folder / f"{self.name}-{time.monotonic_ns()}.err"
        with self._errors.open("wb") as errors:
            self._child = subprocess.Popen(
                [*(command or (sys.executable, "-m", module)), json.dumps(spec)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # Ctrl-C ends the benchmark, which then ends its programs in order.
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
            )
        self._events: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process."""
        return self._child.pid

    def expect(self, event: str, timeout_s: float = 60.0) -> dict[str, Any]:
        """Wait for an event of this name; raises ProgramFailed."""
        ends_s = time.monotonic() + timeout_s
        while True:
            try:
                found = self._events.get(timeout=max(0.0, ends_s - time.monotonic()))
            except queue.Empty:
                raise ProgramFailed(
                    f"{self.name} said no {event!r} in {timeout_s:.0f} s\n{self._tail()}"
                ) from None
            if found is None:
                raise ProgramFailed(f"{self.name} ended before {event!r}\n{self._tail()}")
            if found["event"] == event:
                return found

    def say(self, command: str) -> None:
        """Send a command; raises ProgramFailed where the program is gone."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(f"{command}\n".encode())
            self._child.stdin.flush()
        except BrokenPipeError:
            raise ProgramFailed(f"{self.name} is gone\n{self._tail()}") from None

    def stop(self) -> None:
        """Ask the program to end, and wait for it."""
        if self._child.poll() is None:
            with contextlib.suppress(ProgramFailed):
                self.say("stop")
            try:
                self._child.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()
        self._let_go()

    def kill(self) -> None:
        """End the program at once, as a crash would."""
        self._child.kill()
        self._child.wait(_STOP_TIMEOUT_S)
        self._let_go()

    def _let_go(self) -> None:
        # The reader ends with the program's output; both pipes are then nobody's.
        self._reader.join(_STOP_TIMEOUT_S)
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            with contextlib.suppress(ValueError):
                self._events.put(json.loads(line))
        self._events.put(None)

    def _tail(self) -> str:
        return self._errors.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")


def told() -> dict[str, Any]:
    """Return what this process was told to do."""
    spec: dict[str, Any] = json.loads(sys.argv[1])
    return spec


def keep_to_one_core() -> None:
    """Have this process run on one core only, as ``taskset -c`` does; on Linux.

    Called before there are threads, which then do as this one does.
    """
    if sys.platform == "linux":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def tell(event: str, **values: Any) -> None:
    """Say something to the benchmark."""
    sys.stdout.write(json.dumps({"event": event, **values}) + "\n")
    sys.stdout.flush()


def wait_for_command(command: str) -> bool:
    """Wait until told ``command``; False where the benchmark is gone or says another thing."""
    return sys.stdin.readline().strip() == command
