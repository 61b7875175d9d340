"""Attempts that make no checkpoint for as long as their kind allows: they are stuck.

Decides which ones are, and never counts time in which the node stood still: checkpoints that were
made meanwhile are not heard of yet.  Ends a coroutine; a process is ended by the pool of processes,
and a thread by nobody.
"""

from asyncio import CancelledError
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.operations.events import AttemptStuck
from hourhand.actors.model.values.display import class_name_of, message_of
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.node.attempts import AttemptRegistry, RunningAttempt
from hourhand.scheduler.node.system_executor import SystemExecutor
from hourhand.scheduler.ports.batches import BatchMember
from hourhand.scheduler.ports.processes import is_in_process

STOOD_STILL_MS = 2_000.0
"""The node stood still where two looks are further apart."""
LOOKED_EVERY_MS = 200.0
_MESSAGE_CHARS_MAX = 1_000


class SilenceLimits(NamedTuple):
    """The longest times that attempts may make no checkpoint."""

    kinds: Mapping[str | None, int] = MappingProxyType({})
    """Milliseconds by kind, for those that declare it."""
    default_ms: int | None = None

    @property
    def is_any(self) -> bool:
        """True if attempts of any kind can be stuck."""
        return bool(self.kinds) or self.default_ms is not None

    def of(self, attempt: Attempt) -> int | None:
        """Return the milliseconds for an attempt; None where it may take as long as it likes."""
        return self.kinds.get(attempt.task.kind, self.default_ms)


NEVER_STUCK = SilenceLimits()
"""No kind has a limit."""


class Silence:
    """Measures how long attempts have made no checkpoint; used by one thread."""

    def __init__(self, limits: SilenceLimits) -> None:
        self._limits = limits
        self._looked_ms = self._went_on_ms = 0.0

    def look(self, now_ms: float) -> None:
        """Say that time is looked at now, which happens several times a second."""
        if now_ms - self._looked_ms > STOOD_STILL_MS:
            self._went_on_ms = now_ms
        self._looked_ms = now_ms

    def stuck_ms(
        self, together: Sequence[RunningAttempt], begun_ms: float, now_ms: float
    ) -> int | None:
        """Return the limit that attempts have passed that run together since a monotonic time; None
        where they have not.
        """
        limit_ms = self._limits.of(together[0].attempt)
        if limit_ms is None:
            return None
        made = (each.checkpoints for each in together)
        heard = (each.made_monotonic_ms for each in made if each is not None)
        silent_ms = now_ms - max(begun_ms, self._went_on_ms, *heard)
        return limit_ms if silent_ms >= limit_ms else None


class StuckAttempts:
    """The attempts of a node that are stuck, each with its limit; used from any thread."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        # Kept beside the attempts, because hardly any is stuck.
        self._limits_ms: dict[RunningAttempt, int] = {}

    def __contains__(self, running: RunningAttempt) -> bool:
        return running in self._limits_ms

    def add(self, running: RunningAttempt, limit_ms: int) -> bool:
        """Tell that an attempt is stuck; False where that is known."""
        if running in self._limits_ms:
            return False
        self._limits_ms[running] = limit_ms
        attempt = running.attempt
        event = AttemptStuck(attempt.partition, attempt.task.key, "stuck_after", limit_ms)
        self._telemetry.emit(event)
        return True

    def keep(self, stuck: Collection[RunningAttempt]) -> None:
        """Forget those that have ended, or have made a checkpoint, as they are not among these."""
        for running in tuple(self._limits_ms):
            if running.ended is not None or (
                running not in stuck and not is_in_process(running.executor)
            ):
                self._limits_ms.pop(running, None)

    def error_of(self, running: RunningAttempt, error: BaseException) -> TimeoutError | None:
        """Return the error of an attempt that failed after it was asked to end, as it was stuck;
        None for one that was not.
        """
        limit_ms = self._limits_ms.get(running)
        if limit_ms is None or running.cancel is None:
            return None
        text = f"stuck: no checkpoint for {limit_ms / 1000:g} s (stuck_after)"
        if not isinstance(error, CancelledError):
            message = message_of(error, _MESSAGE_CHARS_MAX)
            text += f", then {class_name_of(error)}: {message}"
        return TimeoutError(text).with_traceback(error.__traceback__)


class SilenceWatch:
    """Finds what is stuck in threads and coroutines; ``look`` is called by one thread, several
    times a second.
    """

    def __init__(
        self,
        registry: AttemptRegistry,
        stuck: StuckAttempts,
        limits: SilenceLimits,
        batches: Callable[[], Collection[Sequence[RunningAttempt]]],
        clock: Clock,
    ) -> None:
        """``batches`` returns the members of each blocking batch that runs."""
        self._registry, self._stuck, self._batches, self._clock = registry, stuck, batches, clock
        self._is_any, self._silence = limits.is_any, Silence(limits)
        self._looked_ms = 0.0

    def look(self) -> None:
        """Tell what is stuck, and cancel what can be."""
        now_ms = self._clock.monotonic_ms()
        if not self._is_any or now_ms - self._looked_ms < LOOKED_EVERY_MS:
            return
        self._looked_ms = now_ms
        self._silence.look(now_ms)
        stuck = [
            (running, limit_ms)
            for together in self._together()
            if (limit_ms := self._limit_passed(together, now_ms)) is not None
            for running in together
        ]
        for running, limit_ms in stuck:
            if self._stuck.add(running, limit_ms) and running.cancel is not None:
                # The loop of a node that stops may be closed already.
                with suppress(RuntimeError):
                    running.cancel()
        self._stuck.keep({running for running, _ in stuck})

    def _limit_passed(self, together: Sequence[RunningAttempt], now_ms: float) -> int | None:
        begun = [each.started_monotonic_ms for each in together]
        since_ms = max(each for each in begun if each is not None)
        return self._silence.stuck_ms(together, since_ms, now_ms)

    def _together(self) -> Sequence[Sequence[RunningAttempt]]:
        """Return what runs in threads and coroutines: of a batch all members go on as one."""
        found: dict[int, list[RunningAttempt]] = {}
        batch_of = {id(each): id(members) for members in self._batches() for each in members}
        for running in self._registry.begun():
            executor = running.executor
            if running.abandoned or running.interrupted or isinstance(executor, SystemExecutor):
                continue
            if is_in_process(executor):
                continue
            of_batch = isinstance(executor, BatchMember) and running.task is not None
            shared = id(running.task) if of_batch else batch_of.get(id(running), id(running))
            found.setdefault(shared, []).append(running)
        return list(found.values())
