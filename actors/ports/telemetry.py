"""The one way out for everything worth knowing."""

from typing import Protocol

from actors.model.events import Event
from actors.ports.store import Stores


class Telemetry(Protocol):
    """Takes events; never raises, never blocks, may be called from any thread."""

    def emit(self, event: Event) -> None:
        """Take note of something that happened."""


class Feed(Telemetry, Protocol):
    """Publishes to a topic what happens to tasks, before it is stored."""

    def around(self, stores: Stores) -> Stores:
        """Return stores whose writes are published first; closing them closes the feed."""

    def close(self) -> None:
        """Wait, bounded, for what the topic has not acknowledged."""
