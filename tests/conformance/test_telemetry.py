"""Binds the telemetry contract to every telemetry there is."""

from collections.abc import Callable

import pytest

from actors.ports.telemetry import Telemetry
from scheduler.adapters.metrics import PrometheusTelemetry
from scheduler.adapters.telemetry import CompositeTelemetry, LoggingTelemetry
from scheduler.testing import RecordingTelemetry
from tests.conformance.telemetry import TelemetryContract

MAKERS: dict[str, Callable[[], Telemetry]] = {
    "logging": LoggingTelemetry,
    "prometheus": PrometheusTelemetry,
    "recording": RecordingTelemetry,
    "composite": lambda: CompositeTelemetry(LoggingTelemetry(), PrometheusTelemetry()),
}


@pytest.mark.parametrize("telemetry", MAKERS, indirect=True)
class TestTelemetry(TelemetryContract):
    """All of them."""

    @pytest.fixture
    def telemetry(self, request: pytest.FixtureRequest) -> Telemetry:
        """Make the telemetry that the parameter names."""
        return MAKERS[request.param]()
