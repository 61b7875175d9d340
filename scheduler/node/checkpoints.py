"""Checkpoints of running attempts: the newest of each attempt goes to the tree, at most once a
second.

Decides when a checkpoint is handed over.  Never writes one, and never waits: code that makes a
checkpoint continues at once, however slow the store is.
"""

import math
import threading
from collections.abc import Callable, Sequence
from functools import partial

from hourhand.actors.model.execution.attempts import CheckpointMade
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.runner import CheckpointListener
from hourhand.scheduler.node.attempts import MadeCheckpoints, RunningAttempt

EVERY_MS = 1_000
"""Milliseconds between two hand-overs of checkpoints."""


class NodeCheckpoints:
    """Implements ``attempts.CheckpointDesk``; used from any thread."""

    def __init__(
        self,
        clock: Clock,
        call_later: Callable[[float, Callable[[], object]], object],
        every_ms: float = EVERY_MS,
    ) -> None:
        """``call_later`` calls a function after some milliseconds, in a thread of the node."""
        self._every_ms = every_ms
        self._clock = clock
        self._call_later = call_later
        self._lock = threading.Lock()
        self._waiting: dict[RunningAttempt, None] = {}
        """Attempts with a checkpoint that no listener has received yet."""
        self._listeners: dict[int, CheckpointListener] = {}
        self._handed_over_ms = -math.inf
        self._is_called = False

    def take(self, running: RunningAttempt, text: bytes) -> None:
        """Note the newest checkpoint of an attempt, unless the attempt has ended."""
        attempt, now_ms = running.attempt, self._clock.monotonic_ms()
        checkpoint = TaskCheckpoint(
            attempt.task.key, attempt.number, self._clock.now_ms(), text, attempt.epoch
        )
        with running.lock:
            if running.ended is not None:
                return
            made = running.checkpoints
            if made is None:
                made = running.checkpoints = MadeCheckpoints(checkpoint, now_ms)
            made.newest, made.made_monotonic_ms = checkpoint, now_ms
            is_asked = made.asked is not None
        if not is_asked:
            self._await_turn(running)

    def tell(
        self, partition: int, listener: CheckpointListener, running: Sequence[RunningAttempt]
    ) -> None:
        """Report a partition's checkpoints to a listener from now on, including those that running
        attempts have made: the listener before may be gone.
        """
        self._listeners[partition] = listener
        for each in running:
            with each.lock:
                made = each.checkpoints
                if made is not None:
                    made.asked = None
            if made is not None:
                self._await_turn(each)

    def _await_turn(self, running: RunningAttempt) -> None:
        with self._lock:
            self._waiting[running] = None
            if self._is_called:
                return
            self._is_called = True
            wait_ms = self._handed_over_ms + self._every_ms - self._clock.monotonic_ms()
        self._call_later(max(0.0, wait_ms), self._hand_over)

    def _hand_over(self) -> None:
        with self._lock:
            self._is_called = False
            self._handed_over_ms = self._clock.monotonic_ms()
            waiting, self._waiting = self._waiting, {}
        for running in waiting:
            self._tell(running)

    def _tell(self, running: RunningAttempt) -> None:
        listener = self._listeners.get(running.attempt.partition)
        with running.lock:
            made = running.checkpoints
            # An abandoned attempt is of a task of another owner; an adopter asks again.
            if made is None or listener is None or running.abandoned or running.ended is not None:
                return
            newest = made.newest
            if made.asked is not None or newest is made.durable:
                return
            made.asked = newest
        listener(CheckpointMade(running.attempt, newest, partial(self._answer, running, newest)))

    def _answer(
        self, running: RunningAttempt, asked: TaskCheckpoint, error: BaseException | None
    ) -> None:
        with running.lock:
            made = running.checkpoints
            if made is None or made.asked is not asked:
                return
            made.asked = None
            if error is None:
                made.durable = asked
            is_over = running.ended is not None or made.newest is made.durable
        if not is_over:
            self._await_turn(running)
