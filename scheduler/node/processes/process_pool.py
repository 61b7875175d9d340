"""The processes of a node: starts them, distributes work to them, and hears of its end.

Decides how much work is sent ahead, which work is taken back, and when a process is replaced.  The
death of a process is the failure of the work that had begun in it, and of no other.  Everything
here happens on one thread, which never waits for a process; other threads post calls to it.  Never
looks into a task.
"""

import logging
import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.execution.backoff import JITTER, growing_pause_ms
from hourhand.actors.model.values.settings import ExecutionSettings
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.processes.process_deadlines import (
    RECALLED_MS,
    SILENT_MS,
    ProcessDeadlines,
)
from hourhand.scheduler.node.processes.process_deaths import PIPE_LOST, how_it_ended, word_of
from hourhand.scheduler.node.processes.process_ends import read_end
from hourhand.scheduler.node.processes.process_frames import (
    Ended,
    EndedProcess,
    FrameBroken,
    SentText,
)
from hourhand.scheduler.node.processes.process_outcomes import ProcessOutcomes
from hourhand.scheduler.node.processes.process_place import (
    AHEAD_MS,
    NO_DEADLINE,
    ProcessJob,
    ProcessPlace,
)
from hourhand.scheduler.node.processes.process_system import ProcessSystem
from hourhand.scheduler.node.processes.process_work import work_frame
from hourhand.scheduler.node.worker_watch import WorkerLoad
from hourhand.scheduler.ports.processes import ProcessBatches

logger = logging.getLogger("hourhand.processes")

AHEAD_MAX = 32
DRAINED_MS = 200.0
"""Processes are killed this long before the drain deadline: after it another node may begin."""
RESTART_MIN_MS, RESTART_MAX_MS = 100, 30_000
TICK_MS = 50.0


class PoolFigures(NamedTuple):
    """The processes of a node at one moment, and since it began."""

    places: int
    """Most processes at a time."""
    alive: int
    """Processes that can run attempts."""
    busy: int
    resident_bytes: Mapping[int, int]
    """By place, for each place that has a process."""
    attempts: Mapping[int, int]
    """Attempts that have ended, by the place of their process."""
    deaths: Mapping[str, int]
    """Processes that have ended, by the words of ``PROCESS_DEATHS``."""


class ProcessPool:
    """The processes of one node."""

    def __init__(
        self,
        calls: Calls,
        settings: ExecutionSettings,
        system: ProcessSystem,
        *,
        lease_ends_ms: Callable[[], float],
        drain_deadline_ms: int,
        post: Callable[[Callable[[], None]], object],
        judge: Callable[[Callable[[], None]], object],
        places: int,
    ) -> None:
        """``post`` calls a function on the pool's thread, ``judge`` where user code may be slow."""
        self._calls, self._settings, self._system = calls, settings, system
        self._lease_ends_ms, self._post = lease_ends_ms, post
        self._drain_deadline_ms = drain_deadline_ms
        self._monotonic_ms = calls.clock.monotonic_ms
        self._outcomes = ProcessOutcomes(calls, settings, judge)
        self._deadlines = ProcessDeadlines(calls, settings, system, self._outcomes, self._take_back)
        self.places = [ProcessPlace(each) for each in range(places)]
        self._by_number: dict[int, ProcessPlace] = {}
        self._waiting: deque[ProcessJob] = deque()
        self._deaths = Counter[str]()
        self._seq = 0
        self._submitted = 0
        self.sending = threading.Lock()
        """Held from the gate to the ticket."""
        self.is_closing = False
        self.refusal: str | None = None
        """The reason why user code cannot be loaded; None if it can."""

    # Calls posted by other threads, on the pool's thread.

    def enter(self, jobs: "Sequence[ProcessJob]") -> None:
        """Run each job as soon as a process is free for it."""
        if self.is_closing:
            for job in jobs:
                self._outcomes.refuse(job)
            return
        self._submitted += len(jobs)
        self._waiting.extend(jobs)

    def load(self) -> WorkerLoad:
        """Return the numbers of submitted and of waiting attempts; from any thread."""
        return WorkerLoad(self._submitted, len(self._waiting))

    def figures(self) -> PoolFigures:
        """Return what its processes do; from any thread."""
        page = self._system.page
        return PoolFigures(
            len(self.places),
            sum(each.is_ready for each in self.places),
            sum(bool(each.sent) for each in self.places),
            {e.index: page.place(e.index).memory_bytes for e in self.places if e.number},
            {each.index: each.ended for each in self.places},
            dict(self._deaths),
        )

    @property
    def ahead(self) -> int:
        """Number of processes whose attempts were so short that one more may wait in each."""
        return sum(each.ended > 0 and each.mean_ms <= AHEAD_MS for each in self.places)

    def drain(self, partitions: Collection[int]) -> None:
        """Refuse attempts that have not begun, of partitions that go to another owner, and let the
        others end before the drain deadline.
        """
        ends_ms = self._monotonic_ms() + max(0.0, self._drain_deadline_ms - DRAINED_MS)
        for place in self.places:
            if place.sent and any(e.attempt.partition in partitions for e in place.sent[0].members):
                place.drained_ms = min(place.drained_ms, ends_ms)
        self._refuse_waiting(partitions)

    def took_back(self, seqs: Collection[int]) -> None:
        """Queue work again whose tickets were taken back from its processes."""
        for place in self.places:
            self._wait_again(place, seqs)

    def end_attempts(self, job: "ProcessJob", why: str, *, at_once: bool) -> None:
        """End the attempts of a job that runs."""
        for place in self.places:
            if place.sent and place.sent[0] is job:
                self._deadlines.end(place, why, at_once=at_once)

    def begin_close(self) -> None:
        """Give out no more work, and let the processes end."""
        self.is_closing = True
        for place in self.places:
            self._take_back(place)
            if place.number and not place.sent:
                self._stop(place)
            elif place.number:
                self._deadlines.end(place, "closed", at_once=True)
        for job in tuple(self._waiting):
            self._outcomes.refuse(job)
        self._waiting.clear()

    # Frames of a process.

    def said_hello(self, number: int) -> None:
        """Note that a process can run attempts."""
        place = self._by_number.get(number)
        if place is not None:
            place.is_ready, place.failures = True, 0
            self.refusal = None

    def said_refused(self, number: int, complaint: str) -> None:
        """Note that a process cannot load user code; FrameBroken if it has loaded it already."""
        place = self._by_number.get(number)
        if place is not None:
            if place.is_ready:
                raise FrameBroken("it refuses user code that it has loaded")
            self.refusal = complaint
            logger.error("user code cannot be loaded in a process: %s", complaint)

    def said_nonsense(self, number: int, complaint: str) -> None:
        """Replace a process that sent bytes which are not a frame."""
        place = self._by_number.get(number)
        if place is not None and not place.is_killed:
            if not place.is_leaving:
                logger.error("a process is replaced: %s", complaint)
            place.why = place.why or "broken"
            self._deadlines.kill(place, self._monotonic_ms())

    def fell_silent(self, number: int) -> None:
        """Note that a pipe was closed: the guardian reports the end of the process, unless user
        code closed the pipe and the process runs on.
        """
        place = self._by_number.get(number)
        if place is not None and not place.is_killed:
            place.is_silent = True
            place.kill_ms = min(place.kill_ms, self._monotonic_ms() + SILENT_MS)

    def said(self, number: int, sent: SentText | Ended) -> None:
        """Take one of ``sent_ends``; FrameBroken as ``said_ended``."""
        if isinstance(sent, Ended):
            self.said_ended(number, sent)
        else:
            self.said_result(number, sent)

    def said_ended(self, number: int, ended: Ended) -> None:
        """Take the end of the first work of a process; FrameBroken for other work."""
        place = self._by_number.get(number)
        if place is None or place.why == "broken":
            return
        if not place.sent or place.sent[0].seq != ended.seq:
            raise FrameBroken(f"work {ended.seq} ended, which is not at hand")
        job = place.sent[0]
        ends = {each.place: each for each in ended.ends}
        if ends.keys() != set(range(len(job.members))):
            raise FrameBroken("the ends are not those of the attempts that were sent")
        wall_ms = self._calls.clock.now_ms()
        found = [
            read_end(each, ends[at], wall_ms, job.returned.get(at))
            for at, each in enumerate(job.members)
        ]
        is_late = place.why == "timeout"
        now_ms = self._monotonic_ms()
        place.sent.popleft()
        place.mean_ms += ((now_ms - place.head_ms) - place.mean_ms) / 8
        place.head_ms = now_ms
        place.tasks += len(job.members)
        place.ended += len(job.members)
        self._deadlines.forgive(place)
        for at, running in enumerate(job.members):
            self._outcomes.tell_end(job, running, ends[at], found[at], is_late=is_late)
        job.close()
        self._leave_if_full(place, ended.memory_bytes)

    def said_result(self, number: int, sent: SentText) -> None:
        """An attempt at hand has ended with a value, which its work's end follows."""
        place = self._by_number.get(number)
        job = place.sent[0] if place is not None and place.sent else None
        if job is not None and job.seq == sent.seq and 0 <= sent.place < len(job.members):
            job.returned[sent.place] = sent.text

    def has_ended(self, ended: EndedProcess) -> None:
        """Handle the end of a process whose frames were all read."""
        place = self._by_number.pop(ended.number, None)
        if place is None:
            return
        words = self._system.page.place(place.index)
        begun_seq, why = words.begun_seq, place.why or ended.why
        jobs, was_ready = tuple(place.sent), place.is_ready
        if not self.is_closing:
            leaves = place.leaves if was_ready else "start"
            self._deaths[word_of(ended, why, leaves)] += 1
        place.sent.clear()
        place.number, place.is_ready, place.tasks, place.leaves = 0, False, 0, ""
        place.is_killed = place.is_silent = place.is_leaving = False
        self._deadlines.forgive(place)
        if not self.is_closing:
            self._plan_restart(place, ended, was_ready=was_ready)
        for job in reversed(jobs):
            job.number = 0
            if job.seq > begun_seq:
                self._waiting.appendleft(job)
            elif job is jobs[0] or why not in PIPE_LOST:
                place.ended += len(job.members)
                self._lose(job, ended, why, words.executes_since_ms)
            else:
                # The end of the first work was not received: its code has used the pipe.
                self._outcomes.abandon(job, "behind")

    def attempt_of(self, number: int, seq: int, at: int) -> RunningAttempt | None:
        """Return the attempt that wrote a line of a process's log; None if none did."""
        place = self._by_number.get(number)
        for job in () if place is None else place.sent:
            if job.seq == seq and 0 <= at < len(job.members):
                return job.members[at]
        return None

    # Time.

    def turn(self) -> float:
        """Do everything that is due, and return the milliseconds until more may be due."""
        now_ms = self._monotonic_ms()
        self._system.page.lease_until(self._lease_ends_ms())
        self._deadlines.begin_look(now_ms)
        for place in self.places:
            if place.number and now_ms >= place.kill_ms:
                self._deadlines.kill_late(place, now_ms)
            elif place.sent:
                self._deadlines.look(place, now_ms)
            elif not place.number and not self.is_closing and place.start_ms <= now_ms:
                self._start(place)
        self._fill()
        return self._pause_ms(now_ms)

    def _pause_ms(self, now_ms: float) -> float:
        pause_ms = math.inf
        for place in self.places:
            if len(place.sent) > 1:
                pause_ms = min(pause_ms, RECALLED_MS)
            elif place.sent or place.kill_ms < NO_DEADLINE:
                pause_ms = min(pause_ms, TICK_MS)
            elif not place.number and not self.is_closing:
                pause_ms = min(pause_ms, max(1.0, place.start_ms - now_ms))
        return pause_ms

    def _start(self, place: ProcessPlace) -> None:
        self._system.page.place(place.index).clear()
        place.number = self._system.start_process(place.index)
        self._by_number[place.number] = place

    # Work.

    def _fill(self) -> None:
        """Send waiting work to processes that are free, or will be soon."""
        if self._waiting:
            # The gate is asked under the lock that guards the taking back of tickets.
            with self.sending:
                self._send_all()

    def _send_all(self) -> None:
        frames: dict[ProcessPlace, list[ProcessJob]] = {}
        while self._waiting:
            place = self._free_place()
            if place is None:
                break
            job = self._waiting.popleft()
            if not self._begins(job):
                continue
            self._seq += 1
            job.seq, job.number = self._seq, place.number
            if not place.sent:
                place.head_ms = self._monotonic_ms()
            place.sent.append(job)
            frames.setdefault(place, []).append(job)
        for place, jobs in frames.items():
            seqs = [job.seq for job in jobs]
            self._system.send(place.number, seqs, b"".join(map(work_frame, jobs)))

    def _free_place(self) -> ProcessPlace | None:
        """Return the process that is free first; None if no process should get more work."""
        stuck_ms = self._monotonic_ms() - RECALLED_MS
        free = [
            each
            for each in self.places
            if each.is_ready
            and not (each.why or each.is_leaving or each.is_killed or each.is_silent)
            and (not each.sent or each.head_ms > stuck_ms)
        ]
        if not free:
            return None
        place = min(free, key=_sent_to)
        if not place.sent:
            return place
        if place.is_asked or self._system.page.lease_ends_ms <= self._monotonic_ms():
            return None
        ahead = min(AHEAD_MAX, int(AHEAD_MS / max(place.mean_ms, 0.01)))
        return place if len(place.sent) <= ahead else None

    def _begins(self, job: ProcessJob) -> bool:
        """Ask the gate, just before a process gets the job."""
        if not job.seq:
            members = []
            before: set[Attempt | None] = {None}
            for running in job.members:
                # An attempt that follows another needs that one in its batch, or it overtakes (P4).
                if running.attempt.follows in before and self._calls.may_begin(running):
                    members.append(running)
                    before.add(running.attempt)
                    end = partial(self._end_asked, job, running)
                    running.recall = partial(self._recall, job, running)
                    self._calls.registry.let_cancel(running, partial(self._post, end))
                else:
                    self._calls.refuse(running)
            job.members = members
        elif not all(self._calls.gate(each.attempt) for each in job.members):
            self._outcomes.refuse(job)
            return False
        else:
            for running in [each for each in job.members if each.withdrawn]:
                self._calls.refuse(running)
            job.members = [each for each in job.members if not each.withdrawn]
        if not job.members:
            job.close()
        return bool(job.members)

    def _end_asked(self, job: ProcessJob, running: RunningAttempt) -> None:
        """End the job of an attempt that was abandoned, or that a command asked to end."""
        if running.abandoned:
            self.end_attempts(job, "given up", at_once=True)
            return
        for place in self.places:
            if job in place.sent and job is not place.sent[0]:
                self._take_back(place)
        if job in self._waiting:
            self._waiting.remove(job)
            self._outcomes.refuse(job)
        else:
            self.end_attempts(job, "cancelled", at_once=False)

    def _take_back(self, place: ProcessPlace) -> None:
        """Take back the work that waits in a process behind the running one."""
        if not place.sent:
            return
        self._wait_again(place, self._system.take_back(place.number))

    def _wait_again(self, place: ProcessPlace, seqs: Collection[int]) -> None:
        for job in reversed([each for each in place.sent if each.seq in seqs]):
            place.sent.remove(job)
            job.number = 0
            self._waiting.appendleft(job)

    def _recall(self, job: ProcessJob, running: RunningAttempt) -> bool:
        """Withdraw an attempt, from any thread; return False if a process has begun it."""
        with self.sending:
            place = self._by_number.get(job.number)
            if place is not None:
                if self._system.page.place(place.index).seq == job.seq:
                    return False
                taken = self._system.take_back(job.number)
                if taken:
                    self._post(partial(self.took_back, taken))
                if job.seq not in taken:
                    return False
            running.withdrawn = True
            return True

    def _refuse_waiting(self, partitions: Collection[int]) -> None:
        waiting = tuple(self._waiting)
        self._waiting.clear()
        for job in waiting:
            if any(each.attempt.partition in partitions for each in job.members):
                self._outcomes.refuse(job)
            else:
                self._waiting.append(job)

    def _leave_if_full(self, place: ProcessPlace, memory_bytes: int) -> None:
        """Replace a process that has run its number of tasks, or uses too much memory."""
        tasks_max = self._settings.tasks_per_process_max
        bytes_max = self._settings.memory_bytes_per_process_max
        is_full = tasks_max is not None and place.tasks >= tasks_max
        if not is_full and (bytes_max is None or memory_bytes <= bytes_max):
            return
        place.is_leaving, place.leaves = True, "tasks" if is_full else "memory"
        self._take_back(place)
        if not place.sent:
            self._stop(place)

    def _stop(self, place: ProcessPlace) -> None:
        """Let an idle process end, and kill it if user code prevents its end."""
        place.is_leaving = True
        place.kill_ms = self._monotonic_ms() + self._settings.kill_grace_ms
        self._system.stop(place.number)

    def _lose(
        self, job: ProcessJob, ended: EndedProcess, why: str, executes_since_ms: int | None
    ) -> None:
        """End the work that had begun in a process that is gone, or try its tasks alone."""
        batches = None if job.batch is None else job.batch.batches
        alone = isinstance(batches, ProcessBatches) and batches.runs_again_alone
        if alone and len(job.members) > 1 and not why:
            self._run_alone(job)
        else:
            self._outcomes.lose(job, ended, why, executes_since_ms)

    def _run_alone(self, job: ProcessJob) -> None:
        """Run each task of a batch whose process died once more, alone."""
        left = [len(job.members)]

        def ended() -> None:
            left[0] -= 1
            if not left[0]:
                job.close()

        for running in reversed(job.members):
            assert job.batch is not None, "one attempt is alone"
            alone = ProcessJob((running,), job.batch._replace(members=(running,), ended=ended))
            # It has begun, and must not begin a second time.
            alone.seq = job.seq
            self._waiting.appendleft(alone)

    def _plan_restart(self, place: ProcessPlace, ended: EndedProcess, *, was_ready: bool) -> None:
        """Replace a process that is gone: at once, or later if it could never run."""
        if was_ready:
            place.start_ms = 0.0
            return
        place.failures += 1
        pause_ms = growing_pause_ms(place.failures, RESTART_MIN_MS, RESTART_MAX_MS, JITTER)
        place.start_ms = self._monotonic_ms() + pause_ms
        if not self.refusal:
            how = how_it_ended(ended)
            logger.error(
                "a process %s while it loaded user code; it is started again in %.1f s",
                how,
                pause_ms / 1000,
            )


def _sent_to(place: ProcessPlace) -> int:
    return len(place.sent)
