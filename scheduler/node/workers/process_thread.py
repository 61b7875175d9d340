"""The thread of a node that communicates with its processes and with their guardian.

Decides nothing: the pool handles all frames.  One thread serves all pipes.  It also starts the
guardian, because the system ends the guardian when the thread that started it ends.
"""

import logging
import os
import selectors
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from contextvars import Context
from functools import partial

from hourhand.actors.model.task.json_text import SEALED_TEXT_BYTES_MAX
from hourhand.actors.model.values.display import log_raised
from hourhand.actors.model.values.errors import InvalidExecutor, SettingsInvalid
from hourhand.actors.model.values.settings import ExecutionSettings, RecoverySettings
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.processes.process_frames import (
    ANSWER_BYTES_MAX,
    FRAMES_VERSION,
    TICKET_BYTES,
    Ended,
    EndedProcess,
    FrameBroken,
    FrameKind,
    FrameReader,
    Hello,
    Logged,
    RefusedProcess,
    SentText,
    Signalled,
    StartProcess,
    frame,
    read_record,
)
from hourhand.scheduler.node.processes.process_page import ProcessPage
from hourhand.scheduler.node.processes.process_place import job_of, job_of_batch
from hourhand.scheduler.node.processes.process_pool import ProcessPool
from hourhand.scheduler.node.stages import RunningBatch
from hourhand.scheduler.node.worker_watch import WorkerLoad
from hourhand.scheduler.node.workers.async_loop import PostedJobs
from hourhand.scheduler.ports.user_places import ProcessPlan

logger = logging.getLogger("hourhand.processes")

GUARDIAN = "hourhand.scheduler.worker.guardian"
"""The program that keeps the processes."""
_GUARDIAN_CODE = (
    "import sys; sys.path[:] = sys.argv[1].split(chr(10));"
    f" from {GUARDIAN} import main; main(sys.argv[2:])"
)
"""It imports the node's modules, whatever its folder; the environment of children is unchanged."""
START_DEADLINE_S = 120.0
"""Longest time for the first process to load user code; after it the node's start fails."""
CLOSE_DEADLINE_S = 10.0
_READ_BYTES = 1 << 18
_PAUSE_S = 1.0
"""Pause after a turn that failed in Hourhand's own code."""


class _ProcessPipe:
    """The node's end of one process."""

    __slots__ = ("reader", "socket", "taken", "tickets", "unsent")

    def __init__(self, connection: socket.socket, taken: int, tickets: int) -> None:
        self.socket = connection
        self.taken, self.tickets = taken, tickets
        """The ends of the pipe of tickets: the read end, which the process shares, and the write
        end."""
        self.reader = FrameReader(ANSWER_BYTES_MAX)
        self.unsent = bytearray()

    def close(self) -> None:
        self.socket.close()
        os.close(self.taken)
        os.close(self.tickets)


class ProcessThread:
    """The processes of one node; a ``ProcessSystem``."""

    def __init__(
        self,
        calls: Calls,
        execution: ExecutionSettings,
        recovery: RecoverySettings,
        *,
        places: int,
        plan: ProcessPlan,
        lease_ends_ms: Callable[[], float],
        log: Callable[[Logged, RunningAttempt | None], object],
    ) -> None:
        """``plan`` tells processes where user code is, ``log`` takes each line of their logs."""
        self._plan, self._log = plan, log
        self.page, self._page_descriptor = ProcessPage.made(places)
        self._posted = PostedJobs(self._wake, lambda call: call())
        self.pool = ProcessPool(
            calls,
            execution,
            self,
            lease_ends_ms=lease_ends_ms,
            drain_deadline_ms=recovery.drain_deadline_ms,
            post=self._posted.post,
            judge=_judge,
            places=places,
        )
        self.places = places
        """The number of processes."""
        self._selector = selectors.DefaultSelector()
        self._woken, self._wakes = socket.socketpair()
        for each in (self._woken, self._wakes):
            each.setblocking(False)  # noqa: FBT003 - its parameter has no name
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._pipes: dict[int, _ProcessPipe] = {}
        self._number = 0
        self._control: socket.socket | None = None
        self._guardian: subprocess.Popen[bytes] | None = None
        self._heard = FrameReader(ANSWER_BYTES_MAX)
        self._thread = threading.Thread(target=self._serve, name="hourhand-processes", daemon=True)
        self._is_up = threading.Event()
        self._is_over = self._is_closed = False

    # From any thread.

    def start(self) -> None:
        """Start the processes; InvalidExecutor if they cannot load user code.

        Raises SettingsInvalid if the system has no such processes.
        """
        if not hasattr(os, "fork"):
            raise SettingsInvalid(
                "run_in is 'process', which needs Linux or macOS: run tasks in threads,"
                " run_in='thread'"
            )
        self._thread.start()
        is_up = self._is_up.wait(START_DEADLINE_S)
        if self.pool.refusal is not None:
            raise InvalidExecutor(self.pool.refusal)
        if not is_up:
            raise InvalidExecutor(
                f"no process has loaded user code within {START_DEADLINE_S:.0f} s: see the log, and"
                " move what takes long at import into functions"
            )

    def run(self, attempts: Sequence[RunningAttempt]) -> None:
        """Run each attempt as soon as a process is free for it."""
        self._posted.post(partial(self.pool.enter, [job_of(each) for each in attempts]))

    def run_batch(self, batch: RunningBatch) -> None:
        """Run some attempts together."""
        self._posted.post(partial(self.pool.enter, [job_of_batch(batch)]))

    def drain(self, partitions: Collection[int] | None) -> None:
        """End attempts of partitions that go to another owner in time; with None, ask the gate once
        more about attempts that have not begun.
        """
        # In this call: after it no attempt begins that the gate let through before.
        with self.pool.sending:
            taken = [seq for number in self._pipes for seq in self.take_back(number)]
        if taken:
            self._posted.post(partial(self.pool.took_back, taken))
        if partitions is not None:
            self._posted.post(partial(self.pool.drain, tuple(partitions)))

    def load(self) -> WorkerLoad:
        """Return the numbers of submitted and of waiting attempts."""
        return self.pool.load()

    @property
    def guardian_pid(self) -> int | None:
        """The process id of the guardian; None if there is none."""
        return None if self._guardian is None else self._guardian.pid

    def nudge(self) -> None:
        """Repeat a wake-up that has failed."""
        self._posted.nudge()

    def close(self) -> None:
        """End all processes and the guardian, and this thread."""
        if self._thread.ident is not None:
            with suppress(OSError):
                self._posted.post(self._begin_close)
            self._thread.join(CLOSE_DEADLINE_S)
        if not (self._thread.is_alive() or self._is_closed):
            self._is_closed = True
            self._selector.close()
            self._woken.close()
            self._wakes.close()
            os.close(self._page_descriptor)

    def _wake(self) -> None:
        # A full pipe wakes the thread as well.
        with suppress(BlockingIOError):
            self._wakes.send(b"\x00")

    # The pool's system, on the pool's thread.

    def start_process(self, place: int) -> int:
        """Begin to start a process; return its number."""
        self._number += 1
        number = self._number
        ours, theirs = socket.socketpair()
        taken, tickets = os.pipe()
        for descriptor in (taken, tickets):
            os.set_blocking(descriptor, False)
        with self.pool.sending:
            self._pipes[number] = _ProcessPipe(ours, taken, tickets)
        ours.setblocking(False)  # noqa: FBT003 - as above
        self._selector.register(ours, selectors.EVENT_READ, number)
        sent = frame(FrameKind.START, StartProcess(number, place))
        self._tell_guardian(sent, (theirs.fileno(), taken))
        theirs.close()
        return number

    def send(self, number: int, seqs: Sequence[int], frames: bytes) -> None:
        """Send work and a ticket for each, without waiting."""
        pipe = self._pipes[number]
        # First: a process skips a frame for which it finds no ticket.
        os.write(pipe.tickets, b"".join(seq.to_bytes(TICKET_BYTES, "little") for seq in seqs))
        pipe.unsent += frames
        self._send_unsent(number, pipe)

    def take_back(self, number: int) -> Collection[int]:
        """Return the numbers of work that a process had not begun, and never will."""
        found: set[int] = set()
        pipe = self._pipes.get(number)
        if pipe is None:
            return found
        with suppress(BlockingIOError):
            while ticket := os.read(pipe.taken, TICKET_BYTES):
                found.add(int.from_bytes(ticket, "little"))
        return found

    def ask(self, number: int) -> None:
        """Signal a process to end its work."""
        self._tell_guardian(frame(FrameKind.ASK, Signalled(number)))

    def kill(self, number: int) -> None:
        """End a process."""
        self._tell_guardian(frame(FrameKind.KILL, Signalled(number)))

    def stop(self, number: int) -> None:
        """Ask an idle process to end."""
        pipe = self._pipes[number]
        pipe.unsent += frame(FrameKind.STOP, ())
        self._send_unsent(number, pipe)

    def _tell_guardian(self, sent: bytes, descriptors: Sequence[int] = ()) -> None:
        if self._control is None:
            return
        # A guardian that is gone is noticed elsewhere; a short frame never waits.
        with suppress(OSError):
            socket.send_fds(self._control, [sent], descriptors)

    def _send_unsent(self, number: int, pipe: _ProcessPipe) -> None:
        try:
            sent = pipe.socket.send(pipe.unsent)
            del pipe.unsent[:sent]
        except BlockingIOError:
            pass
        except OSError:
            # The guardian reports the end of the process.
            pipe.unsent.clear()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if pipe.unsent else 0)
        with suppress(KeyError):
            if self._selector.get_key(pipe.socket).events != wanted:
                self._selector.modify(pipe.socket, wanted, number)

    # The thread.

    def _serve(self) -> None:
        try:
            self._start_guardian()
        except BaseException:  # noqa: BLE001 - it is logged
            log_raised(logger, "the guardian of the processes could not be started")
            self.pool.refusal = "the guardian of the processes could not be started: see the log"
            self._is_up.set()
            return
        while not self._is_over:
            try:
                self._turn()
            except BaseException:  # noqa: BLE001 - it is logged, and all runs on
                log_raised(logger, "a turn of the processes' thread failed; please report this")
                self._selector.select(_PAUSE_S)

    def _start_guardian(self) -> None:
        """Start the guardian in a new interpreter: a fork would copy user code and no threads."""
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-c", _GUARDIAN_CODE, "\n".join(sys.path)]
        numbers = (theirs.fileno(), self._page_descriptor, self.places, os.getpid())
        self._guardian = subprocess.Popen(  # noqa: S603 - our own program
            [*command, *map(str, numbers)],
            stdin=subprocess.DEVNULL,
            pass_fds=numbers[:2],
        )
        theirs.close()
        self._control = ours
        self._selector.register(ours, selectors.EVENT_READ, 0)
        self._tell_guardian(frame(FrameKind.PLAN, self._plan))

    def _turn(self) -> None:
        pause_ms = self.pool.turn()
        for key, events in self._selector.select(min(pause_ms, 3_600_000) / 1000):
            if key.data is None:
                with suppress(BlockingIOError):
                    self._woken.recv(4096)
                self._posted.take_all()
            elif key.data == 0:
                self._hear_guardian()
            else:
                pipe = self._pipes.get(key.data)
                if pipe is not None and events & selectors.EVENT_WRITE:
                    self._send_unsent(key.data, pipe)
                if pipe is not None and events & selectors.EVENT_READ:
                    self._hear(key.data, pipe)

    def _hear(self, number: int, pipe: _ProcessPipe) -> None:
        """Read the frames of a process; at the end of its pipe, note that it is ending."""
        try:
            piece = pipe.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._selector.unregister(pipe.socket)
            self.pool.fell_silent(number)
            return
        try:
            for kind, text in pipe.reader.feed(piece):
                self._take(number, kind, text)
        except FrameBroken as error:
            self._selector.unregister(pipe.socket)
            self.pool.said_nonsense(number, str(error))

    def _take(self, number: int, kind: int, text: bytes) -> None:
        match kind:
            case FrameKind.ENDED:
                self.pool.said_ended(number, read_record(text, Ended))
            case FrameKind.LOGGED:
                line = read_record(text, Logged)
                self._log(line, self.pool.attempt_of(number, line.seq, line.place))
            case FrameKind.CHECKPOINT:
                self._take_checkpoint(number, read_record(text, SentText))
            case FrameKind.RESULT:
                self._take_result(number, read_record(text, SentText))
            case FrameKind.HELLO:
                version = read_record(text, Hello).version
                if version != FRAMES_VERSION:
                    raise FrameBroken(f"it speaks version {version}, not {FRAMES_VERSION}")
                self.pool.said_hello(number)
                self._is_up.set()
            case FrameKind.REFUSED:
                self.pool.said_refused(number, read_record(text, RefusedProcess).complaint)
                self._is_up.set()
            case _:
                raise FrameBroken(f"a frame of kind {kind} is unknown")

    def _take_checkpoint(self, number: int, sent: SentText) -> None:
        if len(sent.text) > SEALED_TEXT_BYTES_MAX:
            raise FrameBroken(f"a checkpoint of {len(sent.text)} bytes is too large")
        running = self.pool.attempt_of(number, sent.seq, sent.place)
        if running is not None:
            running.make(sent.text)

    def _take_result(self, number: int, sent: SentText) -> None:
        if len(sent.text) > SEALED_TEXT_BYTES_MAX:
            raise FrameBroken(f"a result of {len(sent.text)} bytes is too large")
        self.pool.said_result(number, sent)

    def _hear_guardian(self) -> None:
        assert self._control is not None, "it is registered"
        try:
            piece = self._control.recv(_READ_BYTES)
        except OSError:
            piece = b""
        if not piece:
            self._lose_guardian()
            return
        for kind, text in self._heard.feed(piece):
            if kind == FrameKind.ENDED_PROCESS:
                self._end(read_record(text, EndedProcess))

    def _end(self, ended: EndedProcess) -> None:
        """Read the last frames of a process that has ended, and close its pipe."""
        with self.pool.sending:
            pipe = self._pipes.pop(ended.number, None)
        if pipe is None:
            return
        with suppress(BlockingIOError, OSError, FrameBroken):
            while piece := pipe.socket.recv(_READ_BYTES):
                for kind, text in pipe.reader.feed(piece):
                    self._take(ended.number, kind, text)
        with suppress(KeyError, ValueError):
            self._selector.unregister(pipe.socket)
        pipe.close()
        self.pool.has_ended(ended)
        if self.pool.is_closing and not self._pipes:
            self._end_guardian()

    def _lose_guardian(self) -> None:
        """Start again after the guardian was killed: the system has killed its processes too."""
        assert self._control is not None, "it was heard of"
        self._selector.unregister(self._control)
        self._control.close()
        self._control = None
        self._heard = FrameReader(ANSWER_BYTES_MAX)
        if self._guardian is not None:
            self._guardian.wait()
        if self.pool.is_closing:
            self._is_over = True
            return
        logger.error("the guardian of the processes ended; it is started again")
        self._start_guardian()
        for number in tuple(self._pipes):
            self._end(EndedProcess(number, 9, 0, "guardian"))

    # The end.

    def _begin_close(self) -> None:
        self.pool.begin_close()
        if not self._pipes:
            self._end_guardian()

    def _end_guardian(self) -> None:
        """Close this end of the pipe, which ends the guardian."""
        if self._control is not None:
            self._selector.unregister(self._control)
            self._control.close()
            self._control = None
        if self._guardian is not None:
            self._guardian.wait()
        self._is_over = True


def _judge(call: Callable[[], None]) -> None:
    """Call a function on a thread of its own, because a policy may be slow."""
    target: Callable[[], None] = partial(Context().run, call)
    try:
        threading.Thread(target=target, name="hourhand-judging", daemon=True).start()
    except (RuntimeError, MemoryError):
        # The machine has no thread: call it here, as an attempt without an end would block its id.
        target()
