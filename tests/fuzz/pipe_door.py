"""The door of processes: what user code may write into the pipe between a process and its node.

Decides what a process says; real pipes, frames and pool of a node, with processes and a guardian
that are scripted.  A good attempt runs beside each hostile one.
"""

import logging
import math
import os
import random
import socket
import threading
from contextlib import suppress
from queue import SimpleQueue

import msgspec

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.execution.attempts import AttemptEnded, Ending
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.values.settings import ExecutionSettings, RecoverySettings
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.processes.process_frames import (
    ANSWER_BYTES_MAX,
    FRAME_BYTES_MAX,
    FRAMES_VERSION,
    TICKET_BYTES,
    Ended,
    EndedProcess,
    FrameKind,
    FrameReader,
    Hello,
    SentEnd,
    SentText,
    Signalled,
    StartProcess,
    Work,
    frame,
    read_record,
)
from hourhand.scheduler.node.processes.process_log import log_line
from hourhand.scheduler.node.workers.process_thread import ProcessThread
from hourhand.scheduler.ports.processes import ProcessMember
from hourhand.scheduler.ports.user_places import ProcessPlan, UserPlaces
from hourhand.scheduler.testing import RecordingTelemetry
from tests.builders import a_stored_task, an_attempt

_MEMBER = ProcessMember(RetryPolicy(attempts_max=2), None)
_TURNS = 8
_TURN_MS = 300
"""All turns together are longer than any grace of the pool."""


class _Process:
    """One scripted process: its ends of the pipe and of the tickets."""

    def __init__(self, start: StartProcess, connection: socket.socket, tickets: int) -> None:
        self.number, self.place = start.number, start.place
        self.connection, self.tickets = connection, tickets
        connection.setblocking(False)
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self.works: list[Work] = []

    def say(self, text: bytes) -> None:
        """Write into the pipe, as much as it takes."""
        with suppress(OSError):
            self.connection.send(text)

    def hear(self) -> None:
        """Take the work that the node has sent."""
        with suppress(OSError):
            for kind, text in self._reader.feed(self.connection.recv(1 << 16)):
                if kind == FrameKind.WORK:
                    self.works.append(read_record(text, Work))

    def take(self) -> Work | None:
        """Take the next work with a ticket."""
        self.hear()
        with suppress(BlockingIOError):
            seq = int.from_bytes(os.read(self.tickets, TICKET_BYTES), "little")
            return next(each for each in self.works if each.seq == seq)
        return None

    def close(self) -> None:
        """Be gone."""
        self.connection.close()
        os.close(self.tickets)


class _PipeWorld(ProcessThread):
    """A node's thread of processes that takes its turns when the test says so."""

    def __init__(self) -> None:
        self.clock, self.ends = VirtualClock(), SimpleQueue[AttemptEnded]()
        self.calls = Calls(clock=self.clock, gate=lambda _: True, telemetry=RecordingTelemetry())
        super().__init__(
            self.calls,
            ExecutionSettings(),
            RecoverySettings(),
            places=2,
            plan=ProcessPlan(UserPlaces(), [], [], 30, {}),
            lease_ends_ms=lambda: math.inf,
            log=log_line,
        )
        self.processes: dict[int, _Process] = {}
        self.killed = 0
        self._names = 0
        self._start_guardian()

    def _start_guardian(self) -> None:
        self._control, self._guardian_end = socket.socketpair()
        self._guardian_end.setblocking(False)
        self._requests = FrameReader(FRAME_BYTES_MAX)
        self._selector.register(self._control, 1, 0)

    def turn(self, ms: int = 0) -> None:
        """Let time pass, and node and guardian do what is due; raises what a turn does."""
        self.clock.advance(ms)
        self._posted.post(lambda: None)
        self._turn()
        while True:
            try:
                piece, descriptors, _, _ = socket.recv_fds(self._guardian_end, 65_536, 64)
            except BlockingIOError:
                break
            for kind, text in self._requests.feed(piece):
                self._do(kind, text, descriptors)
        self._posted.post(lambda: None)
        self._turn()

    def _do(self, kind: int, text: bytes, descriptors: list[int]) -> None:
        if kind == FrameKind.START:
            start = read_record(text, StartProcess)
            pipe = socket.socket(fileno=descriptors.pop(0))
            self.processes[start.number] = _Process(start, pipe, descriptors.pop(0))
        elif kind == FrameKind.KILL:
            killed = self.processes.pop(read_record(text, Signalled).number, None)
            if killed is not None:
                self.killed += 1
                self._die(killed, signal=9, code=0)

    def _die(self, process: _Process, *, signal: int, code: int) -> None:
        process.close()
        ended = EndedProcess(process.number, signal, code)
        self._guardian_end.send(frame(FrameKind.ENDED_PROCESS, ended))

    def settle(self) -> None:
        """Have both processes ready, and nothing at hand."""
        for _ in range(_TURNS):
            self.turn(_TURN_MS)
        for each in self.processes.values():
            each.say(frame(FrameKind.HELLO, Hello(FRAMES_VERSION)))
        self.turn()

    def say_early(self, said: bytes) -> None:
        """Have the newest process say something, before its hello if it is new, and die of it."""
        for _ in range(_TURNS):
            self.turn(_TURN_MS)
        number = max(self.processes)
        self.processes[number].say(said)
        self.turn()
        if number in self.processes:
            self._die(self.processes.pop(number), signal=0, code=1)
        self.turn()

    def begin(self) -> tuple[_Process, Work]:
        """Start an attempt; return the process that has begun it."""
        self._names += 1
        task = a_stored_task(due_in_ms=0, ordering_id=f"id-{self._names}")
        self.run(self.calls.registry.add([(an_attempt(task=task), _MEMBER)], self.ends.put))
        for _ in range(2):
            self.turn()
        for each in self.processes.values():
            if (work := each.take()) is not None:
                words = self.page.place(each.place)
                words.begin(work.seq, self.clock.monotonic_ms())
                words.execute(self.clock.now_ms())
                return each, work
        raise AssertionError("nobody was given the attempt")

    def end(self, process: _Process, work: Work) -> None:
        """Have a process end its work, as a real one does."""
        process.say(_end_of(work.seq))
        self.page.place(process.place).end()

    def leave(self) -> None:
        """Close all."""
        for each in self.processes.values():
            each.close()
        for number in tuple(self._pipes):
            self._end(EndedProcess(number, 9, 0))
        for end in (self._guardian_end, self._control, self._woken, self._wakes):
            if end is not None:
                end.close()
        self._selector.close()
        os.close(self._page_descriptor)


def try_pipe(seed: int, count: int) -> int:
    """Have ``count`` processes say hostile things; AssertionError where one harmed the node."""
    rng, world = random.Random(f"pipe {seed}"), _PipeWorld()
    # Without a handler, Python shows what is logged.
    quiet = logging.NullHandler()
    logging.getLogger().addHandler(quiet)
    try:
        for _ in range(count):
            _try_one(rng, world)
    finally:
        world.leave()
        logging.getLogger().removeHandler(quiet)
    return count


def _try_one(rng: random.Random, world: _PipeWorld) -> None:
    if rng.random() < 0.1:
        world.say_early(_hostile(rng, 1))
    world.settle()
    hostile, work = world.begin()
    good, beside = world.begin()
    killed, refusal = world.killed, world.pool.refusal
    said = _hostile(rng, work.seq)
    hostile.say(said)
    world.turn()
    if rng.random() < 0.5:
        # User code wrote that and returned; what follows is cut by it.
        world.end(hostile, work)
    elif rng.random() < 0.5:
        with suppress(OSError):
            hostile.connection.shutdown(socket.SHUT_RDWR)
    world.turn()
    world.end(good, beside)
    for _ in range(_TURNS):
        world.turn(_TURN_MS)
    if hostile.number in world.processes:
        world.end(hostile, work)
        for _ in range(_TURNS):
            world.turn(_TURN_MS)
    _judge(world, work, beside, said)
    assert world.pool.refusal == refusal, f"{said[:80]!r} of one process spoke for all"
    assert world.killed - killed <= 1, f"{said[:80]!r} had more than its process killed"
    assert good.number in world.processes, f"{said[:80]!r} had another process killed"


def _judge(world: _PipeWorld, work: Work, beside: Work, said: bytes) -> None:
    """Each attempt ended once: the good one is done, the other one done or failed."""
    for thread in threading.enumerate():
        # Policies are asked on a thread of their own, and the end comes behind that.
        if thread.name == "hourhand-judging":
            thread.join()
    ends = {}
    while not world.ends.empty():
        ended = world.ends.get()
        name = ended.attempt.task.key.ordering_id
        assert name not in ends, f"{said[:80]!r} had {name} end twice"
        ends[name] = ended
    names = [each.attempts[0].ordering_id for each in (work, beside)]
    assert set(ends) == set(names), f"{said[:80]!r}: only {sorted(ends)} of {names} ended"
    assert ends[names[1]].ending is Ending.DONE, f"{said[:80]!r} ended what ran beside it"
    ended = ends[names[0]]
    if ended.ending is not Ending.DONE and ended.error_class == "ProcessDied":
        assert "pipe" in (ended.error_message or ""), ended


def _end_of(seq: int, place: int = 0, ending: str = "done") -> bytes:
    return frame(FrameKind.ENDED, Ended(seq, [SentEnd(place, ending, 0, 0)]))


def _hostile(rng: random.Random, seq: int) -> bytes:
    """Return bytes: damaged, huge, early, late, repeated, of another version, or noise."""
    whole = _end_of(seq)
    match rng.randrange(12):
        case 0:
            return whole[: rng.randrange(1, len(whole))]
        case 1:
            size_bytes = rng.choice((ANSWER_BYTES_MAX, ANSWER_BYTES_MAX + 1, 2**32 - 1, 100))
            return size_bytes.to_bytes(4, "big") + bytes([rng.randrange(256)])
        case 2:
            return whole * rng.randrange(2, 4)
        case 3:
            return _end_of(seq + rng.choice((-1, 1, 2**40)))
        case 4:
            return frame(FrameKind.HELLO, rng.choice((Hello(0), Hello(FRAMES_VERSION + 1))))
        case 5:
            return frame(rng.choice(list(FrameKind)), rng.choice((None, [], [seq], ["x"], {})))
        case 6:
            return (1).to_bytes(4, "big") + bytes([rng.randrange(16, 256), 0xC0])
        case 7:
            return rng.randbytes(rng.randrange(1, 60))
        case 8:
            spoiled = bytearray(whole)
            spoiled[rng.randrange(len(spoiled))] = rng.randrange(256)
            return bytes(spoiled)
        case 9:
            # A value behind the end that it belongs to, or twice, or of another attempt.
            value = frame(FrameKind.RESULT, SentText(rng.choice((seq, seq + 1)), 0, b"1"))
            return rng.choice((whole + value, value + value + whole, value * 3))
        case 10:
            return _of_another_version(rng, seq)
        case _:
            return _odd_record(rng, seq)


def _of_another_version(rng: random.Random, seq: int) -> bytes:
    """Return an end with fewer fields than ours, as an older version sent it, or with more."""
    fields = msgspec.to_builtins(SentEnd(0, "done", 0, 0))
    changed = rng.choice((fields[: rng.randrange(len(fields))], [*fields, None, "new", 7]))
    work = [seq, [changed], 0]
    return frame(FrameKind.ENDED, work[: rng.randrange(1, 4)])


def _odd_record(rng: random.Random, seq: int) -> bytes:
    """Return a frame whose record is of the right shape with values that no process sends."""
    number = rng.choice((0, -1, 2**63, -(2**63), 2**64 - 1, 5))
    real = rng.choice((float("nan"), float("inf"), -1e308, 0.0))
    texts = rng.choice(("", "a.b", "\0", "x" * 70_000, "%s %d"))
    records: list[tuple[FrameKind, object]] = [
        (FrameKind.LOGGED, (texts, number, texts, real, texts, 1, texts, texts, seq, number)),
        (FrameKind.LOGGED, ("fuzz", 50, texts, real, texts, number, texts, None, seq, 0)),
        (FrameKind.CHECKPOINT, (seq, number, texts.encode())),
        (FrameKind.CHECKPOINT, (number, 0, bytes(100_000))),
        (FrameKind.RESULT, (seq, number, texts.encode())),
        (FrameKind.RESULT, (number, 0, bytes(200_000))),
        (FrameKind.ENDED, (seq, [(0, "failed", number, number, True)], number)),
        (FrameKind.ENDED, (seq, [(0, texts, 0, 0)])),
        (FrameKind.ENDED, (seq, [(0, "retry", 0, 0, True, None, number)])),
        (FrameKind.REFUSED, (texts,)),
    ]
    kind, record = rng.choice(records)
    return frame(kind, msgspec.to_builtins(record))
