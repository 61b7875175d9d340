"""Binds the runner contract to the real runner and to the virtual one."""

from collections.abc import Iterator

import pytest

from actors.kernel.simulated import VirtualClock
from actors.model.settings import ExecutionSettings
from scheduler.node.runner import WorkerRunner
from scheduler.testing import RecordingTelemetry
from scheduler.testing.virtual import VirtualRunner
from tests.builders import NOW_MS
from tests.conformance.runner import Gate, RunnerBench, RunnerContract


class TestWorkerRunner(RunnerContract):
    """Threads and an event loop."""

    @pytest.fixture
    def bench(self) -> Iterator[RunnerBench]:
        """Make a runner with a few workers."""
        gate = Gate()
        runner = WorkerRunner(
            clock=VirtualClock(NOW_MS),
            gate=gate,
            telemetry=RecordingTelemetry(),
            settings=ExecutionSettings(workers=2),
        )
        yield RunnerBench(runner, gate, move=lambda: None)
        runner.close()


class TestVirtualRunner(RunnerContract):
    """One attempt at a time in the caller's thread."""

    @pytest.fixture
    def bench(self) -> RunnerBench:
        """Make a runner that works when it is moved on."""
        gate = Gate()
        runner = VirtualRunner(
            clock=VirtualClock(NOW_MS), gate=gate, telemetry=RecordingTelemetry()
        )

        def move() -> None:
            while runner.run_one():
                pass

        return RunnerBench(runner, gate, move)
