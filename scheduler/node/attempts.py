"""The running attempts of a node: the stage of each one, and the listener that hears of its end.

Decides nothing about threads or time, and nothing about the meaning of an end.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, Protocol

from msgspec.structs import replace

from hourhand.actors.model.execution.attempts import Attempt, AttemptEnded, Ending
from hourhand.actors.model.execution.interruption import ask_to_end, forget_asked
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.ports.runner import AttemptListener, Executable
from hourhand.scheduler.node.endings import cancelled, not_started

_CANCELLED = frozenset({Ending.FAILED, Ending.TIMED_OUT})
"""Possible endings of code that was cancelled from outside; they say nothing about the task."""


class LimitStage(Protocol):
    """The stage of limits, which counts begins and ends of the attempts that it let through."""

    def use(self, running: "RunningAttempt", now_ms: float) -> None:
        """Count the begin of an attempt's user code, at a monotonic time."""

    def end(self, running: "RunningAttempt") -> None:
        """Count an attempt that was handed on and has ended, or never begins."""


class CheckpointDesk(Protocol):
    """Receives checkpoints of running attempts, and makes them durable."""

    def take(self, running: "RunningAttempt", text: bytes) -> None:
        """Note the newest checkpoint of an attempt; from any thread."""


class MadeCheckpoints:
    """The checkpoints of one attempt, guarded by its lock."""

    __slots__ = ("asked", "durable", "made_monotonic_ms", "newest")

    def __init__(self, newest: TaskCheckpoint, now_ms: float) -> None:
        self.newest = newest
        self.made_monotonic_ms = now_ms
        self.asked: TaskCheckpoint | None = None
        """The checkpoint that a listener has received and has not answered."""
        self.durable: TaskCheckpoint | None = None
        """The last checkpoint that is known to be durable."""


class Room(Protocol):
    """A bounded number of places that attempts wait for."""

    def release(self) -> None:
        """Release the place of an attempt that was handed on."""


class RunningAttempt:
    """One attempt between its start and the settling of its outcome."""

    __slots__ = (
        "abandoned",
        "allowances",
        "attempt",
        "cancel",
        "checkpoints",
        "desk",
        "ended",
        "executor",
        "freed",
        "interrupted",
        "limited_ms",
        "limiter",
        "listener",
        "lock",
        "recall",
        "started_monotonic_ms",
        "starts",
        "task",
        "withdrawn",
    )

    def __init__(
        self,
        attempt: Attempt,
        executor: Executable,
        listener: AttemptListener | None,
        desk: CheckpointDesk | None = None,
    ) -> None:
        self.attempt = attempt
        self.executor = executor
        self.listener = listener
        self.lock = threading.Lock()
        """Guards the listener and all attributes below; no other lock is taken under it."""
        self.ended: AttemptEnded | None = None
        self.started_monotonic_ms: float | None = None
        self.limiter: LimitStage | None = None
        """The stage of limits, if a limit let the attempt through; None otherwise."""
        self.allowances: Sequence[Any] = ()
        """The allowances that the attempt has taken; only the stage of limits reads them."""
        self.starts: Room | None = None
        """The room in which the attempt has a place from its durable start to its begin."""
        self.freed: Callable[[], object] | None = None
        """Called at its end, if others wait for its place."""
        self.limited_ms = 0
        """Milliseconds that it waited because of a limit."""
        self.abandoned = False
        self.interrupted = False
        """A command has asked its running user code to end."""
        self.withdrawn = False
        self.cancel: Callable[[], object] | None = None
        """Cancels an async attempt; None for a blocking one."""
        self.recall: Callable[[], bool] | None = None
        """Tries to take back an attempt that counts as begun and whose user code was not called;
        returns True if it could.  None for an attempt that begins with its user code."""
        self.task: object = None
        """The task of the event loop that runs the attempt or its batch."""
        self.desk = desk
        self.checkpoints: MadeCheckpoints | None = None
        """Its checkpoints; None for most attempts, which make none."""

    # The interface for user code (``AttemptCheckpoints``).

    @property
    def found(self) -> bytes | None:
        """The text of the newest checkpoint of earlier attempts."""
        checkpoint = self.attempt.task.attempts.checkpoint
        return None if checkpoint is None else checkpoint.body

    @property
    def snoozed(self) -> int:
        """Times that the attempt was snoozed so far."""
        return self.attempt.task.attempts.snoozed

    def make(self, text: bytes) -> None:
        """Take the text of a checkpoint, unless the attempt has ended."""
        if self.desk is not None:
            self.desk.take(self, text)


class AttemptRegistry:
    """The attempts of a node by partition and place; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards only the places.  Begins and ends of attempts do not take it: all workers would
        wait in turn for it and for the interpreter's lock."""
        self._running: defaultdict[int, dict[str | TaskKey, RunningAttempt]] = defaultdict(dict)
        """By partition, then by the place of the attempt."""
        self.desk: CheckpointDesk | None = None
        """Receives the checkpoints of attempts that are added from now on."""

    def add(
        self, starts: Sequence[tuple[Attempt, Executable]], listener: AttemptListener
    ) -> Sequence[RunningAttempt]:
        """Register attempts; their places must be free (P3)."""
        desk = self.desk
        added = [RunningAttempt(attempt, executor, listener, desk) for attempt, executor in starts]
        with self._lock:
            for running in added:
                attempt = running.attempt
                attempts = self._running[attempt.partition]
                if attempts.setdefault(attempt.place, running) is not running:
                    text = f"an attempt of {attempt.task.key} is still running here"
                    raise AssertionError(text)
        return added

    def find(self, attempt: Attempt) -> RunningAttempt | None:
        """Return the record of an attempt, unless it is settled."""
        running = self._running[attempt.partition].get(attempt.place)
        return running if running is not None and running.attempt is attempt else None

    def of_partition(self, partition: int) -> Sequence[RunningAttempt]:
        """Return the attempts of a partition that are not settled."""
        with self._lock:
            return list(self._running[partition].values())

    def begun(self) -> Sequence[RunningAttempt]:
        """Return the attempts whose user code was called and has not ended."""
        with self._lock:
            return [
                each
                for of in self._running.values()
                for each in of.values()
                if each.started_monotonic_ms is not None and each.ended is None
            ]

    def of_task(self, task: object) -> Attempt | None:
        """Return the attempt that a task of the event loop runs."""
        with self._lock:
            found = (each for of in self._running.values() for each in of.values())
            return next((each.attempt for each in found if each.task is task), None)

    def adopt(self, attempt: Attempt, listener: AttemptListener) -> None:
        """Report the attempt's end to ``listener``; at once if it has ended already.

        An attempt that was settled a moment ago is gone: it counts as not started, and its adopter
        reads the state of the key from the store.
        """
        running = self.find(attempt)
        if running is None:
            ended: AttemptEnded | None = not_started(attempt, 0)
        else:
            with running.lock:
                running.listener = listener
                ended = running.ended
        if ended is not None:
            listener(ended)

    def begin(self, running: RunningAttempt, now_ms: float) -> bool:
        """Note that user code is called now (monotonic time); return False if it must not be."""
        with running.lock:
            if not running.withdrawn:
                running.started_monotonic_ms = now_ms
            return not running.withdrawn

    def withdraw(self, attempt: Attempt) -> bool:
        """Remove an attempt whose user code was not called; return False if it was called."""
        running = self.find(attempt)
        if running is None:
            return False
        with running.lock:
            if running.ended:
                return False
            is_begun, recall = running.started_monotonic_ms is not None, running.recall
            running.withdrawn = not is_begun
        if is_begun and not (recall is not None and recall()):
            return False
        self._remove(attempt)
        return True

    def discard(self, running: RunningAttempt) -> None:
        """Remove an attempt without a report, unless its user code was called."""
        with running.lock:
            if running.started_monotonic_ms is not None:
                return
            running.withdrawn = True
            running.listener = None
        self._remove(running.attempt)

    def let_cancel(self, running: RunningAttempt, cancel: Callable[[], object]) -> None:
        """Set the function that cancels an attempt; call it if the cancel was requested before."""
        with running.lock:
            running.cancel = cancel
            is_asked = running.abandoned or running.interrupted
        if is_asked:
            cancel()

    def interrupt(self, running: RunningAttempt) -> None:
        """Ask running user code to end, and cancel it if it can be cancelled."""
        with running.lock:
            if running.ended is not None:
                return
            running.interrupted = True
            ask_to_end(running.attempt)
            cancel = running.cancel
        if cancel is not None:
            # The event loop of a stopping node may be closed already.
            with suppress(RuntimeError):
                cancel()

    def end(self, running: RunningAttempt, ended: AttemptEnded) -> None:
        """Report the end to the listener.  Without one, keep the end of an attempt that began, for
        its adopter.
        """
        with running.lock:
            if running.interrupted:
                forget_asked(running.attempt)
                ended = cancelled(ended)
            elif running.abandoned and running.cancel is not None and ended.ending in _CANCELLED:
                ended = not_started(ended.attempt, ended.finished_ms)
            made = running.checkpoints
            well = ended.ending is Ending.DONE
            if made is not None and not (well and made.newest is made.durable):
                ended = replace(ended, checkpoint=made.newest)
            running.ended = ended
            listener = running.listener
        if listener is not None:
            listener(ended)
        elif ended.ending is Ending.NOT_STARTED:
            self._remove(running.attempt)

    def settle(self, attempts: Sequence[Attempt]) -> None:
        """Remove attempts whose outcomes are durable."""
        with self._lock:
            self._drop(attempts)

    def abandon(self, partitions: Collection[int]) -> Sequence[RunningAttempt]:
        """No longer report the ends of these attempts; return the ones that still run."""
        with self._lock:
            affected = [r for p in partitions for r in self._running[p].values()]
        for running in affected:
            with running.lock:
                running.abandoned = True
                running.listener = None
                ended = running.ended
            if ended is not None and ended.ending is Ending.NOT_STARTED:
                self._remove(running.attempt)
        return [r for r in affected if r.started_monotonic_ms is not None and r.ended is None]

    def _remove(self, attempt: Attempt) -> None:
        with self._lock:
            self._drop((attempt,))

    def _drop(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            at_places, place = self._running[attempt.partition], attempt.place
            running = at_places.get(place)
            if running is not None and running.attempt is attempt:
                del at_places[place]
