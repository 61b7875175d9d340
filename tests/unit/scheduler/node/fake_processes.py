"""Processes that only say what a test has them say; a ``ProcessSystem``.

They keep to the page and to the tickets, as real ones do.
"""

import math
from collections.abc import Callable, Collection, Sequence
from queue import SimpleQueue

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.execution.attempts import Attempt, AttemptEnded, Ending
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.values.settings import ExecutionSettings
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.checkpoints import NodeCheckpoints
from hourhand.scheduler.node.processes.process_frames import (
    FRAME_BYTES_MAX,
    Ended,
    EndedProcess,
    FrameReader,
    SentEnd,
    SentFailure,
    Work,
    read_record,
)
from hourhand.scheduler.node.processes.process_page import ProcessPage
from hourhand.scheduler.node.processes.process_place import job_of, job_of_batch
from hourhand.scheduler.node.processes.process_pool import ProcessPool
from hourhand.scheduler.node.silence import SilenceLimits
from hourhand.scheduler.node.stages import RunningBatch
from hourhand.scheduler.ports.batches import BatchLimits
from hourhand.scheduler.ports.processes import ProcessBatches, ProcessMember
from hourhand.scheduler.testing import RecordingTelemetry
from tests.builders import a_stored_task, an_attempt

RETRY = RetryPolicy(attempts_max=3)


class FakeProcess:
    """One process, as the pool knows it."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.tickets: list[int] = []
        self.works: dict[int, Work] = {}
        self.said: list[str] = []
        """What it was asked for: ``ask``, ``kill`` and ``stop``."""


class FakeProcesses:
    """A pool with such processes, under a virtual clock."""

    def __init__(self, places: int = 1, **settings: object) -> None:
        self.page, _ = ProcessPage.made(places)
        self.clock = VirtualClock()
        self.telemetry = RecordingTelemetry()
        self.is_open = True
        self.lease_ends_ms = math.inf
        execution = ExecutionSettings.model_validate({"kill_grace_ms": 1_000, **settings})
        self.calls = Calls(
            clock=self.clock,
            gate=lambda _: self.is_open,
            telemetry=self.telemetry,
            silence_limits=SilenceLimits(default_ms=execution.stuck_after_ms),
        )
        self.calls.registry.desk = NodeCheckpoints(self.clock, lambda *_: None)
        self.processes: dict[int, FakeProcess] = {}
        self.ends: SimpleQueue[AttemptEnded] = SimpleQueue()
        posted: list[Callable[[], None]] = []
        self._posted = posted
        self.pool = ProcessPool(
            self.calls,
            execution,
            self,
            lease_ends_ms=lambda: self.lease_ends_ms,
            drain_deadline_ms=10_000,
            post=posted.append,
            judge=lambda call: call(),
            places=places,
        )
        self._count = 0

    # The system.

    def start_process(self, place: int) -> int:
        """Have a process that says nothing yet."""
        number = 1 + len(self.processes)
        self.processes[number] = FakeProcess(place)
        return number

    def send(self, number: int, seqs: Sequence[int], frames: bytes) -> None:
        """Give it tickets and work."""
        process = self.processes[number]
        process.tickets += seqs
        for _, text in FrameReader(FRAME_BYTES_MAX).feed(frames):
            work = read_record(text, Work)
            process.works[work.seq] = work

    def take_back(self, number: int) -> Collection[int]:
        """Take its tickets."""
        taken, self.processes[number].tickets = self.processes[number].tickets, []
        return taken

    def ask(self, number: int) -> None:
        """Take note."""
        self.processes[number].said.append("ask")

    def kill(self, number: int) -> None:
        """Take note."""
        self.processes[number].said.append("kill")

    def stop(self, number: int) -> None:
        """Take note."""
        self.processes[number].said.append("stop")

    # The test.

    def turn(self, ms: int = 0) -> float:
        """Let time pass, and the pool do what is due."""
        self.clock.advance(ms)
        for call in self._posted:
            call()
        self._posted.clear()
        return self.pool.turn()

    def wait(self, ms: int) -> None:
        """Let time pass as it does on a node that does not stand still."""
        for _ in range(ms // 100):
            self.turn(100)

    def ready(self) -> None:
        """Have every process say hello that has not ended."""
        self.turn()
        for number in tuple(self.processes):
            self.pool.said_hello(number)
        self.turn()

    def start(self, count: int = 1, *, partition: int = 0) -> list[Attempt]:
        """Start attempts."""
        jobs = [job_of(each) for each in self._added(count, ProcessMember(RETRY, None), partition)]
        self.pool.enter(jobs)
        self.turn()
        return [each.members[0].attempt for each in jobs]

    def start_batch(self, count: int, *, runs_again_alone: bool = False) -> RunningBatch:
        """Start a batch."""
        limits = BatchLimits(count, 0, 1)
        batches = ProcessBatches(limits, False, RETRY, None, runs_again_alone)
        members = self._added(count, ProcessMember(RETRY, None), 0)
        batch = RunningBatch(batches, members, lambda: self.batches_ended.append(True))
        self.batches_ended: list[bool] = []
        self.pool.enter([job_of_batch(batch)])
        self.turn()
        return batch

    def _added(
        self, count: int, executor: ProcessMember, partition: int
    ) -> Sequence[RunningAttempt]:
        starts = []
        for _ in range(count):
            self._count += 1
            task = a_stored_task(due_in_ms=0, ordering_id=f"id-{self._count}")
            starts.append((an_attempt(task=task, partition=partition), executor))
        return self.calls.registry.add(starts, self.ends.put)

    def begin(self, number: int = 1, timeout_ms: int | None = None) -> Work:
        """Have a process take its first ticket and call user code."""
        process = self.processes[number]
        seq, words = process.tickets.pop(0), self.page.place(process.place)
        words.begin(seq, self.clock.monotonic_ms())
        words.execute(self.clock.now_ms())
        if timeout_ms is not None:
            words.limit(self.clock.monotonic_ms() + timeout_ms)
        return process.works[seq]

    def end(self, number: int = 1, ending: Ending = Ending.DONE, error: str | None = None) -> None:
        """Have a process end what runs."""
        words = self.page.place(self.processes[number].place)
        work, now_ms = self.processes[number].works[words.seq], self.clock.now_ms()
        failure = None if error is None else SentFailure(error, "wrong", None, is_told=True)
        ends = [
            SentEnd(at, ending.value, now_ms, now_ms, failed=failure)
            for at in range(len(work.attempts))
        ]
        self.pool.said_ended(number, Ended(work.seq, ends))
        words.end()

    def die(self, number: int = 1, signal: int = 11, code: int = 0, why: str = "") -> None:
        """Have a process end."""
        self.pool.has_ended(EndedProcess(number, signal, code, why))
        self.turn()

    def drain(self, partitions: Sequence[int]) -> None:
        """Let partitions go to another owner."""
        taken = [seq for number in self.processes for seq in self.take_back(number)]
        self.pool.took_back(taken)
        self.pool.drain(partitions)

    def count(self, event: type) -> int:
        """Return how many such events were told."""
        return len(self.telemetry.of(event))

    def ended(self) -> AttemptEnded:
        """Return the next end."""
        return self.ends.get_nowait()
