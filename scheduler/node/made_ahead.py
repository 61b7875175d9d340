"""The first stage of what a schedule makes ahead: the first attempt of an occurrence.

It was made before it was due, so it is known only now whether it overlaps with an earlier one.  An
occurrence that is on time finds all earlier ones ended, where its ordering id runs one task at a
time, and passes.  Decides which attempts a judge is asked about, never the answer.
"""

import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from functools import partial

from hourhand.actors.model.execution.attempts import AttemptEnded, Ending
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.instant import parse_instant
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.stages import Following

Judge = Callable[[StoredTask, int, int], "Future[str | None]"]
"""Gets a task that may overlap, its partition, and the wall time in milliseconds since which this
node owns that; answers why the task is left out, or None if it may run."""

LATE_MS = 50
"""An occurrence that starts within this time of its time, alone in its ordering id, overlaps with
nothing."""
_INSTANT_CHARS = len("2026-02-09T01:41:12.959Z")


def occurrence_ms(uniqueness_key: str) -> int | None:
    """Return the time that an occurrence stands for, by its uniqueness key ``name@time``; None for
    the key of another task.
    """
    if uniqueness_key[-1:] != "Z" or uniqueness_key[-_INSTANT_CHARS - 1 : -_INSTANT_CHARS] != "@":
        return None
    try:
        return parse_instant(uniqueness_key[-_INSTANT_CHARS:])
    except ValueError:
        return None


class MadeAhead:
    """The stage of attempts that a judge is asked about; nearly all pass."""

    def __init__(self, calls: Calls, following: Following) -> None:
        self._calls, self._following = calls, following
        self.judge: Judge | None = None
        """Set before the first attempt; without one all pass."""
        self.owned_since_ms: Callable[[int], float | None] = lambda _partition: None
        """Returns the monotonic time since which this node owns a partition."""
        self._lock = threading.Lock()
        self._judged: set[RunningAttempt] = set()

    def enter(self, attempts: Sequence[RunningAttempt]) -> None:
        """Hand attempts on; those of occurrences that may overlap once it is known that they may
        run.
        """
        if self.judge is not None:
            unsure = [each for each in attempts if self._may_overlap(each)]
            if unsure:
                attempts = [each for each in attempts if each not in unsure]
                for running in unsure:
                    self._ask(running, self.judge)
        self._following(attempts)

    def has_waiting(self, running: RunningAttempt) -> bool:
        """True if an attempt waits for its answer."""
        return running in self._judged

    def withdraw(self, running: RunningAttempt) -> bool:
        """Let an attempt wait no longer; return True if it did."""
        with self._lock:
            was_there = running in self._judged
            self._judged.discard(running)
        return was_there

    def drain(self, partitions: Collection[int] | None) -> None:
        """Refuse attempts that wait for an answer: all of them with None, after their tree
        failed.
        """
        with self._lock:
            ended = [
                each
                for each in self._judged
                if partitions is None or each.attempt.partition in partitions
            ]
            self._judged.difference_update(ended)
        for running in ended:
            if partitions is None:
                self._calls.registry.discard(running)
            self._calls.refuse(running)

    def _may_overlap(self, running: RunningAttempt) -> bool:
        task = running.attempt.task
        key = task.key.uniqueness_key
        # Asked for each task: nearly no key has this form.
        if key[-1:] != "Z" or task.attempts.last:
            return False
        due_ms = occurrence_ms(key)
        if due_ms is None:
            return False
        is_late = self._calls.clock.now_ms() - due_ms > LATE_MS
        return is_late or running.attempt.is_beside_others

    def _ask(self, running: RunningAttempt, judge: Judge) -> None:
        attempt, clock = running.attempt, self._calls.clock
        since_ms = self.owned_since_ms(attempt.partition)
        ago_ms = 0.0 if since_ms is None else clock.monotonic_ms() - since_ms
        with self._lock:
            self._judged.add(running)
        answer = judge(attempt.task, attempt.partition, round(clock.now_ms() - ago_ms))
        answer.add_done_callback(partial(self._take, running))

    def _take(self, running: RunningAttempt, answer: "Future[str | None]") -> None:
        with self._lock:
            if running not in self._judged:
                return
            self._judged.discard(running)
        if answer.exception() is not None:
            self._calls.refuse(running)
        elif (reason := answer.result()) is None:
            self._following([running])
        elif not self._calls.may_begin(running):
            self._calls.refuse(running)
        else:
            now_ms = self._calls.clock.now_ms()
            left_out = AttemptEnded(running.attempt, Ending.DROPPED, now_ms, now_ms, reason=reason)
            self._calls.end(running, left_out)
