"""The one way out for everything worth knowing."""

from collections.abc import Callable
from typing import Protocol

from actors.model.events import Event
from actors.ports.store import Stores


class Telemetry(Protocol):
    """Takes events; never raises, never blocks, may be called from any thread."""

    def emit(self, event: Event) -> None:
        """Take note of something that happened."""


class SelectiveTelemetry(Telemetry, Protocol):
    """Takes some events only; told apart beforehand, all others cost nothing."""

    def taker(self, kind: type[Event]) -> Callable[[Event], None] | None:
        """Return what takes the events of a class, asked once; None where nothing does.

        What is returned may raise: whoever asked shields the emitter.
        """


class Feed(Telemetry, Protocol):
    """Tells a topic what happens to tasks, before it is stored."""

    def around(self, stores: Stores) -> Stores:
        """Return stores whose writes are told first; closing them closes the feed."""

    def close(self) -> None:
        """Wait, bounded, for what the topic has not acknowledged."""
