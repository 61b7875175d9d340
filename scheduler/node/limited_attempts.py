"""The part of a ``Runner`` that meets limits: what waits for an allowance holds nothing else.

Decides who is told that an attempt waits no longer.  Never decides how long it waits.
"""

import random
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence

from actors.model.attempts import Attempt, AttemptEnded
from actors.model.backoff import JITTER
from actors.model.events import LimitChanged
from actors.model.flow import Limit
from actors.model.operator_sheet import OperatorSheet
from actors.model.sealed import refuse_sealed
from actors.ports.clock import Clock
from actors.ports.telemetry import Telemetry
from scheduler.node.attempts import RegisteredAttempts, RunningAttempt, not_started
from scheduler.node.flow_limits import FlowLimits, Limited, NodeRates
from scheduler.node.loans import LoanDesk
from scheduler.node.node_limits import NodeLimits


class LimitedAttempts(RegisteredAttempts):
    """Hands attempts on when their limits let them through."""

    def __init__(
        self,
        *,
        clock: Clock,
        gate: Callable[[Attempt], bool],
        telemetry: Telemetry,
        limits: NodeLimits,
        wake_later: Callable[[float], object],
        require_codecs: Callable[[bytes], None] = refuse_sealed,
        rng: random.Random = JITTER,
    ) -> None:
        """``wake_later`` has the limits looked at after so many milliseconds."""
        super().__init__(telemetry, require_codecs=require_codecs, rng=rng)
        self._clock = clock
        self._gate = gate
        self._limits = FlowLimits(
            limits,
            gate=gate,
            monotonic_ms=clock.monotonic_ms,
            submit=self._submit_allowed,
            refuse=self._refuse,
            wake_later=wake_later,
        )

    def _submit(self, started: Sequence[RunningAttempt]) -> None:
        self._limits.begin(started)

    @abstractmethod
    def _submit_allowed(self, allowed: Sequence[RunningAttempt]) -> None:
        """Have attempts run that no limit holds up."""

    def limited(self) -> Sequence[Limited]:
        """Return what waits for an allowance, for those who look."""
        return self._limits.limited()

    @property
    def declared_limits(self) -> Mapping[str, Limit]:
        """All limits by name, as the code has them."""
        return self._limits.declared

    def rates(self) -> NodeRates:
        """Return what this node may start of limits of a rate, for those who look."""
        return self._limits.rates()

    @property
    def loans(self) -> LoanDesk | None:
        """Through which other nodes' reports come here; None where nothing is lent."""
        return self._limits if self._limits.lends else None

    def heed(self, sheet: OperatorSheet) -> None:
        """Limit as operators say from now on."""
        for name, before, after in self._limits.change(sheet.limits):
            self._telemetry.emit(LimitChanged(name, str(before), str(after)))

    def withdraw(self, attempt: Attempt, *, limited: bool = False) -> bool:
        """Keep user code from being called; False where it was called already."""
        running = self._registry.find(attempt)
        if limited and (running is None or not self._limits.holds_up(running)):
            return False
        withdrawn = super().withdraw(attempt)
        if withdrawn and running is not None and self._limits.leave(running):
            self._refuse(running)
        return withdrawn

    def drain(self, partitions: Collection[int] | None, *, give_up: str | None = None) -> None:
        """End what waits for others' work or for an allowance, and all that can be ended."""
        super().drain(partitions, give_up=give_up)
        for running in self._limits.leave_all(partitions):
            if partitions is None:
                self._registry.forget(running)
            self._refuse(running)

    def _refuse(self, running: RunningAttempt) -> None:
        """End an attempt whose user code is not called."""
        self._end(running, not_started(running.attempt, self._clock.now_ms()))

    def _may_begin(self, running: RunningAttempt) -> bool:
        """Decide as the last thing before user code: from True on it counts as running."""
        now_ms = self._clock.monotonic_ms()
        if not (self._gate(running.attempt) and self._registry.begin(running, now_ms)):
            return False
        self._limits.use(running, now_ms)
        return True

    def _end(self, running: RunningAttempt, ended: AttemptEnded) -> None:
        """Let others through in its place, and tell its end."""
        self._limits.end(running)
        self._registry.end(running, ended)
