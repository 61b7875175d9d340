"""Running attempts of a node: who hears how each ends, and what its ending means.

Shared by the real runner and the virtual one.  Decides nothing about threads or time.
"""

import random
import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import chain
from typing import Any

from msgspec.structs import replace

from actors.model.attempts import Attempt, AttemptEnded, Ending
from actors.model.backoff import JITTER, RetryPolicy, RetryRuling
from actors.model.display import (
    UNSHOWN_STACK,
    class_name_of,
    message_of,
    shown,
    stack_of,
    storable_text,
)
from actors.model.errors import CannotRunHere
from actors.model.events import AttemptAbandoned, AttemptFailed
from actors.model.executor_attributes import policy_of
from actors.model.key import TaskKey
from actors.model.outcome import Done, Drop, Retry
from actors.model.sealed import is_sealed, refuse_sealed
from actors.ports.runner import AttemptListener, Executable
from actors.ports.telemetry import Telemetry
from scheduler.node.system_executor import SystemExecutor
from scheduler.ports.batches import TaskNotRun
from scheduler.process.forking import process

ERROR_MESSAGE_CHARS_MAX = 1_000
ERROR_STACK_CHARS_MAX = 8_000
REASON_CHARS_MAX = 1_000
_CANCELLED = frozenset({Ending.FAILED, Ending.TIMED_OUT})
"""How code ends that was cancelled from outside: an ending that says nothing of the task."""


class RunningAttempt:
    """One attempt between its start and the settling of its outcome."""

    __slots__ = (
        "abandoned",
        "allowances",
        "attempt",
        "cancel",
        "ended",
        "executor",
        "limited_ms",
        "listener",
        "lock",
        "started_monotonic_ms",
        "task",
        "withdrawn",
    )

    def __init__(
        self, attempt: Attempt, executor: Executable, listener: AttemptListener | None
    ) -> None:
        self.attempt = attempt
        self.executor = executor
        self.listener = listener
        self.lock = threading.Lock()
        """Of the listener and of what follows; no other lock is taken while it is held."""
        self.ended: AttemptEnded | None = None
        self.started_monotonic_ms: float | None = None
        self.allowances: Sequence[Any] = ()
        """What it was let through by and has not given back: the limits' own."""
        self.limited_ms = 0
        """How long it waited because of a limit."""
        self.abandoned = False
        self.withdrawn = False
        self.cancel: Callable[[], object] | None = None
        """What cancels an async attempt; None for a blocking one."""
        self.task: object = None
        """The task of the event loop that it is, or that runs its batch."""


class AttemptRegistry:
    """The attempts of a node by partition and place; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Of the places alone.  Were it taken as each attempt begins and ends, all workers would
        wait in turn for it and for the interpreter's lock."""
        self._running: defaultdict[int, dict[str | TaskKey, RunningAttempt]] = defaultdict(dict)
        """By partition, then by the place of the attempt."""

    def add(
        self, starts: Sequence[tuple[Attempt, Executable]], listener: AttemptListener
    ) -> Sequence[RunningAttempt]:
        """Register attempts; in their places must be no other ones here (P3)."""
        added = [RunningAttempt(attempt, executor, listener) for attempt, executor in starts]
        with self._lock:
            for running in added:
                attempt = running.attempt
                attempts = self._running[attempt.partition]
                if attempts.setdefault(attempt.place, running) is not running:
                    text = f"an attempt of {attempt.task.key} is still running here"
                    raise AssertionError(text)
        return added

    def find(self, attempt: Attempt) -> RunningAttempt | None:
        """Return what is known of an attempt that is not settled yet."""
        running = self._running[attempt.partition].get(attempt.place)
        return running if running is not None and running.attempt is attempt else None

    def of_partition(self, partition: int) -> Sequence[RunningAttempt]:
        """Return the attempts of a partition that run or are not settled."""
        with self._lock:
            return list(self._running[partition].values())

    def running_for(
        self, partition: int, at_least_ms: float, now_ms: float
    ) -> Mapping[Attempt, float]:
        """Return how long attempts of a partition have been in user code (monotonic time)."""
        begun = {
            running.attempt: now_ms - running.started_monotonic_ms
            for running in self.of_partition(partition)
            if running.started_monotonic_ms is not None and running.ended is None
        }
        return {attempt: ran_ms for attempt, ran_ms in begun.items() if ran_ms >= at_least_ms}

    def of_task(self, task: object) -> Attempt | None:
        """Return an attempt that a task of the event loop runs."""
        with self._lock:
            found = (each for of in self._running.values() for each in of.values())
            return next((each.attempt for each in found if each.task is task), None)

    def adopt(self, attempt: Attempt, listener: AttemptListener) -> None:
        """Tell the attempt's end to ``listener``; at once where it ended already.

        One that was settled a moment ago is forgotten: it counts as not started, and whoever
        adopts it asks the store what became of its key.
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
        """Note that user code is called now (monotonic time); False where it may not be."""
        with running.lock:
            if not running.withdrawn:
                running.started_monotonic_ms = now_ms
            return not running.withdrawn

    def withdraw(self, attempt: Attempt) -> bool:
        """Forget an attempt whose user code was not called; False where it was."""
        running = self.find(attempt)
        if running is None:
            return False
        with running.lock:
            if running.ended or running.started_monotonic_ms is not None:
                return False
            running.withdrawn = True
        self._remove(attempt)
        return True

    def forget(self, running: RunningAttempt) -> None:
        """Let nobody hear of an attempt whose user code was not called, and never will be."""
        with running.lock:
            if running.started_monotonic_ms is not None:
                return
            running.withdrawn = True
            running.listener = None
        self._remove(running.attempt)

    def let_cancel(self, running: RunningAttempt, cancel: Callable[[], object]) -> None:
        """Say what cancels an attempt; done at once where it was abandoned a moment ago."""
        with running.lock:
            running.cancel = cancel
            abandoned = running.abandoned
        if abandoned:
            cancel()

    def end(self, running: RunningAttempt, ended: AttemptEnded) -> None:
        """Tell the listener; without one, keep it for whoever adopts it, if it began at all."""
        with running.lock:
            if running.abandoned and running.cancel is not None and ended.ending in _CANCELLED:
                ended = not_started(ended.attempt, ended.finished_ms)
            running.ended = ended
            listener = running.listener
        if listener is not None:
            listener(ended)
        elif ended.ending is Ending.NOT_STARTED:
            self._remove(running.attempt)

    def settle(self, attempts: Sequence[Attempt]) -> None:
        """Forget attempts whose outcomes are durable."""
        with self._lock:
            for attempt in attempts:
                self._drop(attempt)

    def abandon(self, partitions: Collection[int]) -> Sequence[RunningAttempt]:
        """Let nobody hear of these attempts' ends; return those that had begun."""
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
            self._drop(attempt)

    def _drop(self, attempt: Attempt) -> None:
        attempts, place = self._running[attempt.partition], attempt.place
        running = attempts.get(place)
        if running is not None and running.attempt is attempt:
            del attempts[place]


class RegisteredAttempts(ABC):
    """The part of a ``Runner`` that is bookkeeping alone, whatever runs the attempts."""

    def __init__(
        self,
        telemetry: Telemetry,
        *,
        require_codecs: Callable[[bytes], None] = refuse_sealed,
        rng: random.Random = JITTER,
    ) -> None:
        """``require_codecs`` raises PayloadSealed where this node cannot open sealed data; waits
        between attempts take their jitter from ``rng``.
        """
        self._registry = AttemptRegistry()
        self._telemetry = telemetry
        self.require_codecs = require_codecs
        self._rng = rng
        self._born = process.generation
        """Of the process whose node this is."""

    def start(
        self, starts: Sequence[tuple[Attempt, Executable]], listener: AttemptListener
    ) -> None:
        """Run each attempt as soon as a worker is free for it."""
        self._submit(self._registry.add(starts, listener))

    @abstractmethod
    def _submit(self, started: Sequence[RunningAttempt]) -> None:
        """Have registered attempts run."""

    def unsettled(self, partition: int, *, given_up: bool = True) -> Sequence[Attempt]:
        """Return the attempts of a partition that run or whose outcome is not settled."""
        return [
            running.attempt
            for running in self._registry.of_partition(partition)
            if given_up or not running.abandoned or running.ended is None
        ]

    def adopt(self, attempt: Attempt, listener: AttemptListener) -> None:
        """Tell the attempt's end to ``listener`` from now on; at once where it ended."""
        self._registry.adopt(attempt, listener)

    def withdraw(self, attempt: Attempt, *, limited: bool = False) -> bool:
        """Keep user code from being called; False where it was called already."""
        return not limited and self._registry.withdraw(attempt)

    def drain(self, partitions: Collection[int] | None, *, give_up: str | None = None) -> None:
        """End what waits for others' work, and with ``give_up`` all that can be ended."""
        if partitions is None:
            return
        if give_up is not None:
            self._give_up(self._registry.abandon(partitions), give_up)
            return
        for running in chain.from_iterable(map(self._registry.of_partition, partitions)):
            if isinstance(running.executor, SystemExecutor):
                running.executor.drain()

    def _give_up(self, abandoned: Sequence[RunningAttempt], reason: str) -> None:
        """Report what still runs, and cancel what can be."""
        for running in abandoned:
            attempt = running.attempt
            key = attempt.task.key
            event = AttemptAbandoned(attempt.partition, key, attempt.number, reason)
            self._telemetry.emit(event)
            if running.cancel is not None:
                running.cancel()

    def _uncalled(self, running: RunningAttempt, now_ms: int) -> AttemptEnded | None:
        """Return the end of an attempt that may not call ``execute``; None where it may.

        Called where the attempt runs: policies and codecs are user code.
        """
        attempt, used = running.attempt, running.attempt.task.attempts.used
        if is_sealed(attempt.task.body):
            # Whatever else codecs raise is raised again where the data is opened.
            with suppress(BaseException):
                try:
                    self.require_codecs(attempt.task.body)
                except CannotRunHere as error:
                    return AttemptEnded(
                        attempt,
                        Ending.HELD,
                        now_ms,
                        now_ms,
                        error_class=type(error).__name__,
                        error_message=str(error),
                    )
        if used and used >= (policy := policy_of(running.executor)).attempts_max:
            ruling = policy.ruling(used, after_ms=0)
            return AttemptEnded(attempt, Ending.USED_UP, now_ms, now_ms, ruling=ruling)
        return None

    def _failed(
        self,
        running: RunningAttempt,
        error: BaseException,
        started_ms: int,
        finished_ms: int,
        ending: Ending = Ending.FAILED,
    ) -> AttemptEnded:
        """Return the end of an attempt whose user code raised, and tell operators of the error.

        Here, as it is kept nowhere: its trace holds the frames of user code and all their values.
        """
        attempt = running.attempt
        cancelled = running.abandoned and running.cancel is not None
        # Nobody asked for the end of what was cancelled; of code, what it raised counts.
        policy = None if cancelled else policy_of(running.executor)
        ended = ended_badly(attempt, error, started_ms, finished_ms, ending, policy, self._rng)
        if not cancelled:
            stack = ended.error_stack or ""
            is_showable, is_whole = stack != UNSHOWN_STACK, len(stack) < ERROR_STACK_CHARS_MAX
            event = AttemptFailed(
                attempt.partition,
                attempt.task.key,
                attempt.number,
                ended.result,
                finished_ms - started_ms,
                error,
                is_showable,
                stack if is_showable and is_whole else None,
                attempt.task.kind,
            )
            self._telemetry.emit(event)
        return ended

    def _ended_with(
        self, running: RunningAttempt, outcome: object, started_ms: int, finished_ms: int
    ) -> AttemptEnded:
        """Return the end of an attempt from what user code returned, or the exception it raised."""
        if isinstance(outcome, TaskNotRun):
            return not_started(running.attempt, finished_ms)
        if isinstance(outcome, BaseException):
            return self._failed(running, outcome, started_ms, finished_ms)
        try:
            return self._returned(running, outcome, started_ms, finished_ms)
        except BaseException as error:  # noqa: BLE001 - what was returned may be user code
            return self._failed(running, error, started_ms, finished_ms)

    def _returned(
        self, running: RunningAttempt, outcome: object, started_ms: int, finished_ms: int
    ) -> AttemptEnded:
        """Return the end of an attempt from what user code returned; raises what that does."""
        ended = ended_well(running.attempt, outcome, started_ms, finished_ms)
        if ended.ending is not Ending.RETRY:
            return ended
        policy = policy_of(running.executor)
        return replace(ended, ruling=_ruling(policy, ended, outcome, self._rng))

    def settle(self, attempts: Sequence[Attempt]) -> None:
        """Forget ended attempts: their outcomes are durable, or of no use any more."""
        self._registry.settle(attempts)


def ended_well(
    attempt: Attempt, outcome: object, started_ms: int, finished_ms: int
) -> AttemptEnded:
    """Return what an attempt's return value means; TypeError where it means nothing."""
    match outcome:
        case None | Done():
            return AttemptEnded(attempt, Ending.DONE, started_ms, finished_ms)
        case Retry(after=after):
            if not isinstance(after, timedelta | None):
                raise TypeError(f"Retry takes after= as a timedelta, got {shown(after)}")
            after_ms = None if after is None else max(0, round(after.total_seconds() * 1000))
            return AttemptEnded(
                attempt, Ending.RETRY, started_ms, finished_ms, retry_after_ms=after_ms
            )
        case Drop(reason=reason):
            if not isinstance(reason, str):
                raise TypeError(f"Drop takes a reason that is text, got {shown(reason)}")
            kept = storable_text(reason[:REASON_CHARS_MAX])
            return AttemptEnded(attempt, Ending.DROPPED, started_ms, finished_ms, reason=kept)
        case _:
            text = (
                f"execute returned {shown(outcome)}: it returns nothing, Done(), Retry() or Drop()"
            )
            raise TypeError(text)


def ended_badly(
    attempt: Attempt,
    error: BaseException,
    started_ms: int,
    finished_ms: int,
    ending: Ending = Ending.FAILED,
    policy: RetryPolicy | None = None,
    rng: random.Random = JITTER,
) -> AttemptEnded:
    """Return what an exception of user code means, with as much of it as history keeps.

    Without a ``policy`` the attempt is one that is tried again, as by the default one.
    """
    verdict = "retry" if policy is None else policy.verdict_on(error)
    name, message = class_name_of(error), message_of(error, ERROR_MESSAGE_CHARS_MAX)
    dropped = verdict == "drop"
    ended = AttemptEnded(
        attempt,
        Ending.DROPPED if dropped else ending,
        started_ms,
        finished_ms,
        reason=f"{name}: {message}"[:REASON_CHARS_MAX] if dropped else None,
        error_class=name,
        error_message=message,
        error_stack=stack_of(error, ERROR_STACK_CHARS_MAX),
        uses_up_all=verdict == "give_up",
    )
    if policy is None or dropped:
        return ended
    return replace(ended, ruling=_ruling(policy, ended, error, rng))


def _ruling(
    policy: RetryPolicy, ended: AttemptEnded, outcome: object, rng: random.Random
) -> RetryRuling:
    """Ask a policy what follows; for its wait, which is user code, only where there is one."""
    task = ended.attempt.task
    used = task.attempts.used + 1
    has_wait = used < policy.attempts_max and not ended.uses_up_all
    return policy.ruling(
        used,
        outcome,
        after_ms=ended.retry_after_ms if has_wait else 0,
        since_due_ms=max(0, ended.finished_ms - task.key.scheduled_ms),
        rng=rng,
    )


def broken_off(running: RunningAttempt, error: BaseException, now_ms: int) -> AttemptEnded:
    """Return the end of an attempt that failed in code of ours, so that nobody waits for ever."""
    if running.started_monotonic_ms is None:
        return not_started(running.attempt, now_ms)
    ended = ended_badly(running.attempt, error, now_ms, now_ms)
    # It is tried again whatever the policy says of errors: this one is not the executor's.
    return replace(ended, ruling=_ruling(policy_of(running.executor), ended, error, JITTER))


def not_started(attempt: Attempt, now_ms: int) -> AttemptEnded:
    """Return the end of an attempt whose user code was never called."""
    return AttemptEnded(attempt, Ending.NOT_STARTED, now_ms, now_ms)
