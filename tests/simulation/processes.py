"""Processes of simulated nodes and their guardians, in virtual time; a ``ProcessSystem``.

The pool is the node's own.  Guardian and processes go on while their node is frozen, keep to the
shared page and to the tickets, and die of user code or of the lease.
"""

import math
import random
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from hourhand.actors.model.execution.attempts import AttemptEnded
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.operations.events import Event
from hourhand.actors.model.values.settings import TreeSettings
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.endings import not_started
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
from hourhand.scheduler.node.processes.process_place import job_of
from hourhand.scheduler.node.processes.process_pool import ProcessPool
from tests.simulation.progress import EVERY_MS, CheckpointingAttempt
from tests.simulation.user_code import ProcessKilled, SimulatedExecutor, plan_of

PLACES = 12
_LEAKS = 0.05
"""Share of attempts that hold more memory than a process may."""
KILL = 9


class ProcessObserver(Protocol):
    """Hears what processes do with user code."""

    def attempt_started(self, running: RunningAttempt, queued_ms: float) -> int:
        """Note that user code is called; return the attempt's number in the history."""

    def attempt_ended(self, number: int, ending: str) -> None:
        """Note that user code ended."""

    def checkpointing(self, running: RunningAttempt, number: int) -> CheckpointingAttempt | None:
        """Return how an attempt makes checkpoints; None where it makes none."""

    def miscalled(self, running: RunningAttempt, complaint: str) -> None:
        """Note what is wrong with where an attempt was sent."""


class _Untold:
    """The telemetry of a process, which tells its node alone."""

    def emit(self, event: Event) -> None:
        """Tell nobody."""


@dataclass(eq=False)
class _Simulated:
    """One process."""

    number: int
    words: PagePlace
    ready_ms: float
    is_ready: bool = False
    gone_ms: float = math.inf
    """When it is killed, or ends as it was asked to."""
    why: str = ""
    """For which its node kills it."""
    heard: int = 0
    """Tasks of it whose end its node has heard."""
    memory_bytes: int = 0
    measured_ms: float = math.inf
    """Time at which the guardian finds that it holds too much."""
    tickets: list[int] = field(default_factory=list)
    works: deque[Work] = field(default_factory=deque)
    seq: int = 0
    """Number of the work that runs; 0 for none."""
    end_ms: float = 0.0
    dies: bool = False
    """True if what runs kills it."""
    history: Sequence[int] = ()
    """The numbers in the history of what runs."""
    ends: Sequence[AttemptEnded] = ()
    checkpoints: CheckpointingAttempt | None = None
    checkpoint_ms: float = 0.0
    """Time of its next checkpoint."""

    def next_ms(self, lease_ends_ms: float) -> float:
        """Return the monotonic time at which it does something, or something is done to it."""
        own_ms = min(self.gone_ms, self.measured_ms)
        if not self.is_ready:
            return min(own_ms, self.ready_ms)
        if not self.seq:
            return own_ms
        if self.checkpoints is not None:
            own_ms = min(own_ms, self.checkpoint_ms)
        return min(own_ms, self.end_ms, lease_ends_ms)


class SimulatedProcesses:
    """The processes of one node."""

    def __init__(
        self,
        calls: Calls,
        tree: TreeSettings,
        *,
        observer: ProcessObserver,
        lease_ends_ms: Callable[[], float],
        policy: RetryPolicy,
        rng: random.Random,
    ) -> None:
        self.page = ProcessPage(-1, PLACES)
        self._calls, self._observer, self._policy = calls, observer, policy
        self._execution = tree.execution
        self._rng = random.Random(rng.getrandbits(64))
        self._inside = Calls(
            clock=calls.clock, gate=lambda _: True, telemetry=_Untold(), rng=self._rng
        )
        self._inbox: deque[Callable[[], object]] = deque()
        """Calls that the node gets next; it gets none while it is frozen."""
        self._alive: dict[int, _Simulated] = {}
        self._queued_ms: dict[RunningAttempt, float] = {}
        self._number = 0
        self._is_due, self._due_ms = True, 0.0
        self.pool = ProcessPool(
            calls,
            tree.execution,
            self,
            lease_ends_ms=lease_ends_ms,
            drain_deadline_ms=tree.recovery.drain_deadline_ms,
            post=self._inbox.append,
            judge=lambda call: call(),
            places=PLACES,
        )

    def run(self, attempts: Sequence[RunningAttempt], queued_ms: Sequence[float]) -> None:
        """Run each attempt as soon as a process is free for it."""
        self._queued_ms.update(zip(attempts, queued_ms, strict=True))
        self._inbox.append(partial(self.pool.enter, [job_of(each) for each in attempts]))

    def drain(self, partitions: Collection[int] | None) -> None:
        """Take back what has not begun, at once, as ``ProcessThread`` does."""
        taken = [seq for number in self._alive for seq in self.take_back(number)]
        self._inbox.append(partial(self.pool.took_back, taken))
        if partitions is not None:
            self._inbox.append(partial(self.pool.drain, tuple(partitions)))

    def work_one(self) -> bool:
        """Let the node hear one thing, or do what is due; return whether there was any."""
        now_ms = self._calls.clock.monotonic_ms()
        if self._inbox:
            self._inbox.popleft()()
            self._is_due = True
        elif self._is_due or now_ms >= self._due_ms:
            self._is_due = False
            self._due_ms = now_ms + self.pool.turn()
            self.step()
        else:
            return False
        return True

    def next_ms(self) -> float:
        """Return the monotonic time at which the node has something to do."""
        if self._inbox or self._is_due:
            return self._calls.clock.monotonic_ms()
        return self._due_ms

    # The system.

    def start_process(self, place: int) -> int:
        """Have a process that is ready after a while."""
        self._number += 1
        ready_ms = self._calls.clock.monotonic_ms() + self._rng.uniform(10.0, 200.0)
        words = self.page.place(place)
        self._alive[self._number] = _Simulated(self._number, words, ready_ms)
        return self._number

    def send(self, number: int, seqs: Sequence[int], frames: bytes) -> None:
        """Give it tickets and work."""
        process = self._alive.get(number)
        if process is not None:
            most = self._execution.tasks_per_process_max
            if most is not None and process.heard >= most:
                running = self.pool.attempt_of(number, seqs[0], 0)
                assert running is not None, "what is sent is at hand"
                self._observer.miscalled(running, f"was sent to a process behind {most} tasks")
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
        """Change nothing: no simulated code listens."""

    def kill(self, number: int) -> None:
        """End it in a moment."""
        process = self._alive.get(number)
        if process is not None:
            process.why = next(each.why for each in self.pool.places if each.number == number)
        self._leave(number, self._rng.uniform(0.0, 5.0))

    def stop(self, number: int) -> None:
        """Let it end soon."""
        self._leave(number, self._rng.uniform(0.0, 20.0))

    def _leave(self, number: int, in_ms: float) -> None:
        process = self._alive.get(number)
        if process is not None and process.gone_ms == math.inf:
            process.gone_ms = self._calls.clock.monotonic_ms() + in_ms

    # Guardian and processes, whether their node is frozen or not.

    def outside_ms(self) -> float:
        """Return the monotonic time at which one of them does something."""
        lease_ends_ms = self.page.lease_ends_ms
        times = (each.next_ms(lease_ends_ms) for each in self._alive.values())
        return min(times, default=math.inf)

    def step(self) -> None:
        """Do all that is due outside of the node."""
        now_ms = self._calls.clock.monotonic_ms()
        for process in tuple(self._alive.values()):
            if process.gone_ms <= now_ms:
                self._die(process, "")
            elif process.seq and self.page.lease_ends_ms <= now_ms:
                self._die(process, "lease")
            elif process.measured_ms <= now_ms:
                self._die(process, "memory")
            elif not process.is_ready:
                if process.ready_ms <= now_ms:
                    process.is_ready = True
                    self._hear(partial(self.pool.said_hello, process.number))
            else:
                self._go_on(process, now_ms)

    def end(self) -> None:
        """The node is gone, and all of them with it."""
        self._alive.clear()

    def _hear(self, said: Callable[[], object]) -> None:
        self._inbox.append(said)

    def _go_on(self, process: _Simulated, now_ms: float) -> None:
        if process.seq and process.end_ms <= now_ms:
            if process.dies:
                self._die(process, "")
                return
            self._finish(process)
        elif process.seq and process.checkpoints is not None and process.checkpoint_ms <= now_ms:
            process.checkpoint_ms = now_ms + EVERY_MS
            self._make_checkpoint(process, process.checkpoints)
        while not process.seq and process.works:
            work = process.works.popleft()
            if work.seq in process.tickets:
                process.tickets.remove(work.seq)
                self._begin(process, work, now_ms)

    def _begin(self, process: _Simulated, work: Work, now_ms: float) -> None:
        running = self.pool.attempt_of(process.number, work.seq, 0)
        assert running is not None, "what has a ticket is at hand"
        clock, attempt = self._calls.clock, running.attempt
        process.seq, process.end_ms, process.dies = work.seq, now_ms, False
        process.words.begin(work.seq, now_ms)
        inside = RunningAttempt(attempt, SimulatedExecutor(self._policy), None)
        process.history, process.checkpoints = (), None
        is_early = clock.now_ms() < attempt.task.key.scheduled_ms
        if is_early or self.page.lease_ends_ms <= now_ms:
            process.ends = (not_started(attempt, clock.now_ms()),)
        elif (uncalled := self._inside.uncalled(inside)) is not None:
            process.ends = (uncalled,)
        else:
            self._call(process, running, inside)

    def _call(self, process: _Simulated, running: RunningAttempt, inside: RunningAttempt) -> None:
        """Call user code, which ends or kills the process when its plan says so."""
        attempt, started_ms = running.attempt, self._calls.clock.now_ms()
        process.words.execute(started_ms)
        number = self._observer.attempt_started(running, self._queued_ms.pop(running))
        process.history = (number,)
        process.checkpoints = self._observer.checkpointing(running, number)
        process.checkpoint_ms = self._calls.clock.monotonic_ms() + EVERY_MS
        self._hold_memory(process)
        task = attempt.task.to_task()
        inside.executor.attempt, inside.executor.fence = attempt.number, attempt.epoch
        process.end_ms += plan_of(task, attempt.number).duration_ms
        if attempt.timeout_ms is not None:
            process.words.limit(self._calls.clock.monotonic_ms() + attempt.timeout_ms)
        try:
            outcome: object = inside.executor.execute(task)
        except ProcessKilled:
            process.dies = True
            return
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            outcome = error
        process.ends = (self._inside.ended_with(inside, outcome, started_ms),)

    def _hold_memory(self, process: _Simulated) -> None:
        """Have an attempt leave some memory behind, or hold too much at once."""
        most = self._execution.memory_bytes_per_process_max
        if most is None:
            return
        process.memory_bytes += self._rng.randrange(most // 4)
        if self._rng.random() < _LEAKS:
            process.memory_bytes += most
        if process.memory_bytes > most:
            process.measured_ms = self._calls.clock.monotonic_ms() + self._rng.uniform(0.0, 1_000.0)

    def _make_checkpoint(self, process: _Simulated, checkpoints: CheckpointingAttempt) -> None:
        """Have user code make one, which the node hears of in turn with all else."""
        number, seq = process.number, process.seq

        def take(text: bytes) -> None:
            running = self.pool.attempt_of(number, seq, 0)
            if running is not None:
                running.make(text)

        checkpoints.make(lambda text: self._hear(partial(take, text)))

    def _finish(self, process: _Simulated) -> None:
        if process.checkpoints is not None:
            self._make_checkpoint(process, process.checkpoints)
        for number, ended in zip(process.history, process.ends, strict=False):
            self._observer.attempt_ended(number, ended.ending)
        begun = [each.attempt.task.key for each in process.ends] if process.history else ()
        for kind, record in sent_ends(
            process.seq, process.ends, begun=begun, told=(), memory_bytes=process.memory_bytes
        ):
            self._hear(partial(self._say, process, kind, record))
        process.words.end()
        process.seq = 0

    def _say(self, process: _Simulated, kind: FrameKind, record: SentText | Ended) -> None:
        process.heard += kind is FrameKind.ENDED
        self.pool.said(process.number, record)

    def _die(self, process: _Simulated, why: str) -> None:
        del self._alive[process.number]
        for number in process.history if process.seq else ():
            self._observer.attempt_ended(number, f"killed {process.why or why}".rstrip())
        ended = EndedProcess(process.number, KILL, 0, why, process.memory_bytes)
        self._hear(partial(self.pool.has_ended, ended))
