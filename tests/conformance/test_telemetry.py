"""Binds the telemetry contract to every telemetry there is."""

from collections.abc import Callable

import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.lifecycle import LifecycleFeed
from hourhand.scheduler.adapters.memory.writer import MemoryMessages
from hourhand.scheduler.adapters.telemetry import LoggingTelemetry
from hourhand.scheduler.observe.node_telemetry import NodeTelemetry
from hourhand.scheduler.testing import RecordingTelemetry
from tests.builders import NOW_MS
from tests.conformance.telemetry import TelemetryContract


def _a_feed() -> Telemetry:
    clock = VirtualClock(NOW_MS)
    return LifecycleFeed(MemoryMessages(clock), "events", clock)


MAKERS: dict[str, Callable[[], Telemetry]] = {
    "logging": lambda: LoggingTelemetry(VirtualClock(NOW_MS)),
    "counting": lambda: NodeTelemetry(SystemClock()),
    "recording": RecordingTelemetry,
    "lifecycle": _a_feed,
    "telling": lambda: NodeTelemetry(
        SystemClock(), LoggingTelemetry(VirtualClock(NOW_MS)), RecordingTelemetry()
    ),
}


@pytest.mark.parametrize("telemetry", MAKERS, indirect=True)
class TestTelemetry(TelemetryContract):
    """All of them."""

    @pytest.fixture
    def telemetry(self, request: pytest.FixtureRequest) -> Telemetry:
        """Make the telemetry that the parameter names."""
        return MAKERS[request.param]()
