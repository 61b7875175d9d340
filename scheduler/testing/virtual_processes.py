"""The processes of a virtual node: they run user code in the test's thread, or end as it scripts.

The pool that gives them work, asks, kills and counts is the one of a node.  Decides nothing that
the pool decides.
"""

import math
import random
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from hourhand.actors.model.execution.attempts import Attempt, AttemptEnded
from hourhand.actors.model.execution.executor_attributes import timeout_ms_of
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.operations.events import AttemptFailed, AttemptStarted
from hourhand.actors.model.values.settings import TreeSettings
from hourhand.scheduler.executors.user_executors import UserExecutors
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Begun, Calls
from hourhand.scheduler.node.processes.process_deadlines import RECALLED_MS, TOLD_MS
from hourhand.scheduler.node.processes.process_ends import sent_ends
from hourhand.scheduler.node.processes.process_frames import (
    FRAME_BYTES_MAX,
    Ended,
    EndedProcess,
    FrameKind,
    FrameReader,
    SentText,
    Work,
    read_record,
)
from hourhand.scheduler.node.processes.process_page import PagePlace, ProcessPage
from hourhand.scheduler.node.processes.process_place import NO_DEADLINE, job_of, job_of_batch
from hourhand.scheduler.node.processes.process_pool import ProcessPool
from hourhand.scheduler.node.silence import STOOD_STILL_MS
from hourhand.scheduler.node.stages import RunningBatch
from hourhand.scheduler.ports.batches import BatchMember
from hourhand.scheduler.testing.recording import RecordingTelemetry
from hourhand.scheduler.testing.scripted import Scripts
from hourhand.scheduler.testing.virtual import VirtualWorkers

PLACES = 32
"""Processes of a virtual node whose settings give no number: its machine's cores choose nothing."""
_KILL = 9
_ROUNDING_MS = 1.0
"""The pool compares differences of times: a moment that is not later may be too early for it."""


@dataclass(eq=False)
class _VirtualProcess:
    """One process."""

    number: int
    place: PagePlace
    users: UserExecutors
    tickets: list[int] = field(default_factory=list)
    works: deque[Work] = field(default_factory=deque)
    hangs: bool = False
    _made: dict[str | None, TaskExecutor] = field(default_factory=dict)

    def executor_of(self, kind: str | None) -> TaskExecutor:
        """Return the executor of a kind, which serves all of its tasks here."""
        made = self._made.get(kind)
        if made is None:
            made = self._made[kind] = self.users.make(kind)
        return made


class _NodeDesk:
    """Hands checkpoints of the code in a process to its node."""

    def __init__(self, of: Sequence[RunningAttempt]) -> None:
        self._of = {id(each.attempt): each for each in of}

    def take(self, running: RunningAttempt, text: bytes) -> None:
        self._of[id(running.attempt)].make(text)


class _WorkAtHand:
    """The work of a process at one go, begun and ended by the same code as in a real one."""

    def __init__(
        self,
        process: _VirtualProcess,
        seq: int,
        of: Sequence[RunningAttempt],
        calls: Callable[[RecordingTelemetry], Calls],
    ) -> None:
        self.process, self.seq = process, seq
        self._told = RecordingTelemetry()
        self._calls = calls(self._told)
        self._calls.registry.desk = _NodeDesk(of)
        self._begun: Begun = ()
        self._ends: dict[int, AttemptEnded] = {}
        starts = [(each.attempt, process.executor_of(each.attempt.task.kind)) for each in of]
        self.added = self._calls.registry.add(starts, self._take_end)

    def _take_end(self, ended: AttemptEnded) -> None:
        self._ends[id(ended.attempt)] = ended

    @property
    def is_begun(self) -> bool:
        """True if user code of one of the attempts was called."""
        return bool(self._told.of(AttemptStarted))

    def run(self, note_start: Callable[[Attempt], object], *, is_batch: bool) -> None:
        """Run user code to its end."""
        workers = VirtualWorkers(self._calls)
        workers.note_start = note_start
        first = self.added[0].executor
        if is_batch:
            assert isinstance(first, BatchMember), "the node makes batches of these alone"
            workers.run_batch(RunningBatch(first.batches, self.added, lambda: None))
        else:
            workers.run(self.added)
        workers.run_one()

    def begin(self, note_start: Callable[[Attempt], object]) -> None:
        """Begin the attempts that may begin; their user code is not called."""
        self._begun = self._calls.begin_batch(self.added)
        for running, _ in self._begun:
            note_start(running.attempt)

    def fail(self, error: BaseException) -> None:
        """End the attempts that began."""
        self._calls.end_batch(self._begun, [error] * len(self._begun))

    def frames(self) -> Sequence[tuple[FrameKind, SentText | Ended]]:
        """Return what a process sends of all of it, once it has ended."""
        ends = [self._ends[id(each.attempt)] for each in self.added]
        begun = {each.key for each in self._told.of(AttemptStarted)}
        failed = {each.key for each in self._told.of(AttemptFailed)}
        return sent_ends(self.seq, ends, begun=begun, told=failed)


class VirtualProcesses:
    """The processes of one virtual node, and the stage before them; a ``ProcessSystem``."""

    def __init__(
        self,
        calls: Calls,
        tree: TreeSettings,
        users: UserExecutors,
        scripts: Scripts,
        *,
        note_start: Callable[[Attempt], object],
        rng: random.Random,
    ) -> None:
        """``note_start`` is called with each attempt, just before its user code."""
        self._calls, self._users, self._scripts = calls, users, scripts
        self._note_start, self._rng = note_start, rng
        self.places = tree.execution.processes or PLACES
        """The number of processes."""
        self.page = ProcessPage(-1, self.places)
        self._inbox: deque[Callable[[], object]] = deque()
        self._alive: dict[int, _VirtualProcess] = {}
        self._number = 0
        self._is_due, self._due_ms = True, NO_DEADLINE
        self._kill_grace_ms = tree.execution.kill_grace_ms
        self.pool = ProcessPool(
            calls,
            tree.execution,
            self,
            # A virtual process never pauses while another one goes on.
            lease_ends_ms=lambda: math.inf,
            drain_deadline_ms=tree.recovery.drain_deadline_ms,
            post=self._inbox.append,
            judge=lambda call: call(),
            places=self.places,
        )

    # The stage.

    def run(self, attempts: Sequence[RunningAttempt]) -> None:
        """Run each attempt as soon as a process is free for it."""
        self._inbox.append(partial(self.pool.enter, [job_of(each) for each in attempts]))

    def run_batch(self, batch: RunningBatch) -> None:
        """Run some attempts together."""
        self._inbox.append(partial(self.pool.enter, [job_of_batch(batch)]))

    def drain(self, partitions: Collection[int] | None) -> None:
        """Take back what has not begun, and let the rest end before the drain deadline."""
        taken = [seq for number in self._alive for seq in self.take_back(number)]
        self._inbox.append(partial(self.pool.took_back, taken))
        if partitions is not None:
            self._inbox.append(partial(self.pool.drain, tuple(partitions)))

    @property
    def hangs(self) -> bool:
        """True if a process hangs."""
        return any(each.hangs for each in self._alive.values())

    def run_one(self) -> bool:
        """Do one thing that is due; return False if there is none."""
        now_ms = self._calls.clock.monotonic_ms()
        if self._inbox:
            self._inbox.popleft()()
            self._is_due = True
        elif self._is_due or self._due_ms <= now_ms:
            self._is_due = False
            self.pool.turn()
            self._due_ms = min(map(self._look_ms, range(self.places)))
        else:
            if not any(map(self._go_on, tuple(self._alive.values()))):
                return False
            self._is_due = True
        return True

    def next_ms(self) -> float | None:
        """Return the monotonic time at which something is due; None for never."""
        if self._inbox or self._is_due:
            return self._calls.clock.monotonic_ms()
        return None if self._due_ms == NO_DEADLINE else self._due_ms

    def _look_ms(self, index: int) -> float:
        """Return when the pool finds something to do at a place if nothing is said until then."""
        place, words = self.pool.places[index], self.page.place(index)
        if not place.number:
            return place.start_ms
        if not place.sent:
            return place.kill_ms
        times = [place.kill_ms, place.drained_ms]
        runs = words.seq == place.sent[0].seq
        if not place.is_asked:
            times.append(place.drained_ms - self._kill_grace_ms)
            times.append(words.deadline_ms if runs else NO_DEADLINE)
            times.append(self._silence_look_ms(index) if runs else NO_DEADLINE)
        if runs and not place.sent[0].is_told:
            times.append(words.begun_ms + TOLD_MS + _ROUNDING_MS)
        if len(place.sent) > 1:
            times.append(place.head_ms + RECALLED_MS + _ROUNDING_MS)
        return min(times)

    def _silence_look_ms(self, index: int) -> float:
        """Return when the pool has to look whether what runs at a place is stuck.

        It takes a node that does not look for some seconds for one that stood still.
        """
        job = self.pool.places[index].sent[0]
        limit_ms = self._calls.silence_limits.of(job.members[0].attempt)
        if limit_ms is None:
            return NO_DEADLINE
        now_ms = self._calls.clock.monotonic_ms()
        stuck_ms = self.page.place(index).begun_ms + limit_ms + _ROUNDING_MS
        next_ms = now_ms + STOOD_STILL_MS / 2
        return stuck_ms if now_ms < stuck_ms < next_ms else next_ms

    # The system.

    def start_process(self, place: int) -> int:
        """Have a process that is ready at once, with executors of its own."""
        self._number += 1
        users = replace(self._users, here=True, guests={}, batches={}, members={})
        words = self.page.place(place)
        self._alive[self._number] = _VirtualProcess(self._number, words, users)
        self._inbox.append(partial(self.pool.said_hello, self._number))
        return self._number

    def send(self, number: int, seqs: Sequence[int], frames: bytes) -> None:
        """Give it tickets and work."""
        process = self._alive[number]
        process.tickets += seqs
        for _, text in FrameReader(FRAME_BYTES_MAX).feed(frames):
            process.works.append(read_record(text, Work))

    def take_back(self, number: int) -> Collection[int]:
        """Take its tickets."""
        process = self._alive.get(number)
        if process is None:
            return ()
        taken, process.tickets = process.tickets, []
        return taken

    def ask(self, number: int) -> None:
        """Change nothing: what hangs does not listen."""

    def kill(self, number: int) -> None:
        """End a process."""
        self._end(EndedProcess(number, _KILL, 0))

    def stop(self, number: int) -> None:
        """End an idle process."""
        self._end(EndedProcess(number, 0, 0))

    def _end(self, ended: EndedProcess) -> None:
        if self._alive.pop(ended.number, None) is not None:
            self._inbox.append(partial(self.pool.has_ended, ended))

    # The processes.

    def _go_on(self, process: _VirtualProcess) -> bool:
        """Do the next work of a process; return False if there is none."""
        while process.works and not process.hangs:
            work = process.works.popleft()
            if work.seq in process.tickets:
                process.tickets.remove(work.seq)
                self._do(process, work)
                return True
        return False

    def _do(self, process: _VirtualProcess, work: Work) -> None:
        of = [self._attempt_of(process, work.seq, at) for at in range(len(work.attempts))]
        at_hand = _WorkAtHand(process, work.seq, of, self._calls_inside)
        process.place.begin(work.seq, self._calls.clock.monotonic_ms())
        script = self._scripts.find([each.attempt.task for each in of])
        if script is None or script.end.after_execute:
            at_hand.run(self._note_start, is_batch=work.is_batch)
        else:
            at_hand.begin(self._note_start)
        if script is None or not at_hand.is_begun:
            self._tell_ends(at_hand)
            return
        script.use()
        process.place.execute(self._calls.clock.now_ms())
        if script.end.hangs:
            self._hang(at_hand)
        elif script.end.memory_bytes:
            held = script.end.memory_bytes
            self._end(EndedProcess(process.number, _KILL, 0, "memory", held))
        else:
            self._end(EndedProcess(process.number, script.end.signal, script.end.exit_code))

    def _attempt_of(self, process: _VirtualProcess, seq: int, at: int) -> RunningAttempt:
        running = self.pool.attempt_of(process.number, seq, at)
        assert running is not None, "work with a ticket is at hand"
        return running

    def _calls_inside(self, told: RecordingTelemetry) -> Calls:
        return Calls(
            clock=self._calls.clock,
            # The node has asked its own.
            gate=lambda _: True,
            telemetry=told,
            require_codecs=self._users.require_codecs,
            rng=self._rng,
        )

    def _hang(self, at_hand: _WorkAtHand) -> None:
        """Let a process hang, at most for the timeout of what it runs."""
        process, first = at_hand.process, at_hand.added[0]
        try:
            timeout_ms = timeout_ms_of(first.executor, first.attempt.timeout_ms)
        except BaseException as error:  # noqa: BLE001 - reading it is user code
            at_hand.fail(error)
            self._tell_ends(at_hand)
            return
        process.hangs = True
        if timeout_ms is not None:
            process.place.limit(self._calls.clock.monotonic_ms() + timeout_ms)

    def _tell_ends(self, at_hand: _WorkAtHand) -> None:
        process = at_hand.process
        for _, record in at_hand.frames():
            self._inbox.append(partial(self.pool.said, process.number, record))
        process.place.end()
