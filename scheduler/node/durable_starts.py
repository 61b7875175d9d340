"""Makes the starts of overdue tasks durable, many at once, before workers take them.

Decides how many: as many as workers may take soon, because each of them is a suspect if the
process dies now.  Never runs anything.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial

from actors.model.attempts import Attempt, StartRecorder
from scheduler.node.attempts import RunningAttempt


class DurableStarts:
    """The overdue attempts of a node that no worker has taken; may be used from any thread."""

    def __init__(
        self,
        ready_max: int,
        *,
        gate: Callable[[Attempt], bool],
        submit: Callable[[Sequence[RunningAttempt]], None],
        refuse: Callable[[RunningAttempt], None],
    ) -> None:
        """At most ``ready_max`` attempts have a durable start, or soon will, and no worker.

        ``submit`` hands attempts to the workers, ``refuse`` ends one whose user code is not called.
        """
        self._ready_max = ready_max
        self._gate = gate
        self._submit = submit
        self._refuse = refuse
        self._lock = threading.Lock()
        self._waiting: deque[RunningAttempt] = deque()
        self._ready = 0

    @property
    def waiting(self) -> int:
        """How many attempts have no worker, and no durable start yet."""
        return len(self._waiting)

    def add(self, overdue: Iterable[RunningAttempt]) -> None:
        """Have the starts of these attempts made durable in their turn, then hand them on."""
        with self._lock:
            self._waiting.extend(overdue)
        self._record()

    def leave(self) -> None:
        """One that was handed on has a worker."""
        with self._lock:
            self._ready -= 1
            assert self._ready >= 0, "more leave than came"
        self._record()

    def _record(self) -> None:
        """Record as many as there is room for, once half of the room is free: in groups."""
        with self._lock:
            if not self._waiting or self._ready > self._ready_max // 2:
                return
            room = self._ready_max - self._ready
            taken = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
            self._ready += len(taken)
        groups: dict[StartRecorder, list[RunningAttempt]] = {}
        for running in taken:
            record_starts = running.attempt.record_starts
            assert record_starts is not None, "its start need not be durable"
            if running.withdrawn or not self._gate(running.attempt):
                self._refuse_one(running)
            else:
                groups.setdefault(record_starts, []).append(running)
        for record_starts, group in groups.items():
            recorded = record_starts([running.attempt for running in group])
            recorded.add_done_callback(partial(self._take_recorded, group))

    def _take_recorded(self, group: Sequence[RunningAttempt], recorded: "Future[None]") -> None:
        """Hand on what is durable; where the tree went away, its successor starts it again."""
        if recorded.cancelled() or recorded.exception() is not None:
            for running in group:
                self._refuse_one(running)
        else:
            self._submit(group)

    def _refuse_one(self, running: RunningAttempt) -> None:
        self._refuse(running)
        self.leave()
