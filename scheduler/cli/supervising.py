"""Several node processes under one command: started, watched, started again, stopped together.

Decides what follows from the end of a child: a new one after a growing pause, or the end of all
where a first start shows that command or installation is wrong.  A stop, asked for or by the
death of this process, reaches a child as the end of its lifeline.  Never looks at tasks.
"""

import asyncio
import logging
import signal
import socket
import subprocess
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

from actors.ports.clock import Clock
from scheduler.cli.failing import EXIT_CALLER, EXIT_OPERATOR
from scheduler.observe.processes import ChildState
from scheduler.process.interrupts import EXIT_INTERRUPTED, signals_taken_by
from scheduler.process.lifeline import NO_PORT
from scheduler.process.restarting import RestartPauses

logger = logging.getLogger("hourhand.processes")

MakeCommand = Callable[[int, int], Sequence[str]]
"""From a child's number and the number of its descriptor to the command that starts it."""


class Supervisor:
    """Runs so many children until told to stop; used once."""

    def __init__(
        self,
        make_command: MakeCommand,
        count: int,
        *,
        clock: Clock,
        make_pauses: Callable[[], RestartPauses] = RestartPauses,
    ) -> None:
        self._clock = clock
        self._children = [_Child(number, make_command) for number in range(1, count + 1)]
        self._pauses = {child.number: make_pauses() for child in self._children}
        self._signals = 0
        self._failed: int | None = None
        """Exit code of a first start that shows that none can succeed."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()

    def children(self) -> list[ChildState]:
        """Return what is known of each child; from any thread."""
        return [child.state for child in self._children]

    def run(self, on_started: Callable[[], None] = lambda: None) -> int:
        """Run in the main thread until stopped; return the exit code.

        The first SIGINT or SIGTERM lets all children drain; a second one kills them.
        """
        with signals_taken_by(self._take_signal):
            asyncio.run(self._run(on_started))
        if self._failed is not None:
            return self._failed
        return EXIT_INTERRUPTED if self._signals > 1 else 0

    async def _run(self, on_started: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        if self._signals:
            self._stop()
        lives: list[Coroutine[Any, Any, None]] = [self._keep(child) for child in self._children]
        on_started()
        await asyncio.gather(*lives)

    async def _keep(self, child: "_Child") -> None:
        """Have the child live, again and again, until everything stops."""
        while not self._stopping.is_set():
            began_ms = self._clock.monotonic_ms()
            code = await child.live()
            if self._stopping.is_set():
                return
            if code in (EXIT_CALLER, EXIT_OPERATOR) and not any(c.lives for c in self._children):
                self._failed = code
                self._stop()
                return
            pause_ms = self._pauses[child.number].after(self._clock.monotonic_ms() - began_ms)
            how = _ended(code)
            logger.warning(
                "process %d %s; it is started again in %.1f s", child.number, how, pause_ms / 1000
            )
            child.wait(f"{how}; it is started again")
            try:
                await asyncio.wait_for(self._stopping.wait(), pause_ms / 1000)
            except TimeoutError:
                child.restarts += 1

    def _take_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._signals += 1
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop if self._signals == 1 else self._kill)
        logger.info("signal %d: %s", number, _SAID[self._signals > 1])

    def _stop(self) -> None:
        self._stopping.set()
        for child in self._children:
            child.stop()

    def _kill(self) -> None:
        for child in self._children:
            child.kill()


_SAID = {
    False: "all processes wait for running attempts; signal again to kill them",
    True: "all processes are killed; attempts that were cut off will run again",
}


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


class _Child:
    """One place of a child, and the process that has it now."""

    def __init__(self, number: int, make_command: MakeCommand) -> None:
        self.number = number
        self.restarts = 0
        self.lives = 0
        """How many of its processes came up."""
        self._make_command = make_command
        self._process: asyncio.subprocess.Process | None = None
        self._lifeline: socket.socket | None = None
        self._stopping = False
        self._up = False
        self._port: int | None = None
        self._detail = "is starting"

    @property
    def state(self) -> ChildState:
        """What is known of it now."""
        return ChildState(self.number, self._up, self._port, self.restarts, self._detail)

    async def live(self) -> int:
        """Start a process, and return its exit code once it has ended; below 0 a signal's."""
        self._up, self._port, self._detail = False, None, "is starting"
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                # A session of its own: a Ctrl-C is for this process, which passes it on once.
                self._process = await asyncio.create_subprocess_exec(
                    *self._make_command(self.number, theirs.fileno()),
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            ours.setblocking(False)  # noqa: FBT003 - its parameter has no name
            self._lifeline = ours
            if self._stopping:
                self.stop()
            hearing = asyncio.ensure_future(self._hear(ours))
            try:
                return await self._process.wait()
            finally:
                hearing.cancel()
                self._process = self._lifeline = self._port = None
                self._up = False

    async def _hear(self, lifeline: socket.socket) -> None:
        """Wait until the child says that it is up, and where it is asked."""
        said = b""
        while not said.endswith(b"\n"):
            more = await asyncio.get_running_loop().sock_recv(lifeline, 100)
            if not more:
                return
            said += more
        word = said.decode().strip()
        self._port = None if word == NO_PORT else int(word)
        assert self._process is not None, "it has just written"
        self._up, self._detail = True, f"pid {self._process.pid}"
        self.lives += 1

    def wait(self, detail: str) -> None:
        """Note why it is not there."""
        self._detail = detail

    def stop(self) -> None:
        """Have it drain and end; repeatable, and also before it has begun."""
        self._stopping = True
        if self._lifeline is not None:
            with suppress(OSError):
                self._lifeline.shutdown(socket.SHUT_WR)
        if self._process is not None and not self._up:
            # It does not watch its lifeline yet, and has begun nothing that may be cut in two.
            self._process.terminate()

    def kill(self) -> None:
        """End it at once; nothing it has made durable is lost."""
        if self._process is not None:
            self._process.kill()
