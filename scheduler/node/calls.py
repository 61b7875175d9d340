"""Calls of user code: the conditions before one begins, and the report of its end.

Every kind of worker begins and ends attempts through this: threads, the event loop, processes, and
the workers of simulation and test kit.  Decides the meaning of an end, never when an attempt runs.
"""

import logging
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import cast

from msgspec.structs import replace

from hourhand.actors.model.execution.attempts import Attempt, AttemptEnded, Ending
from hourhand.actors.model.execution.backoff import JITTER
from hourhand.actors.model.execution.batch_executor import BatchOutcome
from hourhand.actors.model.execution.executor_attributes import policy_of
from hourhand.actors.model.operations.events import AttemptFailed, AttemptStarted
from hourhand.actors.model.task.sealed import is_sealed, refuse_sealed
from hourhand.actors.model.values.display import UNSHOWN_STACK, log_raised
from hourhand.actors.model.values.errors import CannotRunHere
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.node.attempts import AttemptRegistry, RunningAttempt
from hourhand.scheduler.node.endings import (
    ERROR_STACK_CHARS_MAX,
    ended_badly,
    ended_well,
    not_started,
    ruling_on,
)
from hourhand.scheduler.node.silence import NEVER_STUCK, SilenceLimits, StuckAttempts
from hourhand.scheduler.ports.batches import BatchedAttempt, BatchMember, TaskNotRun
from hourhand.scheduler.runtime.forking import process

logger = logging.getLogger("hourhand.runner")

Begun = Sequence[tuple[RunningAttempt, int]]
"""Attempts that began, each with the wall time of its begin, in milliseconds since 1970."""


class Calls:
    """Begins and ends the attempts of one node; used from any thread."""

    def __init__(
        self,
        *,
        clock: Clock,
        gate: Callable[[Attempt], bool],
        telemetry: Telemetry,
        require_codecs: Callable[[bytes], None] = refuse_sealed,
        rng: random.Random = JITTER,
        silence_limits: SilenceLimits = NEVER_STUCK,
    ) -> None:
        """``require_codecs`` raises PayloadSealed if this node cannot open sealed data; waits
        between attempts take their jitter from ``rng``.
        """
        self.registry = AttemptRegistry()
        self.clock = clock
        self.gate = gate
        self.telemetry = telemetry
        self.require_codecs = require_codecs
        self._rng = rng
        self.silence_limits = silence_limits
        self.stuck = StuckAttempts(telemetry)
        self.born = process.generation
        """Generation of the process in which this node was made: a forked child has another."""

    def may_begin(self, running: RunningAttempt) -> bool:
        """Decide just before user code whether an attempt may begin; it counts as running then."""
        if running.starts is not None:
            self._release_start(running)
        now_ms = self.clock.monotonic_ms()
        if not (self.gate(running.attempt) and self.registry.begin(running, now_ms)):
            return False
        if running.limiter is not None:
            running.limiter.use(running, now_ms)
        return True

    def uncalled(self, running: RunningAttempt) -> AttemptEnded | None:
        """Return the end of an attempt that must not call ``execute``; None if it may.

        The worker of the attempt calls this, because policies and codecs are user code.
        """
        attempt, used = running.attempt, running.attempt.task.attempts.used
        if is_sealed(attempt.task.body):
            # Other errors of codecs are raised again when the data is opened.
            with suppress(BaseException):
                try:
                    self.require_codecs(attempt.task.body)
                except CannotRunHere as error:
                    now_ms = self.clock.now_ms()
                    name, message = type(error).__name__, str(error)
                    return AttemptEnded(
                        *(attempt, Ending.HELD, now_ms, now_ms),
                        error_class=name,
                        error_message=message,
                    )
        if used and used >= (policy := policy_of(running.executor)).attempts_max:
            ruling, now_ms = policy.ruling(used, after_ms=0), self.clock.now_ms()
            return AttemptEnded(attempt, Ending.USED_UP, now_ms, now_ms, ruling=ruling)
        return None

    def begin(self, running: RunningAttempt, started_ms: int | None = None) -> int:
        """Report that ``execute`` is called now, or was at ``started_ms``; return that time."""
        attempt = running.attempt
        if started_ms is None:
            started_ms = self.clock.now_ms()
        key, attempts = attempt.task.key, attempt.task.attempts
        delay_ms = started_ms - max(key.scheduled_ms, attempts.next_attempt_ms)
        self.telemetry.emit(
            AttemptStarted(
                attempt.partition,
                key,
                attempt.number,
                delay_ms,
                running.limited_ms,
                # The property would be a call more for each task.
                attempt.is_unordered or attempt.follows is not None,
            )
        )
        return started_ms

    def end(self, running: RunningAttempt, ended: AttemptEnded) -> None:
        """Release the places of an attempt, and report its end."""
        if running.starts is not None:
            self._release_start(running)
        if running.limiter is not None:
            running.limiter.end(running)
        try:
            self.registry.end(running, ended)
        finally:
            freed, running.freed = running.freed, None
            if freed is not None:
                freed()

    def refuse(self, running: RunningAttempt) -> None:
        """End an attempt whose user code is not called: the tree starts it again."""
        self.end(running, not_started(running.attempt, self.clock.now_ms()))

    def begin_or_end(self, running: RunningAttempt) -> int | None:
        """Begin an attempt and return the wall time, or end it and return None if it must not
        begin.
        """
        if not self.may_begin(running):
            self.refuse(running)
        elif (uncalled := self.uncalled(running)) is not None:
            self.end(running, uncalled)
        else:
            return self.begin(running)
        return None

    def _release_start(self, running: RunningAttempt) -> None:
        starts, running.starts = running.starts, None
        if starts is not None:
            starts.release()

    # The meaning of an end.

    def failed(
        self,
        running: RunningAttempt,
        error: BaseException,
        started_ms: int,
        ending: Ending = Ending.FAILED,
    ) -> AttemptEnded:
        """Return the end of an attempt whose user code has just raised, and report the failure.

        It is reported here because the error is not kept: its traceback refers to the frames of
        user code and all their values.
        """
        attempt, finished_ms = running.attempt, self.clock.now_ms()
        is_given_up = running.abandoned and running.cancel is not None
        cancelled = is_given_up or running.interrupted
        if (stuck := self.stuck.error_of(running, error)) is not None:
            error, ending = stuck, Ending.TIMED_OUT
        # The policy is not asked about an attempt that was cancelled from outside.
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
            self.telemetry.emit(event)
        return ended

    def returned(self, running: RunningAttempt, outcome: object, started_ms: int) -> AttemptEnded:
        """Return the end of an attempt by the value that user code returned; raises errors of the
        value's own code.
        """
        if outcome is None:
            return AttemptEnded(running.attempt, Ending.DONE, started_ms, self.clock.now_ms())
        ended = ended_well(running.attempt, outcome, started_ms, self.clock.now_ms())
        if ended.ending is not Ending.RETRY:
            return ended
        policy = policy_of(running.executor)
        return replace(ended, ruling=ruling_on(policy, ended, outcome, self._rng))

    def ended_with(self, running: RunningAttempt, outcome: object, started_ms: int) -> AttemptEnded:
        """Return the end of an attempt by the value or the error that its user code came to."""
        if isinstance(outcome, TaskNotRun):
            return not_started(running.attempt, self.clock.now_ms())
        if isinstance(outcome, BaseException):
            return self.failed(running, outcome, started_ms)
        try:
            return self.returned(running, outcome, started_ms)
        except BaseException as error:  # noqa: BLE001 - what was returned may be user code
            return self.failed(running, error, started_ms)

    def broken_off(self, running: RunningAttempt, error: BaseException) -> AttemptEnded:
        """Return the end of an attempt that failed in Hourhand's own code: its id must not wait.

        A ``GeneratorExit`` comes from user code: a task that it awaits raises it, and it leaves
        every frame up to the event loop.
        """
        if not isinstance(error, GeneratorExit):
            log_raised(logger, "an attempt failed outside user code; please report this")
        now_ms = self.clock.now_ms()
        if running.started_monotonic_ms is None:
            return not_started(running.attempt, now_ms)
        ended = ended_badly(running.attempt, error, now_ms, now_ms)
        # It is tried again whatever the policy says about errors: the executor did not raise it.
        ruling = ruling_on(policy_of(running.executor), ended, error, self._rng)
        return replace(ended, ruling=ruling)

    # Batches.

    def begin_batch(self, members: Sequence[RunningAttempt]) -> Begun:
        """Begin the attempts of a batch that may begin, and end the others."""
        begun: list[tuple[RunningAttempt, int]] = []
        before: set[Attempt | None] = {None}
        for running in members:
            # An attempt that follows another needs that one in its batch, or it overtakes (P4).
            if running.attempt.follows not in before:
                self.refuse(running)
            elif (started_ms := self.begin_or_end(running)) is not None:
                begun.append((running, started_ms))
                before.add(running.attempt)
        return begun

    def end_batch(self, begun: Begun, outcomes: Sequence[BatchOutcome]) -> None:
        """End the attempts of a batch, each by its own outcome."""
        for (running, started_ms), outcome in zip(begun, outcomes, strict=True):
            self.end(running, self.ended_with(running, outcome, started_ms))


def batched(begun: Begun) -> Sequence[BatchedAttempt]:
    """Return the attempts of a batch in the form that its executor takes."""
    return [
        BatchedAttempt(
            each.attempt.task.to_task(),
            each.attempt.number,
            each.attempt.epoch,
            cast("BatchMember", each.executor).around,
            each,
        )
        for each, _ in begun
    ]
