"""The times of work in processes: when it is asked to end, and when its process is killed.

Decides by the shared page, the timeout, ``stuck_after`` and the drain deadline. Never decides what
an end counts for.
"""

from collections.abc import Callable

from hourhand.actors.model.values.settings import ExecutionSettings
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.processes.process_outcomes import ProcessOutcomes
from hourhand.scheduler.node.processes.process_place import NO_DEADLINE, ProcessJob, ProcessPlace
from hourhand.scheduler.node.processes.process_system import ProcessSystem
from hourhand.scheduler.node.silence import Silence

RECALLED_MS = 10.0
"""Work behind an attempt that takes longer than this is taken back."""
TOLD_MS = 50.0
"""The begin of an attempt is reported after this time, or with its end if that comes first."""
KILLED_AGAIN_MS = 1_000.0
SILENT_MS = 500.0
"""Longest wait for the end of a process that closed its pipe; then the process is killed."""


class ProcessDeadlines:
    """Asks and kills the processes of one node."""

    def __init__(
        self,
        calls: Calls,
        settings: ExecutionSettings,
        system: ProcessSystem,
        outcomes: ProcessOutcomes,
        take_back: Callable[[ProcessPlace], object],
    ) -> None:
        """``take_back`` queues the work again that waits in a process behind the running one."""
        self._calls, self._settings, self._system = calls, settings, system
        self._outcomes, self._take_back = outcomes, take_back
        self._monotonic_ms = calls.clock.monotonic_ms
        self._silence = Silence(calls.silence_limits)

    def begin_look(self, now_ms: float) -> None:
        """Note that all places are looked at now: a node that stood still ends nothing as stuck."""
        self._silence.look(now_ms)

    def look(self, place: ProcessPlace, now_ms: float) -> None:
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
                self._outcomes.tell_begin(job, since_ms)
        if runs and not place.is_asked and now_ms >= words.deadline_ms:
            self.end(place, "timeout", at_once=False)
        if runs and not place.is_asked:
            self._end_if_stuck(place, job, words.begun_ms, now_ms)
        if now_ms >= place.drained_ms - self._settings.kill_grace_ms and not place.is_asked:
            self.end(place, "drained", at_once=False)
        if now_ms >= place.drained_ms:
            self.kill(place, now_ms)

    def _end_if_stuck(
        self, place: ProcessPlace, job: ProcessJob, begun_ms: float, now_ms: float
    ) -> None:
        limit_ms = self._silence.stuck_ms(job.members, begun_ms, now_ms)
        if limit_ms is not None:
            for running in job.members:
                self._calls.stuck.add(running, limit_ms)
            self.end(place, "stuck", at_once=False)

    def kill(self, place: ProcessPlace, now_ms: float) -> None:
        """Have the guardian kill a process."""
        place.is_killed = True
        # Again, if the guardian was too busy.
        place.kill_ms = now_ms + KILLED_AGAIN_MS
        place.drained_ms = NO_DEADLINE
        self._system.kill(place.number)

    def end(self, place: ProcessPlace, why: str, *, at_once: bool) -> None:
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
            self.kill(place, now_ms)

    @staticmethod
    def forgive(place: ProcessPlace) -> None:
        """Cancel the kill of a process whose work has ended in time."""
        if not place.is_killed:
            place.why, place.is_asked = "", False
            place.kill_ms = place.drained_ms = NO_DEADLINE

    def kill_late(self, place: ProcessPlace, now_ms: float) -> None:
        """Kill a process that has not ended, or not reported, in time."""
        place.why = place.why or _why_late(place)
        self.kill(place, now_ms)


def _why_late(place: ProcessPlace) -> str:
    """Return the reason for the kill of a process that has not ended, or not reported, in time."""
    if place.is_silent:
        return "silent"
    return "broken" if place.sent else "closed"
