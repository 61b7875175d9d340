"""One process of a node: it loads user code once, and runs one attempt or batch at a time.

Decides about an attempt as a thread of the node would, by the same code. It begins work only with a
ticket that the node did not take back, and while the node's lease lasts.
"""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from hourhand.actors.model.execution.attempts import Attempt, AttemptEnded, CheckpointMade
from hourhand.actors.model.execution.interruption import look_too
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.operations.events import AttemptFailed, AttemptStarted, Event
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.model.values.display import message_of
from hourhand.actors.ports.runner import Executable
from hourhand.scheduler.executors.user_executors import UserExecutors
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.checkpoints import NodeCheckpoints
from hourhand.scheduler.node.processes.process_ends import sent_ends
from hourhand.scheduler.node.processes.process_frames import (
    FRAME_BYTES_MAX,
    FRAMES_VERSION,
    PIPE_LOST_CODE,
    TICKET_BYTES,
    FrameKind,
    FrameReader,
    Hello,
    RefusedProcess,
    SentText,
    Work,
    frame,
    read_record,
)
from hourhand.scheduler.node.processes.process_page import PagePlace, ProcessPage
from hourhand.scheduler.node.processes.process_work import attempts_of
from hourhand.scheduler.node.stages import RunningBatch
from hourhand.scheduler.node.workers.async_loop import LoopThread
from hourhand.scheduler.node.workers.batch_threads import BatchThreads
from hourhand.scheduler.node.workers.executor_calls import ExecutorCalls
from hourhand.scheduler.ports.batches import BatchMember
from hourhand.scheduler.ports.user_places import ProcessPlan
from hourhand.scheduler.runtime.dying import be_killed_first
from hourhand.scheduler.runtime.resident import resident_bytes
from hourhand.scheduler.runtime.user_code import runs_async
from hourhand.scheduler.wiring import open_clock, within_trace
from hourhand.scheduler.worker.piped_log import log_to
from hourhand.scheduler.worker.user_loading import loaded

_ASKED_LOOK_S = 0.05
"""Interval of checks whether an async attempt is asked to end."""
CHECKPOINT_SENT_EVERY_MS = 100
"""Between two checkpoints of an attempt on the pipe: the node has them durable each second."""


class NodePipe:
    """The process's end of what connects it with its node; written to from any thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._reader = FrameReader(FRAME_BYTES_MAX)

    def send(self, kind: FrameKind, record: object) -> None:
        """Tell the node; where there is none, or user code closed the pipe, end this process."""
        sent = frame(kind, record)
        try:
            with self._lock:
                self._connection.sendall(sent)
        except OSError:
            os._exit(PIPE_LOST_CODE)

    def receive(self) -> Sequence[tuple[int, bytes]]:
        """Wait for frames; nothing where there is no node any more."""
        while True:
            try:
                piece = self._connection.recv(1 << 16)
            except OSError:
                return ()
            if not piece:
                return ()
            frames = list(self._reader.feed(piece))
            if frames:
                return frames


class _Told:
    """The telemetry of a process: the node tells operators what came of an attempt."""

    def __init__(self, place: PagePlace, now_ms: Callable[[], int]) -> None:
        self._place, self._now_ms = place, now_ms
        self.begun: set[TaskKey] = set()
        self.failed: set[TaskKey] = set()

    def emit(self, event: Event) -> None:
        """Take note of the begin and the failure of what is at hand."""
        if isinstance(event, AttemptStarted):
            self._place.execute(self._now_ms())
            self.begun.add(event.key)
        elif isinstance(event, AttemptFailed):
            self.failed.add(event.key)


class AttemptProcess:
    """Runs what the node sends."""

    def __init__(
        self,
        pipe: NodePipe,
        tickets: int,
        page: ProcessPage,
        place: PagePlace,
        users: UserExecutors,
        memory: Callable[[], int],
    ) -> None:
        """``memory`` returns the bytes of this process; 0 if there is no limit."""
        self._memory = memory
        self._pipe, self._tickets, self._page, self._place = pipe, tickets, page, place
        self._users = users
        self._clock = open_clock()
        self._told = _Told(place, self._clock.now_ms)
        self._calls = Calls(
            clock=self._clock,
            gate=self._may_run,
            telemetry=self._told,
            require_codecs=users.require_codecs,
        )
        self._loop = LoopThread(1)
        self._checkpoints = NodeCheckpoints(
            self._clock, self._loop.call_later, CHECKPOINT_SENT_EVERY_MS
        )
        self._calls.registry.desk = self._checkpoints
        self._executors = ExecutorCalls(self._calls, self._loop, self._limit, self._limit)
        self._batches = BatchThreads(self._calls, self._loop, self._limit, lambda call: call())
        self._made: dict[str | None, TaskExecutor] = {}
        self._held_ticket = 0
        self.at_hand: tuple[int, Sequence[RunningAttempt]] = (0, ())
        """The work that runs, and its attempts."""
        self._ends: dict[int, AttemptEnded] = {}
        """By the identity of the attempt."""
        self._all_ended = threading.Event()

    @property
    def is_asked(self) -> bool:
        """True if the node asks the current work to end."""
        return self._place.asked_seq == self.at_hand[0] != 0

    def serve(self) -> None:
        """Run work until the node asks for a stop, or is gone."""
        while frames := self._pipe.receive():
            for kind, text in frames:
                if kind == FrameKind.STOP:
                    return
                if kind == FrameKind.WORK:
                    self._do(read_record(text, Work))

    def _do(self, work: Work) -> None:
        if not self._has_ticket(work.seq):
            return
        self._place.begin(work.seq, self._clock.monotonic_ms())
        attempts = attempts_of(work)
        executors = [
            self._executor_of(attempt.task.kind, sent.trace)
            for attempt, sent in zip(attempts, work.attempts, strict=True)
        ]
        self._ends.clear()
        self._all_ended.clear()
        added = self._calls.registry.add(
            list(zip(attempts, executors, strict=True)), self._take_end
        )
        self.at_hand = work.seq, added
        for each in {attempt.partition for attempt in attempts}:
            self._checkpoints.tell(each, self._send_checkpoint, ())
        if work.is_batch:
            self._run_batch(added)
        elif runs_async(added[0].executor):
            self._run_async(added[0])
        else:
            self._executors.run(added[0])
        self._tell_ends(work.seq, attempts)

    def _executor_of(self, kind: str | None, trace: bytes | None) -> Executable:
        made = self._made.get(kind)
        if made is None:
            made = self._made[kind] = self._users.make(kind)
        return made if trace is None else within_trace(made, trace)

    def _has_ticket(self, seq: int) -> bool:
        """True if the node has not taken this work back."""
        while self._held_ticket < seq:
            try:
                self._held_ticket = int.from_bytes(os.read(self._tickets, TICKET_BYTES), "little")
            except BlockingIOError:
                return False
            if not self._held_ticket:
                # User code closed the node's end, or ours: nothing says that it may run.
                os._exit(1)
        return self._held_ticket == seq

    def _may_run(self, attempt: Attempt) -> bool:
        """The gate: the node has asked its own before."""
        now_ms, expires_ms = self._clock.now_ms(), attempt.expires_ms
        is_due = now_ms >= attempt.task.key.scheduled_ms
        if expires_ms is not None and now_ms >= expires_ms:
            return False
        return is_due and self._clock.monotonic_ms() < self._page.lease_ends_ms

    def _limit(self, running: RunningAttempt, timeout_ms: int | None) -> None:
        """Tell the node by when an attempt, which begins now, has to end."""
        if timeout_ms is not None and running.started_monotonic_ms is not None:
            self._place.limit(running.started_monotonic_ms + timeout_ms)

    def _run_batch(self, added: Sequence[RunningAttempt]) -> None:
        executor = added[0].executor
        assert isinstance(executor, BatchMember), "the node makes batches of these alone"
        batch = RunningBatch(executor.batches, added, lambda: None)
        if executor.batches.runs_async:
            self._batches.run(batch)
            self._await_end(added)
        else:
            self._batches.run_here(batch)

    def _run_async(self, running: RunningAttempt) -> None:
        async def run() -> None:
            await self._executors.run_async(running)

        self._loop.submit(run, lambda: self._calls.refuse(running))
        self._await_end((running,))

    def _await_end(self, added: Sequence[RunningAttempt]) -> None:
        """Wait for the loop, and cancel what the node asks to end."""
        seq, is_asked = self._place.seq, False
        while not self._all_ended.wait(_ASKED_LOOK_S):
            if not is_asked and self._place.asked_seq == seq:
                is_asked = True
                for each in added:
                    if each.cancel is not None:
                        each.cancel()

    def _send_checkpoint(self, made: CheckpointMade) -> None:
        """Tell the node, which has it durable."""
        self._send_text(made.attempt, made.checkpoint)
        made.answer(None)

    def _send_text(self, attempt: Attempt, checkpoint: TaskCheckpoint) -> None:
        seq, added = self.at_hand
        for place, running in enumerate(added):
            if running.attempt is attempt:
                sent = SentText(seq, place, checkpoint.body)
                self._pipe.send(FrameKind.CHECKPOINT, sent)

    def _take_end(self, ended: AttemptEnded) -> None:
        self._ends[id(ended.attempt)] = ended
        if len(self._ends) == len(self.at_hand[1]):
            self._all_ended.set()

    def _tell_ends(self, seq: int, attempts: Sequence[Attempt]) -> None:
        ends, told = [self._ends[id(each)] for each in attempts], self._told
        frames = sent_ends(
            seq, ends, begun=told.begun, told=told.failed, memory_bytes=self._memory()
        )
        for ended in ends:
            if ended.checkpoint is not None:
                self._send_text(ended.attempt, ended.checkpoint)
        self._calls.registry.settle(attempts)
        self.at_hand = 0, ()
        told.begun.clear()
        told.failed.clear()
        for kind, record in frames:
            self._pipe.send(kind, record)
        # Behind that: what has ended and was not told is taken for what killed the process.
        self._place.end()


def _memory_of(plan: ProcessPlan) -> Callable[[], int]:
    """Return what measures this process, where there is a bound for it."""
    return (lambda: 0) if plan.memory_bytes_max is None else partial(resident_bytes, os.getpid())


def become(
    connection: socket.socket, tickets: int, page: ProcessPage, number: int, plan: ProcessPlan
) -> None:
    """Be a process from here on; returns when it is to end."""
    # User code that wants SIGTERM sets a handler of its own.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    be_killed_first()
    os.nice(plan.niceness)
    pipe, place = NodePipe(connection), page.place(number)
    for stream in (sys.stdout, sys.stderr):
        # Otherwise the last output of a killed process would be lost.
        with suppress(Exception):
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    lines = log_to(pipe.send, plan)
    try:
        users = loaded(plan)
        process = AttemptProcess(pipe, tickets, page, place, users, _memory_of(plan))
        lines.look_at(lambda: process.at_hand)
        look_too(lambda: process.is_asked)
        users.middleware.start()
    except BaseException as error:  # noqa: BLE001 - user code may raise anything
        pipe.send(
            FrameKind.REFUSED, RefusedProcess(f"{type(error).__name__}: {message_of(error, 2_000)}")
        )
        return
    pipe.send(FrameKind.HELLO, Hello(FRAMES_VERSION))
    try:
        process.serve()
    finally:
        users.middleware.stop()
        for stream in (sys.stdout, sys.stderr):
            with suppress(BaseException):
                stream.flush()
        os._exit(0)
