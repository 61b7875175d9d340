"""The attempts in threads and coroutines whose code does not return, as a test scripts.

A coroutine ends where a node cancels it; a thread ends never, and is told of as on a node.  Decides
when that happens by the virtual clock, and nothing about which attempts hang.
"""

import math
from asyncio import CancelledError
from collections.abc import Collection, Sequence
from functools import partial

from hourhand.actors.model.execution.attempts import Ending
from hourhand.actors.model.execution.executor_attributes import timeout_ms_of
from hourhand.actors.model.operations.events import AttemptStuck
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Begun, Calls
from hourhand.scheduler.node.silence import LOOKED_EVERY_MS, STOOD_STILL_MS, SilenceWatch
from hourhand.scheduler.node.stages import RunningBatch
from hourhand.scheduler.runtime.user_code import runs_async
from hourhand.scheduler.testing.scripted import Scripts

_LOOKS_APART_MS = STOOD_STILL_MS / 2
"""A node that does not look for longer is taken for one that stood still."""


class _Hang:
    """Attempts that hang together: one, or those of a batch."""

    def __init__(self, begun: Begun, batch: RunningBatch | None) -> None:
        self.begun, self.batch = begun, batch
        self.asked = set[int]()
        """Places of the attempts that were cancelled."""
        self.deadline_ms: float | None = None
        """Monotonic time at which they pass their timeout, until they have."""
        self.is_async = (
            runs_async(self.members[0].executor) if batch is None else batch.batches.runs_async
        )

    @property
    def members(self) -> Sequence[RunningAttempt]:
        return [running for running, _ in self.begun]

    @property
    def is_cancelled(self) -> bool:
        return len(self.asked) == len(self.begun)


class HangingAttempts:
    """The attempts of one virtual node that hang, in threads and coroutines."""

    def __init__(self, calls: Calls, scripts: Scripts) -> None:
        self._calls, self._scripts = calls, scripts
        self._hangs: list[_Hang] = []
        self._looked_ms = 0.0
        self._watch = SilenceWatch(
            *(calls.registry, calls.stuck, calls.silence_limits), self._blocking, calls.clock
        )

    def __bool__(self) -> bool:
        return bool(self._hangs)

    def take(self, begun: Begun, batch: RunningBatch | None = None) -> bool:
        """Have attempts that began hang, if a script says so; False if none does."""
        tasks = [running.attempt.task for running, _ in begun]
        script = self._scripts.find(tasks, in_process=False)
        if script is None:
            return False
        script.use()
        hang, first = _Hang(begun, batch), begun[0][0]
        try:
            timeout_ms = timeout_ms_of(first.executor, first.attempt.timeout_ms)
        except BaseException as error:  # noqa: BLE001 - reading it is user code
            self._end(hang, error, Ending.FAILED)
            return True
        if timeout_ms is not None:
            hang.deadline_ms = self._calls.clock.monotonic_ms() + timeout_ms
        self._hangs.append(hang)
        if hang.is_async:
            for number, running in enumerate(hang.members):
                running.task = hang
                self._calls.registry.let_cancel(running, partial(hang.asked.add, number))
        return True

    def run_one(self) -> bool:
        """End one of them, or tell of one, if that is due; return False if nothing is."""
        now_ms = self._calls.clock.monotonic_ms()
        for hang in tuple(self._hangs):
            if hang.is_cancelled:
                self._end(hang, CancelledError(), Ending.FAILED)
                return True
            if hang.deadline_ms is not None and hang.deadline_ms <= now_ms:
                self._pass_timeout(hang)
                return True
        if self._look_ms() <= now_ms:
            self._looked_ms = now_ms
            self._watch.look()
            return True
        return False

    def next_ms(self) -> float | None:
        """Return the monotonic time at which something is due; None for never."""
        times = [each.deadline_ms for each in self._hangs if each.deadline_ms is not None]
        if any(each.is_cancelled for each in self._hangs):
            times.append(self._calls.clock.monotonic_ms())
        first_ms = min([*times, self._look_ms()])
        return None if first_ms == math.inf else first_ms

    def _look_ms(self) -> float:
        """Return when silence has to be looked at; infinity where nothing can be stuck."""
        next_ms = self._looked_ms + _LOOKS_APART_MS
        first_ms = min(map(self._stuck_ms, self._hangs), default=math.inf)
        if first_ms == math.inf:
            return math.inf
        first_ms = max(first_ms, self._looked_ms + LOOKED_EVERY_MS)
        return first_ms if first_ms <= next_ms + LOOKED_EVERY_MS else next_ms

    def _stuck_ms(self, hang: _Hang) -> float:
        """Return when an attempt will be stuck; infinity if it may hang, or is told of."""
        first = hang.members[0]
        limit_ms, begun_ms = (
            self._calls.silence_limits.of(first.attempt),
            first.started_monotonic_ms,
        )
        is_over = first in self._calls.stuck or first.abandoned or first.interrupted
        if limit_ms is None or begun_ms is None or is_over:
            return math.inf
        return begun_ms + limit_ms

    def _blocking(self) -> Collection[Sequence[RunningAttempt]]:
        return [
            each.members for each in self._hangs if each.batch is not None and not each.is_async
        ]

    def _pass_timeout(self, hang: _Hang) -> None:
        hang.deadline_ms = None
        if hang.is_async:
            self._end(hang, TimeoutError(), Ending.TIMED_OUT)
            return
        for running in hang.members:
            attempt = running.attempt
            limit_ms = timeout_ms_of(running.executor, attempt.timeout_ms) or 0
            event = AttemptStuck(attempt.partition, attempt.task.key, "timeout", limit_ms)
            self._calls.telemetry.emit(event)

    def _end(self, hang: _Hang, error: BaseException, ending: Ending) -> None:
        if hang in self._hangs:
            self._hangs.remove(hang)
        for running, started_ms in hang.begun:
            self._calls.end(running, self._calls.failed(running, error, started_ms, ending))
        if hang.batch is not None:
            hang.batch.ended()
