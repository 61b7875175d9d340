"""Gathers attempts into batches; the tasks of a batch begin together.

Decides when a batch is full or has waited long enough, and how many batches run at once.  Runs no
attempt.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial

from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.stages import Following, RunningBatch
from hourhand.scheduler.ports.batches import Batches, InBatches


class _Gathered:
    """The waiting attempts of one kind."""

    __slots__ = ("go_ms", "running", "timer", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[RunningAttempt] = deque()
        self.go_ms: deque[float] = deque()
        """For each of them the latest monotonic time at which its batch begins."""
        self.running = 0
        self.timer: Callable[[], object] | None = None
        """Cancels the timer for the first of them."""


class BatchGathering:
    """The stage of attempts that run in batches; the others pass it."""

    def __init__(
        self,
        *,
        monotonic_ms: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], Callable[[], object]],
        run_batch: Callable[[RunningBatch], None],
        following: Following,
    ) -> None:
        """``call_later`` returns a function that cancels the call."""
        self._monotonic_ms = monotonic_ms
        self._call_later = call_later
        self._run_batch = run_batch
        self._following = following
        self._lock = threading.Lock()
        self._gathered: dict[Batches, _Gathered] = {}

    def enter(self, attempts: Sequence[RunningAttempt]) -> None:
        """Let attempts wait for their batch, if they run in one; a suspect runs alone."""
        batched: dict[Batches, list[RunningAttempt]] = {}
        passed: list[RunningAttempt] = []
        for running in attempts:
            executor, attempt = running.executor, running.attempt
            if not isinstance(executor, InBatches) or attempt.suspect or attempt.was_given_up:
                passed.append(running)
            else:
                batched.setdefault(executor.batches, []).append(running)
        if passed:
            self._following(passed)
        for batches, members in batched.items():
            self._add(batches, members)

    def drain(self, partitions: Collection[int] | None) -> None:
        """Run the waiting attempts of partitions that go to another owner at once."""
        if partitions is not None:
            self._hurry(lambda running: running.attempt.partition in partitions)

    def hurry(self) -> bool:
        """Run all waiting attempts at once, as no further ones will come; return True if there were
        any.
        """
        return self._hurry(lambda _: True)

    def _hurry(self, leaves: Callable[[RunningAttempt], bool]) -> bool:
        now_ms, hurried = self._monotonic_ms(), False
        for batches, gathered in tuple(self._gathered.items()):
            with self._lock:
                if any(map(leaves, gathered.waiting)):
                    gathered.go_ms = deque([now_ms] * len(gathered.waiting))
                    hurried = True
            self._look(batches)
        return hurried

    def _add(self, batches: Batches, running: Sequence[RunningAttempt]) -> None:
        go_ms = self._monotonic_ms() + batches.limits.wait_ms
        with self._lock:
            gathered = self._gathered.get(batches)
            if gathered is None:
                gathered = self._gathered[batches] = _Gathered()
            gathered.waiting.extend(running)
            gathered.go_ms.extend([go_ms] * len(running))
        self._look(batches)

    def _end(self, batches: Batches) -> None:
        """Count a batch that has ended; another one may begin."""
        with self._lock:
            gathered = self._gathered[batches]
            gathered.running -= 1
            assert gathered.running >= 0, "a batch ends once"
        self._look(batches)

    def _time_is_up(self, batches: Batches) -> None:
        with self._lock:
            self._gathered[batches].timer = None
        self._look(batches)

    def _look(self, batches: Batches) -> None:
        limits, now_ms = batches.limits, self._monotonic_ms()
        ready: list[Sequence[RunningAttempt]] = []
        with self._lock:
            gathered = self._gathered[batches]
            waiting = gathered.waiting
            while waiting and gathered.running < limits.batches_max:
                left_ms = gathered.go_ms[0] - now_ms
                if len(waiting) < limits.tasks_max and left_ms > 0:
                    if gathered.timer is None:
                        time_is_up = partial(self._time_is_up, batches)
                        gathered.timer = self._call_later(left_ms, time_is_up)
                    break
                count = min(len(waiting), limits.tasks_max)
                ready.append([waiting.popleft() for _ in range(count)])
                for _ in range(count):
                    gathered.go_ms.popleft()
                gathered.running += 1
            if not waiting and gathered.timer is not None:
                gathered.timer()
                gathered.timer = None
        for members in ready:
            self._run_batch(RunningBatch(batches, members, partial(self._end, batches)))
