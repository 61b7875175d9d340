"""Workers whose attempts take as long as the test wants, so that they can overlap things.

The stages before them are those of every node; ``begin`` and ``end`` play the worker.
"""

from collections.abc import Callable, Sequence

from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.testing.virtual import virtual_runner


class HeldRunner:
    """Attempts wait in ``queued``, run in ``running``, and end when they are told to."""

    def __init__(
        self, *, clock: Clock, gate: Callable[[Attempt], bool], telemetry: Telemetry
    ) -> None:
        self.runner, self._workers = virtual_runner(clock=clock, gate=gate, telemetry=telemetry)
        self.running: list[tuple[RunningAttempt, int]] = []
        self.begun: list[Attempt] = []
        """Every attempt whose user code was called, in order."""

    @property
    def queued(self) -> Sequence[object]:
        """What waits for a worker."""
        return list(self._workers.ready)

    def begin(self) -> int:
        """Call user code of everything queued; return of how many."""
        before, calls = len(self.begun), self.runner.calls
        while self._workers.ready:
            running = self._workers.ready.popleft()
            assert isinstance(running, RunningAttempt), "no kind has batches here"
            started_ms = calls.begin_or_end(running)
            if started_ms is not None:
                self.running.append((running, started_ms))
                self.begun.append(running.attempt)
        return len(self.begun) - before

    def end(self, outcome: object = None) -> None:
        """End everything that runs, with a return value or an exception."""
        running, self.running = self.running, []
        calls = self.runner.calls
        for each, started_ms in running:
            calls.end(each, calls.ended_with(each, outcome, started_ms))
