"""The one outlet for events."""

from typing import Protocol

from hourhand.actors.model.operations.events import Event


class Telemetry(Protocol):
    """Takes events; never raises, never blocks, may be called from any thread."""

    def emit(self, event: Event) -> None:
        """Handle an event."""
