"""The guardian of a node's processes: it starts them, watches them, kills them and reaps them.

A fresh interpreter in which no user code ever runs, and without threads: so it can fork the
processes, which then need not load Hourhand again.  Decides by itself to kill only what runs while
the node's lease has ended, whether the node is frozen or not, and what holds too much memory.  It
ends with the node, and its processes end with it.
"""

import gc
import os
import select
import signal
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from hourhand.scheduler.node.processes.process_frames import (
    FRAME_BYTES_MAX,
    EndedProcess,
    FrameBroken,
    FrameKind,
    FrameReader,
    Signalled,
    StartedProcess,
    StartProcess,
    frame,
    read_record,
)
from hourhand.scheduler.node.processes.process_page import ProcessPage
from hourhand.scheduler.ports.user_places import ProcessPlan
from hourhand.scheduler.runtime.dying import die_with_parent
from hourhand.scheduler.runtime.resident import resident_bytes
from hourhand.scheduler.wiring import open_clock
from hourhand.scheduler.worker.process import become

LOOK_MS_MAX = 1_000.0
LOOK_MS_MIN = 1.0
ENDED_LOOK_MS = 20.0
"""While the lease has ended, a process may begin something at any moment."""
Become = Callable[[socket.socket, int, ProcessPage, int, ProcessPlan], None]
"""Turns a forked process into one of the node's."""


class _GuardedProcess:
    """One process that lives."""

    __slots__ = ("number", "pid", "place", "why")

    def __init__(self, number: int, pid: int, place: int) -> None:
        self.number, self.pid, self.place = number, pid, place
        self.why = ""


class Guardian:
    """Serves one node until that is gone."""

    def __init__(self, control: socket.socket, page: ProcessPage, become: Become) -> None:
        self._control, self._page, self._become = control, page, become
        self._clock = open_clock()
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self._descriptors: deque[int] = deque()
        self._processes: dict[int, _GuardedProcess] = {}
        """By pid: each is here until it is reaped, so that its pid is nobody else's."""
        self._plan: ProcessPlan | None = None
        self._measured_ms = 0.0
        self._woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        os.set_blocking(self._woken, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        self._wakes = wakes

    def serve(self) -> None:
        """Serve until the node closes its end, or is gone; then nothing is left."""
        while True:
            watched: list[socket.socket | int] = [self._control, self._woken]
            ready, _, _ = select.select(watched, [], [], self._pause_ms() / 1000)
            if self._woken in ready:
                with suppress(BlockingIOError):
                    os.read(self._woken, 4096)
            self._watch()
            self._reap()
            if self._control in ready and not self._take():
                break
        for each in self._processes.values():
            self._kill(each)
        while self._processes:
            self._reap(wait=True)

    def _pause_ms(self) -> float:
        left_ms = self._page.lease_ends_ms - self._clock.monotonic_ms()
        if left_ms <= 0:
            return ENDED_LOOK_MS if self._processes else LOOK_MS_MAX
        return min(LOOK_MS_MAX, max(LOOK_MS_MIN, left_ms))

    def _watch(self) -> None:
        """Kill what may not run, and what is too large."""
        now_ms = self._clock.monotonic_ms()
        if self._page.lease_ends_ms <= now_ms:
            for each in self._processes.values():
                # The lease is read again: it is renewed before anything is begun under it.
                if self._page.place(each.place).seq and self._page.lease_ends_ms <= now_ms:
                    self._kill(each, "lease")
        if now_ms - self._measured_ms >= LOOK_MS_MAX:
            self._measured_ms = now_ms
            most = None if self._plan is None else self._plan.memory_bytes_max
            for each in self._processes.values():
                memory_bytes = resident_bytes(each.pid)
                self._page.place(each.place).measure(memory_bytes)
                if most is not None and memory_bytes > most:
                    self._kill(each, "memory")

    def _kill(self, process: _GuardedProcess, why: str = "") -> None:
        process.why = process.why or why
        os.kill(process.pid, signal.SIGKILL)

    def _reap(self, *, wait: bool = False) -> None:
        """Tell of each process that has ended."""
        while self._processes:
            try:
                pid, status = os.waitpid(-1, 0 if wait else os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            process = self._processes.pop(pid, None)
            if process is None:
                continue
            killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
            memory_bytes = self._page.place(process.place).memory_bytes
            ended = EndedProcess(process.number, killed, code, process.why, memory_bytes)
            self._tell(FrameKind.ENDED_PROCESS, ended)

    def _tell(self, kind: FrameKind, record: object) -> None:
        # If the node is gone, the next read reports it.
        with suppress(OSError):
            self._control.sendall(frame(kind, record))

    def _take(self) -> bool:
        """Handle a request of the node; False if the node is gone."""
        try:
            piece, descriptors, _, _ = socket.recv_fds(self._control, 65_536, 64)
        except OSError:
            return False
        self._descriptors.extend(descriptors)
        for kind, text in self._reader.feed(piece):
            self._do(kind, text)
        return bool(piece)

    def _do(self, kind: int, text: bytes) -> None:
        match kind:
            case FrameKind.PLAN:
                self._plan = read_record(text, ProcessPlan)
            case FrameKind.START:
                self._start(read_record(text, StartProcess))
            case FrameKind.KILL:
                self._signal(read_record(text, Signalled).number, signal.SIGKILL)
            case FrameKind.ASK:
                self._signal(read_record(text, Signalled).number, signal.SIGTERM)
            case _:
                raise FrameBroken(f"a frame of kind {kind} is unknown")

    def _signal(self, number: int, signalled: signal.Signals) -> None:
        for each in self._processes.values():
            if each.number == number:
                os.kill(each.pid, signalled)

    def _start(self, start: StartProcess) -> None:
        pipe, tickets = self._descriptors.popleft(), self._descriptors.popleft()
        guardian = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._be_process(socket.socket(fileno=pipe), tickets, start.place, guardian)
        os.close(pipe)
        os.close(tickets)
        self._processes[pid] = _GuardedProcess(start.number, pid, start.place)
        self._tell(FrameKind.STARTED_PROCESS, StartedProcess(start.number, pid))

    def _be_process(self, pipe: socket.socket, tickets: int, place: int, guardian: int) -> None:
        """Be a process from here on; never returns."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            die_with_parent(guardian)
            self._control.close()
            os.close(self._woken)
            os.close(self._wakes)
            assert self._plan is not None, "the node sends it first"
            self._become(pipe, tickets, self._page, place, self._plan)
        finally:
            os._exit(1)


def main(arguments: list[str]) -> None:
    """Be the guardian of the node that started this program."""
    control, page, places, node = map(int, arguments)
    # A service manager may signal all processes of a unit, a terminal all of its foreground.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    die_with_parent(node)
    for descriptor in (control, page):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - its parameter has no name
    gc.collect()
    # Objects from before are shared with all processes; a collector that walked them would copy
    # them.
    gc.freeze()
    Guardian(socket.socket(fileno=control), ProcessPage(page, places), become).serve()
