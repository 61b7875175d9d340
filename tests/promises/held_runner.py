"""A runner whose attempts take as long as the test wants, so that they can overlap things.

It keeps the contract of ``actors.ports.runner.Runner`` with the registry of the real one;
``begin`` and ``end`` play the worker.
"""

from collections.abc import Callable, Mapping, Sequence

from actors.model.attempts import Attempt
from actors.ports.clock import Clock
from actors.ports.telemetry import Telemetry
from scheduler.node.attempts import RegisteredAttempts, RunningAttempt, not_started


class HeldRunner(RegisteredAttempts):
    """Attempts wait in ``queued``, run in ``running``, and end when they are told to."""

    def __init__(
        self, *, clock: Clock, gate: Callable[[Attempt], bool], telemetry: Telemetry
    ) -> None:
        self.queued: list[RunningAttempt] = []
        self.running: list[RunningAttempt] = []
        self.begun: list[Attempt] = []
        """Every attempt whose user code was called, in order."""
        self._clock = clock
        self._gate = gate
        super().__init__(telemetry)

    def _submit(self, started: Sequence[RunningAttempt]) -> None:
        """Queue attempts, as for workers that are busy."""
        self.queued.extend(started)

    def begin(self) -> int:
        """Call user code of everything queued; return of how many."""
        queued, self.queued = self.queued, []
        before = len(self.begun)
        for running in queued:
            attempt = running.attempt
            if attempt.record_starts is not None and self._gate(attempt):
                attempt.record_starts((attempt,))
            now_ms = self._clock.monotonic_ms()
            if not self._gate(attempt) or not self._registry.begin(running, now_ms):
                self._registry.end(running, not_started(attempt, self._clock.now_ms()))
                continue
            self.running.append(running)
            self.begun.append(attempt)
        return len(self.begun) - before

    def end(self, outcome: object = None) -> None:
        """End everything that runs, with a return value or an exception."""
        running, self.running = self.running, []
        for each in running:
            now_ms = self._clock.now_ms()
            if isinstance(outcome, Exception):
                ended = self._failed(each, outcome, now_ms, now_ms)
            else:
                ended = self._returned(each, outcome, now_ms, now_ms)
            self._registry.end(each, ended)

    def long_running(self, partition: int, at_least_ms: float) -> Mapping[Attempt, float]:
        """Return the attempts of a partition whose user code has been running for so long."""
        return self._registry.running_for(partition, at_least_ms, self._clock.monotonic_ms())
