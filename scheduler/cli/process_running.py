"""``hourhand run --processes``: several nodes under one command, each in its own process.

Decides the number of children, that each is a fresh interpreter with this command line, and the
reaction to a child's end: a new child after a growing pause, or the end of all if a first start
shows that the command or the installation is wrong. A child that does not end in time is killed.

Child and parent hold one end each of a socket. The child stops when its socket ends, because the
parent closed it or was killed. Once the child works, it writes the port of its metrics to the
socket. Tasks are never looked at here.
"""

import asyncio
import gc
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Annotated, Any

import typer

from hourhand.actors.model.execution.backoff import growing_pause_ms
from hourhand.actors.model.values.errors import InvalidInput, SettingsInvalid
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler import wiring
from hourhand.scheduler.cli.failing import EXIT_CALLER, EXIT_OPERATOR, say
from hourhand.scheduler.configuration.cgroup import allowed_cores
from hourhand.scheduler.configuration.memory_limit import budget_bytes
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.observe.processes import ChildState
from hourhand.scheduler.runtime.interrupts import EXIT_INTERRUPTED, signals_taken_by
from hourhand.scheduler.scheduler import Scheduler

logger = logging.getLogger("hourhand.processes")

PROCESSES_MAX = 256
AUTO = "auto"
PAUSE_MIN_MS = 500
PAUSE_MAX_MS = 30_000
STEADY_MS = 60_000
"""A child that lived for this time has recovered: its restart pauses begin again."""
CLOSING_MS = 15_000
"""Time for a child to stop after the deadline of its attempts; then it is killed."""
NO_PORT = "-"
"""Written instead of a port where none is served."""
MakeCommand = Callable[[int, int], Sequence[str]]
"""Returns the command for a child, from its number and the number of its descriptor."""

ProcessesOption = Annotated[
    str,
    typer.Option(
        metavar="N", help="Number of nodes, each a process; auto: one for each core. Needs servers."
    ),
]
ChildOption = Annotated[str | None, typer.Option(hidden=True)]


@dataclass(frozen=True)
class ChildPlace:
    """The number of this process among several, and the descriptor of its lifeline."""

    number: int
    descriptor: int

    @staticmethod
    def of(text: str) -> "ChildPlace":
        """Return the place in the form that a supervisor gives, ``number:descriptor``."""
        number, _, descriptor = text.partition(":")
        if not (number.isdecimal() and descriptor.isdecimal()):
            raise InvalidInput("--child is given by `hourhand run --processes`, and by nobody else")
        return ChildPlace(int(number), int(descriptor))

    def run(self, scheduler: Scheduler) -> None:
        """Run a node until its supervisor ends the lifeline, or dies.

        Every signal asks for the same graceful stop: a service manager may signal all processes,
        and only the supervisor knows which signal is the second one.
        """
        lifeline = Lifeline(self.descriptor)
        gc.freeze()
        with signals_taken_by(lambda _number, _frame: scheduler.stop()):
            scheduler.start()
            lifeline.tell_up(scheduler.observation.port)
            lifeline.watch(scheduler.stop)
            # In the main thread the scheduler would install its own signal handlers.
            waiting = threading.Thread(target=scheduler.wait, name="hourhand-waiting")
            waiting.start()
            waiting.join()


def process_count(text: str, settings: Settings) -> int:
    """Return the number of processes; InvalidInput for a bad text, SettingsInvalid for an embedded
    folder.
    """
    one_folder = "embedded" in (settings.log, settings.store)
    if text == AUTO:
        return 1 if one_folder else min(allowed_cores(), PROCESSES_MAX)
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= PROCESSES_MAX):
        raise InvalidInput(f"--processes {text!r}: expected 1 to {PROCESSES_MAX}, or auto")
    if int(text) > 1 and one_folder:
        folder = str(settings.embedded.folder)
        raise SettingsInvalid(
            f"--processes {text}: only one node can hold the folder {folder!r}"
            " (embedded.folder). Set log=kafka and store=cassandra, or leave --processes out"
        )
    return int(text)


def run_processes(settings: Settings, count: int) -> int:
    """Run ``count`` nodes until they are stopped; return the exit code."""
    cores = allowed_cores()

    def command(number: int, descriptor: int) -> list[str]:
        chosen = settings_of_child(settings, number, count, cores)
        # A fork would copy the locks and the libraries' threads of this process.
        return [sys.executable, *sys.orig_argv[1:], *chosen, "--child", f"{number}:{descriptor}"]

    stop_ms = settings.tree.recovery.drain_deadline_ms + CLOSING_MS
    supervisor = Supervisor(command, count, clock=wiring.open_clock(), stop_ms=stop_ms)
    served = wiring.serve_processes(settings, supervisor.children)
    try:
        if served is not None:
            say(f"metrics and health of all processes on port {served[0]}")
        say(f"{count} processes start; Ctrl-C waits for running attempts and stops them")
        code = supervisor.run()
    finally:
        if served is not None:
            served[1]()
    if not code:
        say("all processes have stopped")
    return code


def settings_of_child(settings: Settings, number: int, count: int, cores: int) -> list[str]:
    """Return options that give the child ``number`` of ``count``, from 1, its part of the memory
    and of the cores, and a port of its own.
    """
    chosen: list[str] = []
    if settings.tree.execution.processes is None:
        # The first ones have one more where the cores cannot be divided.
        share = max(1, (cores + count - number) // count)
        chosen += ["--set", f"tree.execution.processes={share}"]
    if settings.tree.window.memory_bytes_max is None:
        chosen += ["--set", f"tree.window.memory_bytes_max={budget_bytes(count)}"]
    if settings.observe.port is not None:
        # Only the supervisor asks a child for its metrics.
        chosen += ["--set", "observe.host=127.0.0.1", "--metrics-port", "0"]
    return chosen


class RestartPauses:
    """The restart pauses of one process: each is twice the last one, and half of it is random."""

    def __init__(
        self,
        rng: random.Random | None = None,
        *,
        pause_min_ms: int = PAUSE_MIN_MS,
        pause_max_ms: int = PAUSE_MAX_MS,
        steady_ms: int = STEADY_MS,
    ) -> None:
        self._rng = random.SystemRandom() if rng is None else rng
        self._bounds_ms = pause_min_ms, pause_max_ms
        self._steady_ms = steady_ms
        self._short_lives = 0

    def after(self, lived_ms: float) -> float:
        """Return the pause, in milliseconds, after a process that lived ``lived_ms``."""
        self._short_lives = 1 if lived_ms >= self._steady_ms else self._short_lives + 1
        return growing_pause_ms(self._short_lives, *self._bounds_ms, self._rng)


class Lifeline:
    """The child's end of the socket, from the number of an inherited descriptor."""

    def __init__(self, descriptor: int) -> None:
        # Programs that user code starts must not inherit it, or this process would seem alive.
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - its parameter has no name
        self._socket = socket.socket(fileno=descriptor)

    def tell_up(self, port: int | None) -> None:
        """Tell the parent that this process works, and the port of its metrics, if any."""
        try:
            self._socket.sendall(f"{NO_PORT if port is None else port}\n".encode())
        except OSError:
            # The parent is gone, which the watching thread notices as well.
            return

    def watch(self, on_end: Callable[[], None]) -> None:
        """Call a function on a thread once the parent closes the socket or dies."""
        threading.Thread(
            target=self._wait, args=(on_end,), name="hourhand-lifeline", daemon=True
        ).start()

    def _wait(self, on_end: Callable[[], None]) -> None:
        try:
            while self._socket.recv(1):
                pass
        except OSError:
            pass
        on_end()


class Supervisor:
    """Runs a number of child processes until told to stop; used once."""

    def __init__(
        self,
        make_command: MakeCommand,
        count: int,
        *,
        clock: Clock,
        stop_ms: int,
        make_pauses: Callable[[], RestartPauses] = RestartPauses,
    ) -> None:
        """``stop_ms`` is the time for a child to end once it was told to."""
        self._clock = clock
        self._stop_ms = stop_ms
        self._children = [ChildProcess(number, make_command) for number in range(1, count + 1)]
        self._pauses = {child.number: make_pauses() for child in self._children}
        self._signals = 0
        self._cut_off = False
        """True if a child was killed."""
        self._failed: int | None = None
        """Exit code of a first start that shows that no start can succeed."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()

    def children(self) -> list[ChildState]:
        """Return the state of each child; safe from any thread."""
        return [child.state for child in self._children]

    def run(self, on_started: Callable[[], None] = lambda: None) -> int:
        """Run in the main thread until stopped; return the exit code.

        The first SIGINT or SIGTERM lets all children drain. A second one kills them, and so does
        the end of their time to drain.
        """
        with signals_taken_by(self._take_signal):
            asyncio.run(self._run(on_started))
        if self._failed is not None:
            return self._failed
        return EXIT_INTERRUPTED if self._cut_off else 0

    async def _run(self, on_started: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        if self._signals:
            self._stop()
        lives: list[Coroutine[Any, Any, None]] = [self._keep(child) for child in self._children]
        on_started()
        await asyncio.gather(*lives)

    async def _keep(self, child: "ChildProcess") -> None:
        """Start the child again and again, until everything stops."""
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
            how = ended_words(code)
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
        assert self._loop is not None, "it is called on the loop"
        self._stopping.set()
        for child in self._children:
            child.stop()
        self._loop.call_later(self._stop_ms / 1000, self._kill_late)

    def _kill_late(self) -> None:
        """Kill children that have not ended: a process may be frozen, or wait for a disk that
        hangs.
        """
        late = ", ".join(str(child.number) for child in self._children if child.is_there)
        logger.warning("process %s did not end within %d ms: killed", late, self._stop_ms)
        self._kill()

    def _kill(self) -> None:
        self._cut_off = True
        for child in self._children:
            child.kill()


_SAID = {
    False: "all processes wait for running attempts; signal again to kill them",
    True: "all processes are killed; attempts that were cut off will run again",
}


def ended_words(code: int) -> str:
    """Return how a process ended, from its exit code or minus the number of its signal."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


class ChildProcess:
    """One of the numbered children, and its current process."""

    def __init__(self, number: int, make_command: MakeCommand) -> None:
        self.number = number
        self.restarts = 0
        self.lives = 0
        """Number of its processes that came up."""
        self._make_command = make_command
        self._process: asyncio.subprocess.Process | None = None
        self._lifeline: socket.socket | None = None
        self._stopping = False
        self._up = False
        self._port: int | None = None
        self._detail = "is starting"

    @property
    def state(self) -> ChildState:
        """The child's state now."""
        return ChildState(self.number, self._up, self._port, self.restarts, self._detail)

    @property
    def is_there(self) -> bool:
        """True if it has a process."""
        return self._process is not None

    async def live(self) -> int:
        """Start a process and return its exit code once it ended, or minus the number of its
        signal.
        """
        self._up, self._port, self._detail = False, None, "is starting"
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                # A session of its own: a Ctrl-C reaches only this process, which passes it on once.
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
        """Wait until the child says that it is up, and on which port it serves metrics."""
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
        """Record why the process is missing."""
        self._detail = detail

    def stop(self) -> None:
        """Make the process drain and end; repeatable, and safe before it has begun."""
        self._stopping = True
        if self._lifeline is not None:
            with suppress(OSError):
                self._lifeline.shutdown(socket.SHUT_WR)
        if self._process is not None and not self._up:
            # It does not watch its lifeline yet, and has begun no work that could be cut off.
            with suppress(ProcessLookupError):
                self._process.terminate()

    def kill(self) -> None:
        """Kill the process at once; everything that it made durable stays."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
