"""Binds the runner contract to the real runner and to the virtual one."""

from collections.abc import Iterator

import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.values.settings import ExecutionSettings
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.runner import NodeRunner
from hourhand.scheduler.node.workers.workers import NodeWorkers
from hourhand.scheduler.testing import RecordingTelemetry
from hourhand.scheduler.testing.virtual import virtual_runner
from tests.builders import NOW_MS
from tests.conformance.runner import Gate, RunnerBench, RunnerContract


class TestNodeWorkers(RunnerContract):
    """Threads and an event loop."""

    @pytest.fixture
    def bench(self) -> Iterator[RunnerBench]:
        """Make a runner with a few workers."""
        gate = Gate()
        settings = ExecutionSettings(workers=2)
        calls = Calls(clock=VirtualClock(NOW_MS), gate=gate, telemetry=RecordingTelemetry())
        workers = NodeWorkers(calls, settings)
        runner = NodeRunner(calls, workers, settings)
        yield RunnerBench(runner, gate, move=lambda: None)
        workers.close()


class TestVirtualWorkers(RunnerContract):
    """One attempt at a time in the caller's thread."""

    @pytest.fixture
    def bench(self) -> RunnerBench:
        """Make a runner that works when it is moved on."""
        gate = Gate()
        virtual = virtual_runner(
            clock=VirtualClock(NOW_MS), gate=gate, telemetry=RecordingTelemetry()
        )

        def move() -> None:
            while virtual.run_one():
                pass

        return RunnerBench(virtual.runner, gate, move)
