"""The processes of a node: distributes work to them, and handles their ends.

Decides how much work is sent ahead, which work is taken back, when an attempt is asked to end and
when its process is killed.  The death of a process is the failure of the work that had begun in it,
and of no other.  Everything here happens on one thread, which never waits for a process; other
threads post calls to it.  Never looks into a task.
"""

import logging
import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from hourhand.actors.model.attempts import Attempt, AttemptEnded, Ending
from hourhand.actors.model.backoff import JITTER, growing_pause_ms
from hourhand.actors.model.errors import ProcessDied, ProcessTooLarge
from hourhand.actors.model.events import AttemptAbandoned, AttemptFailed
from hourhand.actors.model.settings import ExecutionSettings
from hourhand.actors.model.task import FRESH
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.endings import not_started
from hourhand.scheduler.node.process_ends import read_end, timed_out
from hourhand.scheduler.node.process_frames import (
    PIPE_LOST_CODE,
    Ended,
    EndedProcess,
    FrameBroken,
    FrameKind,
    SentAttempt,
    SentEnd,
    SentText,
    Work,
    frame,
)
from hourhand.scheduler.node.process_page import ProcessPage
from hourhand.scheduler.node.remote_errors import remote_error, signal_name
from hourhand.scheduler.node.silence import Silence
from hourhand.scheduler.node.stages import RunningBatch
from hourhand.scheduler.node.worker_watch import WorkerLoad
from hourhand.scheduler.ports.processes import ProcessBatches

logger = logging.getLogger("hourhand.processes")

AHEAD_MAX = 32
AHEAD_MS = 2.0
"""Most work, in milliseconds of short attempts, that waits in a process behind the running one."""
RECALLED_MS = 10.0
"""Work behind an attempt that takes longer than this is taken back."""
TOLD_MS = 50.0
"""The begin of an attempt is reported after this time, or with its end if that comes first."""
DRAINED_MS = 200.0
"""Processes are killed this long before the drain deadline: after it another node may begin."""
RESTART_MIN_MS, RESTART_MAX_MS = 100, 30_000
TICK_MS = 50.0
KILLED_AGAIN_MS = 1_000.0
SILENT_MS = 500.0
"""Longest wait for the end of a process that closed its pipe; then the process is killed."""
NO_DEADLINE = math.inf


class ProcessSystem(Protocol):
    """The calls of the system that the pool needs, on the pool's thread alone."""

    page: ProcessPage

    def start_process(self, place: int) -> int:
        """Begin to start a process; return its number, which no other one has."""

    def send(self, number: int, seqs: Sequence[int], frames: bytes) -> None:
        """Send work and a ticket for each, without waiting."""

    def take_back(self, number: int) -> Collection[int]:
        """Return the numbers of work that a process had not begun, and never will."""

    def ask(self, number: int) -> None:
        """Signal a process to end its work."""

    def kill(self, number: int) -> None:
        """End a process."""

    def stop(self, number: int) -> None:
        """Ask an idle process to end."""


class _Job:
    """An attempt, or a batch, on its way through a process."""

    __slots__ = ("batch", "is_told", "members", "number", "returned", "seq")

    def __init__(self, members: Sequence[RunningAttempt], batch: RunningBatch | None) -> None:
        self.members, self.batch = members, batch
        self.seq = 0
        """Number of its last sending; 0 before the first."""
        self.number = 0
        """Number of the process that has it; 0 for none."""
        self.is_told = False
        self.returned: dict[int, bytes] = {}
        """By place, the values of attempts whose ends are not told yet."""


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


@dataclass(eq=False)
class _Place:
    """A place for one process at a time."""

    index: int
    number: int = 0
    """Number of the process; 0 if there is none."""
    is_ready: bool = False
    sent: "deque[_Job]" = field(default_factory=deque)
    head_ms: float = 0.0
    """Monotonic time at which the first of ``sent`` began."""
    mean_ms: float = AHEAD_MS
    tasks: int = 0
    """Number of tasks that the process has run."""
    ended: int = 0
    """Attempts that have ended in the processes of this place."""
    why: str = ""
    """The reason why it is being killed; empty for none."""
    kill_ms: float = NO_DEADLINE
    is_asked: bool = False
    is_killed: bool = False
    is_silent: bool = False
    """True if its end of the pipe is closed."""
    drained_ms: float = NO_DEADLINE
    """Monotonic time at which its work must have ended: the partition goes to another owner."""
    is_leaving: bool = False
    """True if it gets no more work."""
    leaves: str = ""
    """The bound for which it leaves: ``tasks`` or ``memory``."""
    start_ms: float = 0.0
    """Monotonic time of its next start."""
    failures: int = 0
    """Failed starts in a row."""


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
        self._lease_ends_ms, self._post, self._judge = lease_ends_ms, post, judge
        self._drain_deadline_ms = drain_deadline_ms
        self._monotonic_ms = calls.clock.monotonic_ms
        self._silence = Silence(calls.silence_limits)
        self.places = [_Place(each) for each in range(places)]
        self._by_number: dict[int, _Place] = {}
        self._waiting: deque[_Job] = deque()
        self._deaths = Counter[str]()
        self._seq = 0
        self._submitted = 0
        self.sending = threading.Lock()
        """Held from the gate to the ticket."""
        self.is_closing = False
        self.refusal: str | None = None
        """The reason why user code cannot be loaded; None if it can."""

    # Calls posted by other threads, on the pool's thread.

    def enter(self, jobs: "Sequence[_Job]") -> None:
        """Run each job as soon as a process is free for it."""
        if self.is_closing:
            for job in jobs:
                self._refuse(job)
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
        """Number of processes whose attempts are so short that one more may wait in each."""
        return sum(each.mean_ms <= AHEAD_MS for each in self.places)

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

    def end_attempts(self, job: "_Job", why: str, *, at_once: bool) -> None:
        """End the attempts of a job that runs."""
        for place in self.places:
            if place.sent and place.sent[0] is job:
                self._end(place, why, at_once=at_once)

    def begin_close(self) -> None:
        """Give out no more work, and let the processes end."""
        self.is_closing = True
        for place in self.places:
            self._take_back(place)
            if place.number and not place.sent:
                self._stop(place)
            elif place.number:
                self._end(place, "closed", at_once=True)
        for job in tuple(self._waiting):
            self._refuse(job)
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
            self._kill(place, self._monotonic_ms())

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
        if place.why == "timeout":
            found = [timed_out(each) for each in found]
        now_ms = self._monotonic_ms()
        place.sent.popleft()
        place.mean_ms += ((now_ms - place.head_ms) - place.mean_ms) / 8
        place.head_ms = now_ms
        place.tasks += len(job.members)
        place.ended += len(job.members)
        self._forgive(place)
        for at, running in enumerate(job.members):
            self._tell_end(job, running, ends[at], found[at])
        self._close(job)
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
            self._deaths[_DEATHS.get(why) or leaves or _death_by_itself(ended)] += 1
        place.sent.clear()
        place.number, place.is_ready, place.tasks, place.leaves = 0, False, 0, ""
        place.is_killed = place.is_silent = place.is_leaving = False
        self._forgive(place)
        if not self.is_closing:
            self._plan_restart(place, ended, was_ready=was_ready)
        for job in reversed(jobs):
            job.number = 0
            if job.seq > begun_seq:
                self._waiting.appendleft(job)
            elif job is jobs[0] or why not in _PIPE_LOST:
                place.ended += len(job.members)
                self._lose(job, ended, why, words.executes_since_ms)
            else:
                # The end of the first work was not received: its code has used the pipe.
                self._abandon(job, "behind")

    def _forgive(self, place: _Place) -> None:
        """Cancel the kill of a process whose work has ended in time."""
        if not place.is_killed:
            place.why, place.is_asked = "", False
            place.kill_ms = place.drained_ms = NO_DEADLINE

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
        self._silence.look(now_ms)
        for place in self.places:
            if place.number and now_ms >= place.kill_ms:
                place.why = place.why or _why_late(place)
                self._kill(place, now_ms)
            elif place.sent:
                self._look(place, now_ms)
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

    def _start(self, place: _Place) -> None:
        self._system.page.place(place.index).clear()
        place.number = self._system.start_process(place.index)
        self._by_number[place.number] = place

    def _look(self, place: _Place, now_ms: float) -> None:
        """Check whether the running work takes long or too long, or must end."""
        job, words = place.sent[0], self._system.page.place(place.index)
        # Read in this order: work that has begun runs, or has ended.
        has_begun, runs = words.begun_seq >= job.seq, words.seq == job.seq
        if has_begun and not runs and place.kill_ms == NO_DEADLINE:
            # Its end is under way, unless user code wrote bytes to the pipe that swallow it.
            place.kill_ms = now_ms + SILENT_MS
        if now_ms - place.head_ms >= RECALLED_MS and len(place.sent) > 1:
            self._take_back(place)
        if runs and now_ms - words.begun_ms >= TOLD_MS:
            since_ms = words.executes_since_ms
            if since_ms is not None:
                self._tell_begin(job, since_ms)
        if runs and not place.is_asked and now_ms >= words.deadline_ms:
            self._end(place, "timeout", at_once=False)
        if runs and not place.is_asked:
            self._end_if_stuck(place, job, words.begun_ms, now_ms)
        if now_ms >= place.drained_ms - self._settings.kill_grace_ms and not place.is_asked:
            self._end(place, "drained", at_once=False)
        if now_ms >= place.drained_ms:
            self._kill(place, now_ms)

    def _end_if_stuck(self, place: _Place, job: _Job, begun_ms: float, now_ms: float) -> None:
        limit_ms = self._silence.stuck_ms(job.members, begun_ms, now_ms)
        if limit_ms is not None:
            for running in job.members:
                self._calls.stuck.add(running, limit_ms)
            self._end(place, "stuck", at_once=False)

    def _kill(self, place: _Place, now_ms: float) -> None:
        place.is_killed = True
        # Again, if the guardian was too busy.
        place.kill_ms = now_ms + KILLED_AGAIN_MS
        place.drained_ms = NO_DEADLINE
        self._system.kill(place.number)

    def _end(self, place: _Place, why: str, *, at_once: bool) -> None:
        """Ask the running work to end, and kill its process if it does not."""
        now_ms = self._monotonic_ms()
        self._take_back(place)
        grace_ms = 0 if at_once else self._settings.kill_grace_ms
        if not place.is_asked:
            place.is_asked = True
            self._system.page.place(place.index).ask(place.sent[0].seq if place.sent else 0)
            if not at_once:
                self._system.ask(place.number)
        place.why = place.why or why
        place.kill_ms = min(place.kill_ms, now_ms + grace_ms)
        if at_once:
            self._kill(place, now_ms)

    # Work.

    def _fill(self) -> None:
        """Send waiting work to processes that are free, or will be soon."""
        if self._waiting:
            # The gate is asked under the lock that guards the taking back of tickets.
            with self.sending:
                self._send_all()

    def _send_all(self) -> None:
        frames: dict[_Place, list[_Job]] = {}
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
            self._system.send(place.number, seqs, b"".join(map(_work_frame, jobs)))

    def _free_place(self) -> _Place | None:
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

    def _begins(self, job: _Job) -> bool:
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
            self._refuse(job)
            return False
        else:
            for running in [each for each in job.members if each.withdrawn]:
                self._calls.refuse(running)
            job.members = [each for each in job.members if not each.withdrawn]
        if not job.members:
            self._close(job)
        return bool(job.members)

    def _end_asked(self, job: _Job, running: RunningAttempt) -> None:
        """End the job of an attempt that was abandoned, or that a command asked to end."""
        if running.abandoned:
            self.end_attempts(job, "given up", at_once=True)
            return
        for place in self.places:
            if job in place.sent and job is not place.sent[0]:
                self._take_back(place)
        if job in self._waiting:
            self._waiting.remove(job)
            self._refuse(job)
        else:
            self.end_attempts(job, "cancelled", at_once=False)

    def _take_back(self, place: _Place) -> None:
        """Take back the work that waits in a process behind the running one."""
        if not place.sent:
            return
        self._wait_again(place, self._system.take_back(place.number))

    def _wait_again(self, place: _Place, seqs: Collection[int]) -> None:
        for job in reversed([each for each in place.sent if each.seq in seqs]):
            place.sent.remove(job)
            job.number = 0
            self._waiting.appendleft(job)

    def _recall(self, job: _Job, running: RunningAttempt) -> bool:
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
                self._refuse(job)
            else:
                self._waiting.append(job)

    def _refuse(self, job: _Job) -> None:
        for running in job.members:
            self._calls.refuse(running)
        self._close(job)

    def _close(self, job: _Job) -> None:
        if job.batch is not None:
            job.batch.ended()

    def _leave_if_full(self, place: _Place, memory_bytes: int) -> None:
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

    def _stop(self, place: _Place) -> None:
        """Let an idle process end, and kill it if user code prevents its end."""
        place.is_leaving = True
        place.kill_ms = self._monotonic_ms() + self._settings.kill_grace_ms
        self._system.stop(place.number)

    # Ends.

    def _tell_begin(self, job: _Job, started_ms: int) -> None:
        if not job.is_told:
            job.is_told = True
            for running in job.members:
                self._calls.begin(running, started_ms)

    def _tell_end(
        self, job: _Job, running: RunningAttempt, end: SentEnd, ended: AttemptEnded
    ) -> None:
        calls = self._calls
        if end.is_begun and not job.is_told:
            calls.begin(running, ended.started_ms)
        if ended.ending is Ending.FAILED and running in calls.stuck:
            # An error that it raised as it was asked to end does not say what was wrong.
            error = remote_error(ended.error_class, ended.error_message)
            self._judge(partial(self._fail_one, running, error, Ending.FAILED, ended.started_ms))
            return
        failure = end.failed
        is_given_up = running.abandoned and running.cancel is not None
        cancelled = is_given_up or running.interrupted
        if failure is not None and failure.is_told and not cancelled:
            attempt = running.attempt
            error = remote_error(ended.error_class, ended.error_message)
            calls.telemetry.emit(
                AttemptFailed(
                    attempt.partition,
                    attempt.task.key,
                    attempt.number,
                    ended.result,
                    ended.finished_ms - ended.started_ms,
                    error,
                    failure.is_showable,
                    ended.error_stack if failure.is_showable and failure.has_whole_stack else None,
                    attempt.task.kind,
                )
            )
        calls.end(running, ended)

    def _lose(
        self, job: _Job, ended: EndedProcess, why: str, executes_since_ms: int | None
    ) -> None:
        """End the work that had begun in a process that is gone."""
        if why in _UNCOUNTED:
            self._abandon(job, why)
            return
        batches = None if job.batch is None else job.batch.batches
        alone = isinstance(batches, ProcessBatches) and batches.runs_again_alone
        if alone and len(job.members) > 1 and not why:
            self._run_alone(job)
            return
        # User code runs before ``execute`` too: executors are made, and policies are asked.
        started_ms = executes_since_ms or self._calls.clock.now_ms()
        self._tell_begin(job, started_ms)
        error, ending = _error_of(ended, why, self._settings)
        self._judge(partial(self._fail, job, error, ending, started_ms))

    def _fail(self, job: _Job, error: BaseException, ending: Ending, started_ms: int) -> None:
        """End the attempts of a job; the policy of their kind, which is user code, is asked."""
        for running in job.members:
            self._fail_one(running, error, ending, started_ms)
        self._close(job)

    def _fail_one(
        self, running: RunningAttempt, error: BaseException, ending: Ending, started_ms: int
    ) -> None:
        try:
            ended = self._calls.failed(running, error, started_ms, ending)
        except BaseException as broken:  # noqa: BLE001 - as for a thread
            ended = self._calls.broken_off(running, broken)
        self._calls.end(running, ended)

    def _abandon(self, job: _Job, why: str) -> None:
        """End work that was killed for another reason than its own fault: it is started again."""
        for running in job.members:
            attempt = running.attempt
            text = _UNCOUNTED.get(why, "its process ended before user code was called")
            if not running.abandoned:
                self._calls.telemetry.emit(
                    AttemptAbandoned(attempt.partition, attempt.task.key, attempt.number, text)
                )
            self._calls.end(running, not_started(attempt, self._calls.clock.now_ms()))
        self._close(job)

    def _run_alone(self, job: _Job) -> None:
        """Run each task of a batch whose process died once more, alone."""
        left = [len(job.members)]

        def ended() -> None:
            left[0] -= 1
            if not left[0]:
                self._close(job)

        for running in reversed(job.members):
            assert job.batch is not None, "one attempt is alone"
            alone = _Job((running,), job.batch._replace(members=(running,), ended=ended))
            # It has begun, and must not begin a second time.
            alone.seq = job.seq
            self._waiting.appendleft(alone)

    def _plan_restart(self, place: _Place, ended: EndedProcess, *, was_ready: bool) -> None:
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


_UNCOUNTED = {
    "lease": "its process was killed, as the node's lease had ended",
    "given up": "its process was killed, as the partition goes to another node",
    "drained": "its process was killed just before the drain deadline",
    "closed": "its process was killed, as the node stops",
    "guardian": "its process was killed with the process that watches it",
    "behind": "its process was killed for what the attempt before it wrote into the pipe",
}
"""Reasons for a kill that are not the fault of the work."""


_DEATHS = {
    "timeout": "deadline",
    "stuck": "stuck",
    "memory": "memory",
    "cancelled": "cancelled",
    "broken": "pipe",
    "silent": "pipe",
    "guardian": "guardian",
    "lease": "lease",
    "given up": "lease",
    "drained": "lease",
}
"""The words of ``PROCESS_DEATHS`` for what a process was killed for."""


def _death_by_itself(ended: EndedProcess) -> str:
    if ended.code == PIPE_LOST_CODE:
        return "pipe"
    return "signal" if ended.signal else "exit"


def job_of(running: RunningAttempt) -> _Job:
    """Return the job for an attempt."""
    return _Job((running,), None)


def job_of_batch(batch: RunningBatch) -> _Job:
    """Return the job for a batch."""
    return _Job(batch.members, batch)


def _sent_to(place: _Place) -> int:
    return len(place.sent)


def _why_late(place: _Place) -> str:
    """Return the reason for the kill of a process that has not ended, or not reported, in time."""
    if place.is_silent:
        return "silent"
    return "broken" if place.sent else "closed"


def _work_frame(job: _Job) -> bytes:
    batch = job.batch is not None
    if not batch:
        return frame(FrameKind.WORK, Work(job.seq, (_sent(job.members[0], None),)))
    places = {id(each.attempt): at for at, each in enumerate(job.members)}
    sent = []
    for running in job.members:
        follows = running.attempt.follows
        sent.append(_sent(running, None if follows is None else places.get(id(follows), -1)))
    return frame(FrameKind.WORK, Work(job.seq, sent, is_batch=True))


def _sent(running: RunningAttempt, follows: int | None) -> SentAttempt:
    attempt = running.attempt
    task = attempt.task
    key = task.key
    return SentAttempt(
        key.scheduled_ms,
        key.ordering_id,
        key.uniqueness_key,
        task.body,
        task.offset,
        None if task.attempts is FRESH else task.attempts,
        attempt.partition,
        attempt.epoch,
        attempt.number,
        attempt.timeout_ms,
        attempt.is_unordered,
        follows,
        attempt.expires_ms,
    )


def how_it_ended(ended: EndedProcess) -> str:
    """Return a text about the end of a process, such as ``a process was killed by SIGSEGV``."""
    if ended.signal:
        return f"was killed by {signal_name(ended.signal)}"
    return f"ended with exit code {ended.code}"


def _error_of(
    ended: EndedProcess, why: str, settings: ExecutionSettings
) -> tuple[BaseException, Ending]:
    """Return the error and the ending of an attempt whose process is gone."""
    if why == "timeout":
        text = "it ran past its timeout, and its process was killed"
        if settings.kill_grace_ms:
            text += f" {settings.kill_grace_ms} ms later (tree.execution.kill_grace_ms)"
        return TimeoutError(text), Ending.TIMED_OUT
    if why == "memory":
        most = settings.memory_bytes_per_process_max
        text = (
            f"its process held {ended.memory_bytes} bytes of memory, at most {most} are allowed"
            " (tree.execution.memory_bytes_per_process_max), and was killed"
        )
        return ProcessTooLarge(text), Ending.FAILED
    if why in {"cancelled", "stuck"}:
        text = f"it was asked to end, and its process killed {settings.kill_grace_ms} ms later"
        return ProcessDied(f"{text} (tree.execution.kill_grace_ms)"), Ending.FAILED
    if why in _PIPE_LOST or ended.code == PIPE_LOST_CODE:
        text = _PIPE_LOST.get(why, "its process could not reach its node any more and ended")
        return ProcessDied(f"{text}: close no descriptors that you did not open"), Ending.FAILED
    hint = ""
    if ended.signal == _KILL:
        hint = ": if nobody did that, the machine or its container has run out of memory"
    return ProcessDied(f"its process {how_it_ended(ended)}{hint}"), Ending.FAILED


_KILL = 9
_PIPE_LOST = {
    "broken": "its process wrote into the pipe to its node, and was killed",
    "silent": "its process closed the pipe to its node, and was killed",
}
